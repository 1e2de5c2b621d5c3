"""What the plugin can be told, each value brought into its range."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from attrs import evolve, field, frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unipi_hookspecs import JSON

Mode: TypeAlias = Literal["deterministic", "model"]
_DAY: Final = 86_400


@frozen
class Trigger:
    """The percentage trigger; `percent` of the window, `cooldown` in seconds, `growth` in tokens."""

    enabled: bool = False
    percent: int = 80
    cooldown: int = 60
    growth: int = 4_000


@frozen
class Options:
    """How a summary is made; sizes in bytes of UTF-8, other numbers count lines of a section.

    `mode` is who writes it: "deterministic" is this plugin, "model" leaves it to the host.
    """

    mode: Mode = "deterministic"
    preset: str = "balanced"
    summary_bytes: int = 32_768
    requests_bytes: int = 12_288
    message_bytes: int = 4_096
    constraints: int = 16
    decisions: int = 24
    files: int = 40
    commits: int = 12
    errors: int = 12
    transcript: int = 120
    resume_bytes: int = 2_048
    off: frozenset[str] = frozenset()
    trigger: Trigger = field(factory=Trigger)


PRESETS: Final[Mapping[str, Options]] = {
    "balanced": Options(),
    "lean": Options(
        preset="lean",
        summary_bytes=8_192,
        requests_bytes=4_096,
        message_bytes=2_048,
        constraints=8,
        decisions=8,
        files=15,
        commits=5,
        errors=6,
        transcript=30,
    ),
    "precise": Options(
        preset="precise",
        summary_bytes=20_480,
        requests_bytes=12_288,
        constraints=16,
        decisions=16,
        transcript=0,
    ),
    "thorough": Options(
        preset="thorough",
        summary_bytes=65_536,
        requests_bytes=24_576,
        message_bytes=8_192,
        constraints=30,
        decisions=50,
        files=100,
        commits=30,
        errors=30,
        transcript=300,
    ),
}
"""`precise` has the user's words and facts without a transcript; `lean` is a quarter of `balanced`."""

_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "summary_bytes": (1_024, 262_144),
    "requests_bytes": (512, 131_072),
    "message_bytes": (256, 65_536),
    "constraints": (0, 200),
    "decisions": (0, 200),
    "files": (0, 500),
    "commits": (0, 200),
    "errors": (0, 200),
    "transcript": (0, 2_000),
    "resume_bytes": (256, 4_096),
}
_TRIGGER_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "percent": (1, 99),
    "cooldown": (0, _DAY),
    "growth": (0, 10_000_000),
}


def read_options(settings: Mapping[str, JSON], preset: str | None = None) -> Options:
    """Options from the plugin's settings; `preset` is one that was chosen for the session.

    A key that the settings hold wins over a preset. What makes no sense counts as not given.
    """
    name = preset if preset in PRESETS else settings.get("preset")
    options = PRESETS[name] if isinstance(name, str) and name in PRESETS else PRESETS["balanced"]
    given: dict[str, int] = {
        key: clamp(settings.get(key), getattr(options, key), *limits)
        for key, limits in _RANGES.items()
    }
    off = settings.get("sections_off")
    return evolve(
        options,
        mode=_mode(settings.get("mode")),
        off=frozenset(x for x in off if isinstance(x, str))
        if isinstance(off, list)
        else options.off,
        trigger=_trigger(settings.get("trigger")),
        summary_bytes=given["summary_bytes"],
        requests_bytes=given["requests_bytes"],
        message_bytes=given["message_bytes"],
        constraints=given["constraints"],
        decisions=given["decisions"],
        files=given["files"],
        commits=given["commits"],
        errors=given["errors"],
        transcript=given["transcript"],
        resume_bytes=given["resume_bytes"],
    )


def _mode(value: JSON) -> Mode:
    return "model" if value == "model" else "deterministic"


def _trigger(value: JSON) -> Trigger:
    from collections.abc import Mapping as Map

    if not isinstance(value, Map):
        return Trigger(enabled=value is True)
    plain = Trigger()
    given: dict[str, int] = {
        key: clamp(value.get(key), getattr(plain, key), *limits)
        for key, limits in _TRIGGER_RANGES.items()
    }
    return Trigger(enabled=value.get("enabled") is True, **given)


def clamp(value: object, default: int, least: int, most: int) -> int:
    """A whole number in a range, from whatever came: numbers are floored, texts of digits read.

    NaN, booleans and everything else give `default`; infinities the nearer end.
    """
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        return default
    if isinstance(value, float):
        if math.isnan(value):
            return default
        if math.isinf(value):
            return most if value > 0 else least
        value = math.floor(value)
    return max(least, min(most, value))
