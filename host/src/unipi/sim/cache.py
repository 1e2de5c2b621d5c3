"""What a provider's cache holds, and what a request reads from it and writes to it.

A rule looks a prompt up when the request arrives and answers with a `Hit`. Entries become readable
when the response begins (`Hit.begin`), the answer's own when it ends (`Hit.finish`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

from unipi.sim.prefix_tree import Match, Node, follow, insert, longest_unit, mark_divergence
from unipi.sim.prompt import BYTES_PER_TOKEN, Block, Prompt, digest, size_of, tokens_in
from unipi.sim.rules import HOUR, Profile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FOREVER = float("inf")


def _nothing() -> None:
    return None


def _no_output(_blocks: Sequence[Block]) -> None:
    return None


@attrs.frozen
class Hit:
    """One request's dealings with the cache, in tokens.

    Attributes:
        prompt: tokens of the whole prompt.
        cached: tokens read.
        written_short: tokens written at the profile's own TTL.
        written_long: tokens written at a longer one that was asked for.
        begin: to be called as the first response byte goes out.
        finish: to be called with the rendered answer before its last byte goes out.
    """

    prompt: int
    cached: int = 0
    written_short: int = 0
    written_long: int = 0
    begin: Callable[[], None] = _nothing
    finish: Callable[[Sequence[Block]], None] = _no_output

    @property
    def written(self) -> int:
        """Tokens written, at either TTL."""
        return self.written_short + self.written_long


class CacheRule(Protocol):
    """A provider's cache."""

    def look_up(self, prompt: Prompt, now: float) -> Hit:
        """What ``prompt`` reads and writes at ``now`` seconds."""


def make_cache(profile: Profile) -> CacheRule:
    """The empty cache of a profile."""
    if profile.kind == "markers":
        return MarkerCache(profile)
    if profile.kind == "breakpoints":
        return BreakpointCache(profile)
    return PrefixCache(profile)


class _Entry:
    """An entry of a digest-keyed cache: how long it lives from each use, and until when."""

    __slots__ = ("expires", "ttl")

    def __init__(self, ttl: float, expires: float) -> None:
        self.ttl = ttl
        self.expires = expires


def _keep(entries: dict[bytes, _Entry], link: bytes, ttl: float, now: float) -> None:
    found = entries.get(link)
    if found is None or found.expires < now:
        entries[link] = _Entry(ttl, now + ttl)
    else:
        found.expires = max(found.expires, now + found.ttl)


