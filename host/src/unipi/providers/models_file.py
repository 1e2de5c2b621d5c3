"""The user's `models.json`: models and prices that go before the built-in table.

    {
      "providers": {"local": {"api": "openai-chat-completions",
                              "base_url": "http://127.0.0.1:8080/v1"}},
      "models": {
        "local/qwen": {"context_window": 32768},
        "ollama/qwen3": {},
        "anthropic/claude-opus-5-5": {"prices": {"input": 3.5}}
      }
    }

Members are the fields of `Model`. A model starts from the built-in one of its name (or from what is
known of its provider: see `dialects`), then its provider's members, then its own; `prices` are laid
over each other field by field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from unipi_hookspecs import Model, Prices

from .dialects import DIALECTS
from .models import MODELS
from .verbs import VERBS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


class ModelsFileError(Exception):
    """`models.json` is wrong; the text names the file, the key and what belongs there."""


def load_models(path: Path | None) -> Mapping[str, Model]:
    """The built-in models under those of a user's file; a missing file adds nothing.

    Raises ModelsFileError.
    """
    if path is None:
        return MODELS
    try:
        source = path.read_bytes()
    except FileNotFoundError:
        return MODELS
    except OSError as error:
        raise ModelsFileError(f"{path} cannot be read: {error.strerror}") from None
    import orjson

    try:
        document = orjson.loads(source)
    except orjson.JSONDecodeError as error:
        raise ModelsFileError(
            f"{path} is not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        ) from None
    return _Reader(path).read(document)


@attrs.frozen
class _Reader:
    path: Path

    def read(self, document: object) -> Mapping[str, Model]:
        top = self._object(document, "the file")
        unknown = top.keys() - {"providers", "models"}
        if unknown:
            raise self._wrong(min(unknown), 'is unknown; the keys are "providers" and "models"')
        providers = {
            name: self._members(self._object(value, f"providers.{name}"), f"providers.{name}")
            for name, value in self._object(top.get("providers", {}), "providers").items()
        }
        merged = {
            name: self._laid_over(model, providers.get(model.provider, {}))
            for name, model in MODELS.items()
        }
        for name, value in self._object(top.get("models", {}), "models").items():
            key = f"models.{name}"
            own = self._members(self._object(value, key), key)
            merged[name] = self._model(name, merged.get(name), providers, own)
        return merged

    def _model(
        self,
        name: str,
        base: Model | None,
        providers: Mapping[str, Mapping[str, object]],
        own: Mapping[str, object],
    ) -> Model:
        if base is None:
            provider, _, model_id = name.partition("/")
            given = {**_usual(provider), **providers.get(provider, {}), **own}
            if not provider or not model_id:
                raise self._wrong(f"models.{name}", "must be named provider/id")
            for needed in ("api", "base_url"):
                if needed not in given:
                    raise self._wrong(f"models.{name}.{needed}", "is missing")
            base = Model(provider, model_id, api=str(given["api"]), base_url=str(given["base_url"]))
            own = given
        return self._laid_over(base, own)

    def _laid_over(self, base: Model, members: Mapping[str, object]) -> Model:
        changes: dict[str, Any] = dict(members)  # checked field by field in _members
        if "prices" in changes:
            start = base.prices or Prices(input=0.0, output=0.0, cache_read=0.0, cache_write=0.0)
            origin = {"source": str(self.path), "as_of": ""}
            changes["prices"] = attrs.evolve(start, **{**origin, **changes["prices"]})
        return attrs.evolve(base, **changes)

    def _members(self, given: Mapping[str, object], key: str) -> Mapping[str, object]:
        for name, value in given.items():
            check = _FIELDS.get(name)
            if check is None:
                raise self._wrong(f"{key}.{name}", f"is unknown; known: {', '.join(_FIELDS)}")
            expected, fits = check
            if not fits(value):
                raise self._wrong(f"{key}.{name}", f"must be {expected}")
            if name == "prices":
                self._prices(self._object(value, f"{key}.prices"), f"{key}.prices")
        return given

    def _prices(self, given: Mapping[str, object], key: str) -> None:
        known = attrs.fields_dict(Prices)
        for name, value in given.items():
            if name not in known:
                raise self._wrong(f"{key}.{name}", f"is unknown; known: {', '.join(known)}")
            if name in {"as_of", "source"}:
                if not isinstance(value, str):
                    raise self._wrong(f"{key}.{name}", "must be a string")
            elif not _is_price(value):
                raise self._wrong(f"{key}.{name}", "must be US dollars per million tokens")

    def _object(self, value: object, key: str) -> Mapping[str, object]:
        if not isinstance(value, dict):
            raise self._wrong(key, "must be an object")
        return value

    def _wrong(self, key: str, problem: str) -> ModelsFileError:
        return ModelsFileError(f"{self.path}: {key} {problem}")


def _usual(provider: str) -> Mapping[str, object]:
    """What is known of a provider by its name: where it is, its key, how it speaks."""
    dialect = DIALECTS.get(provider)
    if dialect is None:
        return {}
    return {
        "api": "openai-chat-completions",
        "base_url": dialect.base_url,
        "context_window": dialect.context_window,
        "dialect": dialect.name,
        "api_key_env": dialect.api_key_env,
    }


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_price(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_verbs(value: object) -> bool:
    return isinstance(value, list) and all(item in VERBS for item in value)


def _is_text_map(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


_FIELDS: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    "api": ("a string", _is_text),
    "base_url": ("a string", _is_text),
    "context_window": ("a number of tokens", _is_count),
    "max_tokens": ("a number of tokens", _is_count),
    "min_cache_tokens": ("a number of tokens", _is_count),
    "reasoning": ("true or false", lambda value: isinstance(value, bool)),
    "binds_thinking": ("true or false", lambda value: isinstance(value, bool)),
    "asks_miss_reason": ("true or false", lambda value: isinstance(value, bool)),
    "verbs": (f"a list of {', '.join(VERBS)}", _is_verbs),
    "input": ('a list such as ["text", "image"]', _is_texts),
    "prices": ("an object", lambda value: isinstance(value, dict)),
    "dialect": ("a string", _is_text),
    "api_key_env": (
        'a variable name, "!" and a command, or null',
        lambda v: v is None or _is_text(v),
    ),
    "headers": ("an object of strings", _is_text_map),
    "options": ("an object", lambda value: isinstance(value, dict)),
}
