"""Tokens of somebody else's tokenizer, in place of the simulator's own four bytes a token.

This is how its cache rules are held against a real engine's: both then count the same tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from unipi.sim.prompt import BYTES_PER_TOKEN, Block, make_block

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from unipi.sim.script import Part


class Tokenizer(Protocol):
    """What a model's template and vocabulary make of a request and of its answer."""

    def prompt(self, request: Mapping[str, object]) -> Sequence[int]:
        """The ids of the whole prompt, the opening of the answer included."""

    def answer(self, parts: Sequence[Part]) -> Sequence[int]:
        """The ids that the answer leaves in the cache: what was generated and evaluated."""


def token_blocks(ids: Iterable[int]) -> tuple[Block, ...]:
    """A block a token, each of one token's size, so that every rule counts them exactly."""
    return tuple(make_block("messages", i.to_bytes(BYTES_PER_TOKEN, "big")) for i in ids)