class MarkerCache:
    """Anthropic: entries at markers only, read by looking back 20 positions from each marker."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._entries: dict[bytes, _Entry] = {}

    def look_up(self, prompt: Prompt, now: float) -> Hit:
        """Read the longest entry near a marker; write up to the last marker."""
        ends = prompt.ends()
        total = tokens_in(ends[-1]) if ends else 0
        marked = [i for i, block in enumerate(prompt.blocks) if block.marker is not None]
        if not marked:
            return Hit(total)
        links = prompt.chain()
        read = max((self._read(links, place, now) for place in marked), default=-1)
        minimum = self._profile.minimum(prompt.model)
        writes = [
            (place, prompt.blocks[place].marker or 0.0)
            for place in marked
            if tokens_in(ends[place]) >= minimum
        ]
        cached = tokens_in(ends[read]) if read >= 0 else 0
        last = max((tokens_in(ends[place]) for place, _ in writes), default=cached)
        long_places = [tokens_in(ends[place]) for place, ttl in writes if ttl >= HOUR]
        long_end = max([cached, *long_places])

        def begin() -> None:
            for place, ttl in writes:
                _keep(self._entries, links[place], ttl, now)

        return Hit(total, cached, max(last - long_end, 0), long_end - cached, begin)

    def _read(self, links: Sequence[bytes], place: int, now: float) -> int:
        """The nearest live entry at or before a marker, refreshed; -1 if there is none."""
        stop = max(place - self._profile.look_back, -1)
        for position in range(place, stop, -1):
            entry = self._entries.get(links[position])
            if entry is not None and entry.expires >= now:
                entry.expires = max(entry.expires, now + entry.ttl)
                return position
        return -1


class BreakpointCache:
    """OpenAI from GPT-5.6 on: entries at the newest message and at explicit breakpoints."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._entries: dict[bytes, _Entry] = {}

    def look_up(self, prompt: Prompt, now: float) -> Hit:
        """Read the longest entry among the latest breakpoints; write at this request's."""
        ends = prompt.ends()
        total = tokens_in(ends[-1]) if ends else 0
        scope = (prompt.key or "").encode() + b"\0"
        links = [digest(scope + link) for link in prompt.chain()]
        read = self._read(prompt, links, now)
        minimum = self._profile.minimum(prompt.model)
        writes = [i for i in self._writes(prompt) if tokens_in(ends[i]) >= minimum]
        cached = tokens_in(ends[read]) if read >= 0 else 0
        last = max((tokens_in(ends[i]) for i in writes), default=0)
        ttl = prompt.retention or self._profile.ttl or FOREVER

        def begin() -> None:
            for place in writes:
                _keep(self._entries, links[place], ttl, now)

        written = max(last - cached, 0)
        long = written if prompt.retention else 0
        return Hit(total, cached, written - long, long, begin)

    def _writes(self, prompt: Prompt) -> list[int]:
        explicit = [i for i, block in enumerate(prompt.blocks) if block.breakpoint]
        if prompt.explicit_only:
            return explicit[-self._profile.max_writes :]
        latest = len(prompt.blocks) - 1
        if latest < 0:
            return []
        kept = [i for i in explicit if i != latest]
        return [*kept[-(self._profile.max_writes - 1) :], latest]

    def _read(self, prompt: Prompt, links: Sequence[bytes], now: float) -> int:
        if self._profile.requires_key and prompt.key is None:
            return -1
        if prompt.explicit_only and not any(block.breakpoint for block in prompt.blocks):
            return -1
        passed = 0
        for place in range(len(links) - 1, -1, -1):
            entry = self._entries.get(links[place])
            if entry is not None and entry.expires >= now:
                entry.expires = max(entry.expires, now + entry.ttl)
                return place
            passed += prompt.blocks[place].ends_message or prompt.blocks[place].breakpoint
            if passed >= self._profile.max_breakpoints:
                return -1
        return -1


class PrefixCache:
    """Longest common prefix, or longest stored unit, over all prompts of one bucket."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._roots: dict[bytes, Node] = {}

    def look_up(self, prompt: Prompt, now: float) -> Hit:
        """Read what an earlier prompt shares with this one, at the profile's granularity."""
        size = size_of(prompt.blocks)
        total = tokens_in(size)
        bucket = self._bucket(prompt)
        root = self._roots.get(bucket) or Node(b"")
        match = follow(root, prompt.blocks, now)
        shared = self._shared(match, prompt, size)
        limit = total - 1 if self._profile.leaves_last else total
        cached = min(shared, limit)
        cached -= cached % self._profile.granularity
        if cached < max(self._profile.minimum(prompt.model), 0):
            cached = 0
        ttl = prompt.retention or self._profile.ttl or FOREVER

        def begin() -> None:
            nonlocal root
            if self._profile.single_slot:
                self._roots.clear()
                root = Node(b"")
            root = self._roots.setdefault(bucket, root)
            if self._profile.kind == "units" and 0 < match.size < size:
                mark_divergence(match, prompt.blocks)
            insert(root, prompt.blocks, now + ttl).unit = True

        def finish(output: Sequence[Block]) -> None:
            if self._profile.keeps_output:
                # On a slot that another request took meanwhile, this goes to a tree nobody reads.
                insert(root, [*prompt.blocks, *output], now + ttl).unit = True

        return Hit(total, max(cached, 0), begin=begin, finish=finish)

    def _shared(self, match: Match, prompt: Prompt, size: int) -> int:
        matched = match.size
        if self._profile.kind == "units":
            matched = longest_unit(match, prompt.blocks)
        # Only tokens that are equal as a whole count; the prompt's last one may be a partial token.
        return tokens_in(matched) if matched == size else matched // BYTES_PER_TOKEN

    def _bucket(self, prompt: Prompt) -> bytes:
        parts = [prompt.model.encode(), prompt.salt.encode()]
        if self._profile.settings_in_key:
            parts.extend(prompt.seeds)
        if self._profile.routes:
            # The first 256 tokens route too, but a hit of 1,024 tokens shares those anyway.
            parts.append((prompt.key or "").encode())
        return digest(b"\0".join(parts))
