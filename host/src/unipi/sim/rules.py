"""The cache rules of each kind of provider, as data.

Sources: Anthropic "Prompt caching" (2026-08-22), OpenAI "Prompt caching" (2026-07-15) and the
Cookbook's "Prompt Caching 201", DeepSeek "Context Caching", vLLM's prefix-caching design page,
llama.cpp's server README. Figures change often: they live here and nowhere else.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

MINUTE = 60.0
HOUR = 3600.0

# Shortest prefix that is cached at all, in tokens (Anthropic, "Prompt caching").
ANTHROPIC_MINIMUMS: Mapping[str, int] = MappingProxyType(
    {
        "claude-opus-5": 512,
        "claude-sonnet-5-5": 512,
        "claude-haiku-5-5": 512,
        "claude-fable-5": 512,
        "claude-mythos-5": 512,
        "claude-opus-4-7": 2048,
        "claude-opus-4-6": 4096,
        "claude-opus-4-5": 4096,
        "claude-haiku-4-5": 4096,
    }
)
# Models that strip earlier thinking when a new user text arrives (same source).
ANTHROPIC_STRIPS_THINKING = (
    "claude-3",
    "claude-haiku-4",
    "claude-opus-4-0",
    "claude-opus-4-1",
    "claude-opus-4-2025",
    "claude-sonnet-4-0",
    "claude-sonnet-4-5",
    "claude-sonnet-4-2025",
)
# Models that take system messages in mid-conversation ("Mid-conversation system messages").
ANTHROPIC_SYSTEM_MESSAGES = (
    "claude-fable-5",
    "claude-mythos-5",
    "claude-opus-4-8",
    "claude-opus-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
)
# Models that take another effort in mid-conversation ("Per-message effort").
ANTHROPIC_MESSAGE_EFFORT = (
    "claude-fable-5-1",
    "claude-fable-5-2",
    "claude-mythos-5-1",
    "claude-mythos-5-2",
    "claude-opus-5",
    "claude-sonnet-5-5",
)
# Models that take `additional_tools` items (model profiles of @langchain/openai 1.6.3).
OPENAI_ADDITIONAL_TOOLS = ("gpt-4.1", "gpt-5", "gpt-6", "o3")


@attrs.frozen
class Profile:
    """How one kind of provider caches.

    Attributes:
        name: the profile's name.
        kind: ``markers`` (entries only where the request marks), ``breakpoints`` (newest message
            and explicit ones), ``prefix`` (longest common prefix), ``units`` (stored units, whole).
        default_minimum: shortest cached prefix in tokens.
        minimums: per model (by the longest name prefix), overriding the default.
        ttl: seconds an entry lives, from the start of the request that wrote or read it; None: no
            expiry.
        granularity: hits are floored to this many tokens.
        max_markers: ``cache_control`` markers a request may carry.
        look_back: positions tried from each marker, the marker's own included.
        max_writes: breakpoints written per request.
        max_breakpoints: latest breakpoints that a read considers.
        routes: entries are kept apart by ``prompt_cache_key``.
        requires_key: nothing is read without a ``prompt_cache_key``.
        settings_in_key: effort, verbosity and the like are part of the key.
        keeps_output: the answer's own tokens are cached too.
        leaves_last: the last token is always computed anew.
        single_slot: only the latest prompt is kept.
        counts_writes: usage reports written tokens.
        knows_options: accepts ``prompt_cache_options`` and ``prompt_cache_breakpoint``.
        refuses_unknown: (chat) unknown request members are a 400.
        wants_reasoning: (chat) in thinking mode, messages with tool calls must carry
            ``reasoning_content``.
        usage: which usage fields chat completions reports in.
        strips_thinking: name prefixes of models that drop old thinking from the prompt.
    """

    name: str
    kind: Literal["markers", "breakpoints", "prefix", "units"]
    default_minimum: int = 0
    minimums: Mapping[str, int] = attrs.field(factory=dict)
    ttl: float | None = None
    granularity: int = 1
    max_markers: int = 4
    look_back: int = 20
    max_writes: int = 4
    max_breakpoints: int = 80
    routes: bool = False
    requires_key: bool = False
    settings_in_key: bool = False
    keeps_output: bool = False
    leaves_last: bool = False
    single_slot: bool = False
    counts_writes: bool = False
    knows_options: bool = False
    refuses_unknown: bool = False
    wants_reasoning: bool = False
    usage: Literal["openai", "deepseek", "llama"] = "openai"
    strips_thinking: tuple[str, ...] = ()

    def minimum(self, model: str) -> int:
        """Shortest cached prefix for ``model``, in tokens."""
        matches = [name for name in self.minimums if model.startswith(name)]
        return self.minimums[max(matches, key=len)] if matches else self.default_minimum


_PROFILES = (
    Profile(
        "anthropic",
        "markers",
        default_minimum=1024,
        minimums=ANTHROPIC_MINIMUMS,
        ttl=5 * MINUTE,
        counts_writes=True,
        strips_thinking=ANTHROPIC_STRIPS_THINKING,
    ),
    Profile(
        "openai_legacy",
        "prefix",
        default_minimum=1024,
        # In-memory entries live 5 to 10 idle minutes; the simulator takes the shorter.
        ttl=5 * MINUTE,
        granularity=128,
        routes=True,
        settings_in_key=True,
        refuses_unknown=True,
    ),
    Profile(
        "openai_56",
        "breakpoints",
        default_minimum=1024,
        ttl=30 * MINUTE,
        requires_key=True,
        settings_in_key=True,
        counts_writes=True,
        knows_options=True,
        refuses_unknown=True,
    ),
    Profile("deepseek", "units", keeps_output=True, wants_reasoning=True, usage="deepseek"),
    Profile("block16", "prefix", granularity=16, keeps_output=True, leaves_last=True),
    Profile(
        "exact", "prefix", keeps_output=True, leaves_last=True, single_slot=True, usage="llama"
    ),
)

PROFILES: Mapping[str, Profile] = MappingProxyType({p.name: p for p in _PROFILES})
