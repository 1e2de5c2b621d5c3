"""Prompts kept as a tree of blocks, for rules that look for the longest common prefix.

Blocks are shared between prompts, so a session of many growing requests costs the memory of its
last one, and a look-up costs one step per block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from unipi.sim.prompt import BYTES_PER_TOKEN, Block

if TYPE_CHECKING:
    from collections.abc import Sequence


class Node:
    """One block in the tree: what it says, when it dies, and what may follow it."""

    __slots__ = ("children", "expires", "partials", "text", "unit")

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.children: dict[bytes, Node] = {}
        self.expires = 0.0
        # For the rule of whole units: a unit ends after this block, or inside a following one.
        self.unit = False
        self.partials: list[bytes] = []


@attrs.frozen
class Match:
    """How far a prompt follows the tree.

    Attributes:
        nodes: the nodes passed, the root first.
        size: bytes matched, the part of the next block included.
        partial: bytes of the next block that some kept block shares.
    """

    nodes: tuple[Node, ...]
    size: int
    partial: int


def common_length(left: bytes, right: bytes) -> int:
    """Length of the longest common prefix of two byte strings."""
    low, high = 0, min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle
    return low


def follow(root: Node, blocks: Sequence[Block], now: float) -> Match:
    """Walk from ``root`` along ``blocks`` through nodes alive at ``now`` seconds."""
    node, nodes, size = root, [root], 0
    for block in blocks:
        found = node.children.get(block.digest)
        if found is None or found.expires < now:
            shared = [
                common_length(child.text, block.text)
                for child in node.children.values()
                if child.expires >= now
            ]
            partial = max(shared, default=0)
            return Match(tuple(nodes), size + partial, partial)
        node = found
        nodes.append(node)
        size += len(block.text)
    return Match(tuple(nodes), size, 0)


def insert(root: Node, blocks: Sequence[Block], expires: float) -> Node:
    """Keep ``blocks`` under ``root`` until ``expires`` seconds; returns the last node."""
    node = root
    for block in blocks:
        found = node.children.get(block.digest)
        if found is None:
            found = node.children[block.digest] = Node(block.text)
        found.expires = max(found.expires, expires)
        node = found
    return node


def longest_unit(match: Match, blocks: Sequence[Block]) -> int:
    """Bytes of the longest unit on a match that the prompt contains in full."""
    best = size = 0
    for index, node in enumerate(match.nodes):
        if index:
            size += len(node.text)
            if node.unit:
                best = size
        if index < len(blocks):
            inside = [len(p) for p in node.partials if blocks[index].text.startswith(p)]
            best = max(best, size + max(inside)) if inside else best
    return best


def mark_divergence(match: Match, blocks: Sequence[Block]) -> None:
    """Keep the end of a common prefix as a unit, so that a third prompt can read it."""
    node = match.nodes[-1]
    whole = match.partial - match.partial % BYTES_PER_TOKEN
    if whole:
        piece = blocks[len(match.nodes) - 1].text[:whole]
        if piece not in node.partials:
            node.partials.append(piece)
    else:
        node.unit = True
