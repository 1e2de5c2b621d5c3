"""A request as the simulated model sees it: rendered blocks, their digests and their sizes.

Every rule counts on this one rendering: tools, then system, then messages, content only, with
cache markers removed. A "token" is four bytes of it, so that expectations are exact.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

Section: TypeAlias = Literal["tools", "system", "messages"]
SECTIONS: tuple[Section, ...] = ("tools", "system", "messages")
BYTES_PER_TOKEN = 4


def tokens_of(data: bytes | bytearray | memoryview) -> int:
    """Tokens of rendered bytes: one per four bytes, the last one may be partial."""
    return tokens_in(len(data))


def tokens_in(size: int) -> int:
    """Tokens of ``size`` rendered bytes."""
    return (size + BYTES_PER_TOKEN - 1) // BYTES_PER_TOKEN


def digest(data: bytes) -> bytes:
    """16 bytes that stand for ``data`` in chains and tables."""
    return blake2b(data, digest_size=16).digest()


@attrs.frozen
class Block:
    """One rendered block.

    Attributes:
        section: which of the three parts it stands in.
        text: its rendered bytes (self-delimiting: never a prefix of another block's).
        digest: digest of ``text``.
        marker: TTL in seconds of a ``cache_control`` on it, or None.
        breakpoint: it carries an explicit ``prompt_cache_breakpoint``.
        ends_message: it is the last block of its message (or tool, or system block).
        thinking: it is a thinking or redacted thinking block.
    """

    section: Section
    text: bytes
    digest: bytes
    marker: float | None = None
    breakpoint: bool = False
    ends_message: bool = True
    thinking: bool = False


def make_block(
    section: Section,
    text: bytes,
    *,
    marker: float | None = None,
    breakpoint_: bool = False,
    ends_message: bool = True,
    thinking: bool = False,
) -> Block:
    """A block with its digest computed."""
    return Block(section, text, digest(text), marker, breakpoint_, ends_message, thinking)


@attrs.frozen
class Prompt:
    """A whole rendered request.

    Attributes:
        model: the model's name, part of every cache key.
        blocks: in section order.
        seeds: what each section depends on besides its own text (one per section, in order).
        key: ``prompt_cache_key`` or None.
        salt: ``cache_salt`` (vLLM) or "".
        explicit_only: ``prompt_cache_options.mode`` is "explicit".
        retention: ``prompt_cache_retention`` in seconds, or None for the profile's own.
    """

    model: str
    blocks: tuple[Block, ...]
    seeds: tuple[bytes, bytes, bytes] = (b"", b"", b"")
    key: str | None = None
    salt: str = ""
    explicit_only: bool = False
    retention: float | None = None

    def ends(self) -> list[int]:
        """Cumulative rendered size in bytes after each block."""
        total = 0
        sizes = []
        for block in self.blocks:
            total += len(block.text)
            sizes.append(total)
        return sizes

    def chain(self) -> list[bytes]:
        """A digest after each block that covers all before it and the seeds it depends on."""
        current = digest(self.model.encode() + b"\0" + self.seeds[0])
        passed = 0
        links = []
        for block in self.blocks:
            while SECTIONS[passed] != block.section:
                passed += 1
                current = digest(current + b"\0" + self.seeds[passed])
            current = digest(current + block.digest)
            links.append(current)
        return links


def size_of(blocks: Sequence[Block]) -> int:
    """Rendered bytes of the blocks."""
    return sum(len(block.text) for block in blocks)
