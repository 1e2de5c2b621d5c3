"""What the simulated model answers: blocks, whole answers, faults, and the script of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import attrs
import orjson


def _encodable(_owner: object, field: attrs.Attribute[str], value: str) -> None:
    # A provider's answer is UTF-8; a lone surrogate could not be sent at all.
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        raise ValueError(f"{field.name} cannot be sent as UTF-8: {exc.reason}") from exc


@attrs.frozen
class Say:
    """A text block."""

    text: str = attrs.field(validator=_encodable)


def _raw_arguments(value: Mapping[str, object] | str) -> str:
    return value if isinstance(value, str) else orjson.dumps(dict(value)).decode()


@attrs.frozen
class Call:
    """A tool call.

    Attributes:
        name: the tool's name.
        arguments: the argument text exactly as it is sent; a mapping given here is written as
            compact JSON, a string is taken verbatim (it need not even be JSON).
        id: the call's id; None lets the simulator count one up.
    """

    name: str
    arguments: str = attrs.field(default="{}", converter=_raw_arguments, validator=_encodable)
    id: str | None = None

    def parsed(self) -> dict[str, object] | None:
        """The arguments as an object, or None when the text is not a JSON object."""
        try:
            value = orjson.loads(self.arguments)
        except orjson.JSONDecodeError:
            return None
        return value if isinstance(value, dict) else None


@attrs.frozen
class Think:
    """A thinking block.

    Attributes:
        text: the visible thinking; may be empty.
        signature: sent as given; None lets the simulator sign what stands before the block.
        redacted: send it as ``redacted_thinking`` (its data is the signature).
    """

    text: str = attrs.field(default="", validator=_encodable)
    signature: str | None = None
    redacted: bool = False


Part: TypeAlias = Say | Call | Think


def _parts(value: Sequence[Part]) -> tuple[Part, ...]:
    return tuple(value)


@attrs.frozen
class Answer:
    """One whole answer of the model.

    Attributes:
        parts: the blocks, in order.
        stop: the stop reason, in either API's word; None chooses by whether a tool is called.
        usage_overrides: members put over the usage object that is sent, as they are.
        chunk: characters per streamed delta, at least 1.
        delay: seconds slept between deltas.
    """

    parts: tuple[Part, ...] = attrs.field(default=(), converter=_parts)
    stop: str | None = None
    usage_overrides: Mapping[str, object] | None = None
    chunk: int = attrs.field(default=7, validator=attrs.validators.ge(1))
    delay: float = 0.0


@attrs.frozen
class Fault:
    """Something goes wrong instead of, or in the middle of, an answer.

    Attributes:
        status: an HTTP error status, with ``type``, ``message``, ``code`` and ``headers``.
        type: the provider's error type; None takes the one documented for the status.
        stall: stream ``after`` deltas, then nothing until the client leaves or the server closes.
        cut: stream ``after`` deltas, then close the connection without the end of the stream.
        drop: close the connection without any response.
        stream_error: (type, message) of an error event sent on a 200 stream after ``after`` deltas.
        answer: the answer whose deltas are cut short; None uses a short text.
    """

    status: int | None = None
    type: str | None = None
    message: str = "simulated fault"
    headers: Mapping[str, str] = attrs.field(factory=dict)
    code: str | None = None
    stall: bool = False
    cut: bool = False
    drop: bool = False
    stream_error: tuple[str, str] | None = None
    after: int = 0
    answer: Answer | None = None

    def __attrs_post_init__(self) -> None:
        chosen = [self.status is not None, self.stall, self.cut, self.drop]
        chosen.append(self.stream_error is not None)
        if sum(chosen) != 1:
            raise ValueError("a Fault is exactly one of status, stall, cut, drop, stream_error")


Step: TypeAlias = Answer | Fault | Sequence[Part] | Part
Script: TypeAlias = Sequence[Step] | Callable[[dict[str, object], int], Step]


class ScriptError(Exception):
    """The script has no usable step for a request; the client is told with a 500."""


def as_step(step: Step) -> Answer | Fault:
    """Bring a step's short forms (a part, a list of parts) to an Answer.

    Raises:
        ScriptError: it is none of the forms a step may have.
    """
    if isinstance(step, Answer | Fault):
        return step
    if isinstance(step, Say | Call | Think):
        return Answer((step,))
    if isinstance(step, list | tuple) and all(isinstance(p, Say | Call | Think) for p in step):
        return Answer(tuple(step))
    raise ScriptError(f"a script step must be an Answer, a Fault or a list of parts, not {step!r}")


def next_step(
    script: Script, request: dict[str, object], index: int, *, repeat_last: bool
) -> Answer | Fault:
    """The step for the ``index``-th accepted request (from 0).

    Raises:
        ScriptError: the list is exhausted, or a scripted callable failed.
    """
    if callable(script):
        try:
            step = script(request, index)
        except Exception as exc:
            raise ScriptError(f"the script raised {type(exc).__name__}: {exc}") from exc
        return as_step(step)
    if index < len(script):
        return as_step(script[index])
    if repeat_last and script:
        return as_step(script[-1])
    raise ScriptError(f"script exhausted: {len(script)} steps, and this is request {index + 1}")
