"""Prices: those of the recording first, then the user's, then examples.

A recording that states what each answer cost tells its own rates; they are what was paid. The
examples are those of the price map shipped in litellm 1.110.2, read on 2026-12-01, in US dollars
per million tokens, standard tier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import define, evolve, field, frozen

from .audit_records import obj

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .audit import Judged
    from .audit_records import Answer

AS_OF: Final = "2026-12-01"


@frozen
class Rates:
    """US dollars per million tokens; None is unknown."""

    input: float | None = None
    output: float | None = None
    read: float | None = None
    write: float | None = None
    write_1h: float | None = None


EXAMPLES: Final[Mapping[str, Rates]] = {
    "claude-opus-5-5": Rates(4.0, 20.0, 0.20, 5.0, 8.0),
    "claude-opus-5": Rates(5.0, 25.0, 0.50, 6.25, 10.0),
    "claude-sonnet-5": Rates(2.0, 10.0, 0.20, 2.5, 4.0),
    "claude-haiku-4-5": Rates(1.0, 5.0, 0.10, 1.25, 2.0),
    "claude-fable-5-1": Rates(10.0, 50.0, 0.25, 12.5, 20.0),
    "gpt-6.1-sol": Rates(2.0, 10.0, 0.10, 2.5, 5.0),
    "gpt-6-luna": Rates(0.10, 0.50, 0.01, 0.125, 0.25),
    "gpt-6-astra": Rates(10.0, 50.0, 1.0, 12.5, 25.0),
    "gpt-5.5": Rates(5.0, 30.0, 0.50, 5.0, 5.0),
    "gemini-3.8-flash": Rates(0.75, 3.75, 0.075, 0.75, 0.75),
    "deepseek-v4-pro": Rates(1.32, 3.96, 0.044, 1.32, 1.32),
    "grok-4.7": Rates(2.0, 6.0, 0.50, 2.0, 2.0),
    "mistral-large-4": Rates(0.70, 2.10, 0.07, 0.70, 0.70),
}
"""By model name; where writes are listed nowhere they cost what input costs."""


@define
class PriceBook:
    """Finds the rates of a model, and learns them from what recordings state.

    `own` are the user's, by the name of a model; a dated name (`claude-opus-5-5-20260901`) finds
    the rates of the longest name that it begins with.
    """

    own: Mapping[str, Rates] = field(factory=dict)
    _learnt: dict[tuple[str, str], Rates] = field(factory=dict)
    _found: dict[str, Rates | None] = field(factory=dict)

    def learn(self, answer: Answer) -> None:
        """Take the rates out of an answer that states its cost."""
        if answer.cost is None:
            return
        key = (answer.provider, answer.model)
        rates = self._learnt.get(key) or Rates()
        counts = {
            "input": answer.fresh,
            "output": answer.output,
            "read": answer.read or 0,
            "write": answer.written or 0,
        }
        known = {
            kind: answer.cost.get(kind, 0.0) * 1e6 / number
            for kind, number in counts.items()
            if number and answer.cost.get(kind) and getattr(rates, kind) is None
        }
        if known:
            self._learnt[key] = evolve(rates, **known)

    def of(self, answer: Answer) -> Rates | None:
        """What is known of a model's rates; None for a model that nobody has priced."""
        learnt = self._learnt.get((answer.provider, answer.model))
        listed = self._listed(answer.model)
        if learnt is None or listed is None:
            return learnt or listed
        return Rates(
            *(
                own if own is not None else other
                for own, other in zip(_values(learnt), _values(listed), strict=True)
            )
        )

    def _listed(self, model: str) -> Rates | None:
        name = model.rpartition("/")[2]
        if name not in self._found:
            self._found[name] = _longest(name, self.own) or _longest(name, EXAMPLES)
        return self._found[name]

    def cost(self, answer: Answer) -> float | None:
        """What an answer cost in US dollars: as recorded, else by its rates, else None."""
        if answer.cost is not None:
            return sum(answer.cost.values())
        rates = self.of(answer)
        if rates is None or rates.input is None:
            return None
        long = min(answer.written_1h, answer.written or 0)
        write = _or(rates.write, rates.input)
        paid = (
            answer.fresh * rates.input
            + (answer.read or 0) * _or(rates.read, rates.input)
            + ((answer.written or 0) - long) * write
            + long * _or(rates.write_1h, write)
            + answer.output * _or(rates.output, 0.0)
        )
        return paid / 1e6

    def loss(self, judged: Judged) -> float | None:
        """What a miss cost more than reading the same tokens would have, in US dollars."""
        answer = judged.answer
        rates = self.of(answer)
        if rates is None or rates.read is None or (rates.input is None and rates.write is None):
            return None
        fresh = _or(rates.input, _or(rates.write, 0.0))
        write = _or(rates.write, fresh)
        if answer.written_1h and rates.write_1h is not None:
            write = rates.write_1h
        written = min(judged.repaid, answer.written or 0)
        paid = written * write + (judged.repaid - written) * fresh
        return max(0.0, paid - judged.repaid * rates.read) / 1e6


def own_rates(settings: Mapping[str, object]) -> dict[str, Rates]:
    """The user's rates from the plugin's settings: `{"prices": {"model": {"input": 4.0, …}}}`.

    The names are those of the host's prices: `input`, `output`, `cache_read`, `cache_write`,
    `cache_write_1h`. What is no number is left out.
    """
    found: dict[str, Rates] = {}
    for model, given in obj(settings.get("prices")).items():
        stated = obj(given)
        names = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
        rates = Rates(*(_rate(stated.get(name)) for name in names))
        if rates != Rates():
            found[model.rpartition("/")[2]] = rates
    return found


def _longest(name: str, table: Mapping[str, Rates]) -> Rates | None:
    fitting = [known for known in table if name == known or name.startswith(f"{known}-")]
    return table[max(fitting, key=len)] if fitting else None


def _rate(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        return None
    return float(value)


def _or(value: float | None, other: float) -> float:
    return other if value is None else value


def _values(rates: Rates) -> tuple[float | None, ...]:
    return rates.input, rates.output, rates.read, rates.write, rates.write_1h
