"""Is each body that the provider receives the previous one plus a tail? Checked as it arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from unipi.prefix.marks import extended_by

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from unipi.sim.simulator import Exchange

_CLOSING = b"]}"


class PrefixWatch:
    """Stands between the simulator's HTTP server and its decisions.

    `epoch`, once set, says which epoch the host is in. Inside one, a body must begin with the
    bytes of the previous body up to its closing brackets (design 1), cache markers inside messages
    set aside; one that does not is a violation. `user_text` says whether the last request added
    something of a user's that is no tool result.
    """

    def __init__(self, decide: Callable[[str, str, Mapping[str, str], bytes], Exchange]) -> None:
        self._decide = decide
        self.epoch: Callable[[], int] = lambda: 0
        self._body = b""
        self._last_epoch = -1
        self.violations = 0
        self.user_text = False

    def __call__(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> Exchange:
        """Check a request, and let the simulator answer it."""
        epoch = self.epoch()
        self.user_text = False
        if epoch == self._last_epoch:
            tail = extended_by(self._body, body)
            if tail is None:
                self.violations += 1
            else:
                self.user_text = _has_user_text(tail)
        self._body, self._last_epoch = body, epoch
        return self._decide(method, target, headers, body)


def _has_user_text(tail: bytes) -> bool:
    """Whether a user's words are in `,message,message]}`."""
    messages = orjson.loads(b"[" + tail.removesuffix(_CLOSING).removeprefix(b",") + b"]")
    for message in messages:
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"type": "text"}]
        if message.get("role") == "user" and any(p.get("type") != "tool_result" for p in parts):
            return True
    return False
