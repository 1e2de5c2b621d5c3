"""Is each body that the provider receives the previous one plus a tail? Checked as it arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from unipi.sim.simulator import Exchange

_CLOSING = b"]}"


@frozen
class Added:
    """What a request adds to the one before it: content blocks, and whether a user's text."""

    blocks: int = 0
    user_text: bool = False


class PrefixWatch:
    """Stands between the simulator's HTTP server and its decisions.

    `epoch`, once set, says which epoch the host is in. Inside one, a body must begin with the
    bytes of the previous body up to its closing brackets (design 1); one that does not is a
    violation.
    """

    def __init__(self, decide: Callable[[str, str, Mapping[str, str], bytes], Exchange]) -> None:
        self._decide = decide
        self.epoch: Callable[[], int] = lambda: 0
        self._body = b""
        self._last_epoch = -1
        self.violations = 0
        self.added = Added()

    def __call__(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> Exchange:
        """Check a request, and let the simulator answer it."""
        epoch = self.epoch()
        self.added = Added()
        if epoch == self._last_epoch:
            stem = self._body.removesuffix(_CLOSING)
            if body.startswith(stem):
                self.added = _read(body[len(stem) :])
            else:
                self.violations += 1
        self._body, self._last_epoch = body, epoch
        return self._decide(method, target, headers, body)


def _read(tail: bytes) -> Added:
    """Count what `,message,message]}` holds."""
    messages = orjson.loads(b"[" + tail.removesuffix(_CLOSING).removeprefix(b",") + b"]")
    blocks = 0
    user_text = False
    for message in messages:
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"type": "text"}]
        blocks += len(parts)
        if message.get("role") == "user":
            user_text = user_text or any(part.get("type") != "tool_result" for part in parts)
    return Added(blocks, user_text)
