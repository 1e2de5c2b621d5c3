"""What the plugin registers, as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from unipi_hookspecs import Setting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unipi_hookspecs import JSON

DESCRIPTION: Final = (
    "Search what was said and done earlier and is no longer in your context: the compacted part of this "
    "session and the other sessions of this project. Use it before asking the user again. Words, names, "
    "paths and error texts all work; every word counts, word order does not."
)
PARAMETERS: Final[Mapping[str, JSON]] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What to look for."},
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": 50,
            "description": "Hits a page; 10 by default.",
        },
        "offset": {
            "type": "integer",
            "minimum": 0,
            "description": "Hits to pass over: 10 for the second page. With `entry`: characters.",
        },
        "expand": {
            "type": "boolean",
            "description": "Show entries whole, up to 16 KiB each, instead of excerpts.",
        },
        "entry": {
            "type": "string",
            "description": "Instead of a query: the id in brackets of one entry, to see it whole.",
        },
        "scope": {
            "type": "string",
            "enum": ["all", "session"],
            "description": "`session` leaves other sessions out.",
        },
    },
    "additionalProperties": False,
}

_COUNT: Final[Mapping[str, JSON]] = {"type": "integer", "minimum": 0}
SETTINGS: Final[Sequence[Setting]] = [
    Setting(
        "mode",
        "Who writes the summary: this plugin, or the model that the host asks.",
        {"enum": ["deterministic", "model"]},
        "deterministic",
    ),
    Setting(
        "preset",
        "How much a summary holds.",
        {"enum": ["lean", "balanced", "precise", "thorough"]},
        "balanced",
    ),
    Setting(
        "sections_off",
        "Sections that a summary goes without: requests, constraints, decisions, files, commits, "
        "errors, open, earlier, transcript.",
        {"type": "array", "items": {"type": "string"}},
    ),
    Setting("summary_bytes", "The most bytes of a summary.", _COUNT, 32_768),
    Setting("requests_bytes", "Of them, the most for what the user asked.", _COUNT, 12_288),
    Setting("message_bytes", "The most bytes of one request.", _COUNT, 4_096),
    Setting("constraints", "The most lines of that section.", _COUNT, 16),
    Setting("decisions", "The most lines of that section.", _COUNT, 24),
    Setting("files", "The most paths of a list.", _COUNT, 40),
    Setting("commits", "The most commits.", _COUNT, 12),
    Setting("errors", "The most failures, of the open ones and of those put right.", _COUNT, 12),
    Setting("transcript", "The most steps; 0 leaves them out.", _COUNT, 120),
    Setting("resume_bytes", "The most bytes of the resume context.", _COUNT, 2_048),
    Setting(
        "trigger",
        "Compact at a share of the window: `enabled`, `percent` (80), `cooldown` in seconds (60), "
        "`growth` in tokens (4,000).",
        {"type": "object"},
        {"enabled": False},
    ),
]
