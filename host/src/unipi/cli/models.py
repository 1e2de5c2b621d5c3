"""`unipi models`: the models known here, their limits and prices, and what servers say they have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from attrs import frozen

from ._load import choose_model, load_host
from ._output import fail, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unipi.providers.discovery import Found
    from unipi_hookspecs import JSON, Model


@frozen
class _Asked:
    """What one provider answered: its models, or why there are none."""

    provider: str
    models: Sequence[Found] = ()
    error: str | None = None
    keyless: bool = False  # it was not asked, for want of a key


@click.group()
def models() -> None:
    """The models known here, their prices and limits."""


@models.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option("--discover", is_flag=True, help="Ask the providers which models they serve.")
@click.option("--provider", help="Only this provider.")
def list_command(*, as_json: bool, discover: bool, provider: str | None) -> None:
    """List the built-in models, those of plugins, and those of models.json.

    With --discover each provider whose key is there is asked for its own list, and so are the
    servers that usually run on this machine (vLLM, SGLang, llama.cpp, Ollama).
    """
    host, _ = load_host(Path.cwd())
    known = {n: m for n, m in host.models.items() if provider in {None, m.provider}}
    asked = _discover(host.models, provider) if discover else []
    if provider is not None and not known and not asked:
        names = ", ".join(sorted({m.provider for m in host.models.values()}))
        fail(f"no provider {provider!r}; there are {names}. Add others in models.json.", 2)
    new = [found for answer in asked for found in answer.models]
    new = [found for found in new if f"{found.provider}/{found.id}" not in known]
    if as_json:
        print_json(
            {
                "models": [_document(model) for _, model in sorted(known.items())],
                "discovered": [
                    {"name": f"{f.provider}/{f.id}", "context_window": f.context_window}
                    for f in new
                ],
                "errors": {a.provider: a.error for a in asked if a.error is not None},
            }
        )
    else:
        _print_list(known, new)
    for answer in asked:
        if answer.error is not None:
            click.echo(f"unipi: {answer.provider}: {answer.error}", err=True)
    if provider is not None and any(answer.error for answer in asked):
        raise SystemExit(1)


@models.command(name="show")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option("--discover", is_flag=True, help="Ask its provider whether it serves the model.")
def show_command(name: str, *, as_json: bool, discover: bool) -> None:
    """Show what is known of the model NAME (provider/id, or an id that one provider has)."""
    host, settings = load_host(Path.cwd())
    model = choose_model(host, settings, name)
    document = _document(model)
    if discover:
        (answer,) = _ask([model])
        if answer.error is not None:
            fail(f"{model.provider}: {answer.error}")
        mine = next((found for found in answer.models if found.id == model.id), None)
        document["served"] = mine is not None
        document["served_context_window"] = mine.context_window if mine else None
    if as_json:
        print_json(document)
        return
    rows = [(key, _shown(value)) for key, value in document.items() if key != "prices"]
    prices = document["prices"]
    if isinstance(prices, dict):
        rows += [(f"price {key}", _shown(value)) for key, value in prices.items()]
    else:
        rows.append(("prices", "not known"))
    print_table(model.name, ("what", "value"), rows)


def _document(model: Model) -> dict[str, JSON]:
    """A model as JSON: no header's value and no key command, either may hold a secret."""
    from attrs import asdict

    from unipi.providers.connections import shown_address
    from unipi.providers.models import thinking_levels
    from unipi.providers.verbs import verbs_of

    return {
        "name": model.name,
        "api": model.api,
        "base_url": shown_address(model.base_url),
        "dialect": model.dialect,
        "context_window": model.context_window,
        "max_tokens": model.max_tokens,
        "min_cache_tokens": model.min_cache_tokens,
        "input": list(model.input),
        "thinking": dict(thinking_levels(model)),
        "verbs": sorted(verbs_of(model)),
        "key": _key(model),
        "prices": asdict(model.prices) if model.prices is not None else None,
    }


def _key(model: Model) -> dict[str, JSON]:
    source = model.api_key_env
    if not source:
        return {"source": "none needed", "available": True}
    if source.startswith("!"):
        return {"source": "a command", "available": None}
    return {"source": source, "available": bool(os.environ.get(source, "").strip())}


def _shown(value: object) -> object:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {'-' if v is None else v}" for key, v in value.items()) or "-"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return value


def _print_list(known: Mapping[str, Model], new: Sequence[Found]) -> None:
    print_table(
        "Models (US dollars per million tokens)",
        ("model", "window", "cached from", "input", "read", "output"),
        [
            (name, m.context_window, m.min_cache_tokens, *_prices(m))
            for name, m in sorted(known.items())
        ],
    )
    if new:
        print_table(
            "Served as well",
            ("model", "window"),
            [(f"{found.provider}/{found.id}", found.context_window) for found in new],
        )


def _prices(model: Model) -> tuple[object, ...]:
    p = model.prices
    return (None,) * 3 if p is None else (p.input, p.cache_read, p.output)


def _discover(known: Mapping[str, Model], provider: str | None) -> list[_Asked]:
    """Ask one model's server for each provider.

    Unless it was named, a provider without a key or a server that happens not to run is no error.
    """
    from unipi.providers.dialects import DIALECTS
    from unipi.providers.models import assumed

    chosen: dict[str, Model] = {}
    for model in known.values():
        chosen.setdefault(model.provider, model)
    guesses = [name for name in DIALECTS if name not in chosen]
    for name in guesses:
        dialect = DIALECTS[name]
        guess = assumed(f"{name}/any")
        if guess is not None and (dialect.is_local or name == provider):
            chosen[name] = guess
    wanted = [model for name, model in chosen.items() if provider in {None, name}]
    answers = _ask(wanted)
    if provider is not None:
        return answers
    return [a for a in answers if a.error is None or not (a.keyless or a.provider in guesses)]


def _ask(wanted: Sequence[Model]) -> list[_Asked]:
    """Ask all servers at once."""
    import anyio

    from unipi.providers import ProviderError, SecretError, find_secret
    from unipi.providers.discovery import discover

    answers: dict[str, _Asked] = {}

    async def ask(model: Model) -> None:
        try:
            found = await discover(model, await find_secret(model))
            answers[model.provider] = _Asked(model.provider, found)
        except ProviderError as error:
            answers[model.provider] = _Asked(model.provider, error=str(error))
        except SecretError as error:
            answers[model.provider] = _Asked(model.provider, error=str(error), keyless=True)

    async def everyone() -> None:
        async with anyio.create_task_group() as tasks:
            for model in wanted:
                tasks.start_soon(ask, model)

    anyio.run(everyone)
    return [answers[model.provider] for model in wanted]
