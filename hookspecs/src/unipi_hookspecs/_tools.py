"""Tools, commands and the other things a plugin registers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from attrs import Attribute, Factory, field, frozen

from ._value import shown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ._content import JSON, UserContent
    from ._context import Context
    from ._messages import CustomMessage, Entry
    from ._models import Model

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


def _check_tool_name(_: object, __: Attribute[str], value: str) -> None:
    # The set that Anthropic and OpenAI both accept; one bad name would refuse every request.
    if not _TOOL_NAME.match(value):
        raise ValueError(f"tool name {value!r} must be 1 to 64 of A-Z a-z 0-9 _ -")


class Call(Protocol):
    """One running tool call."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def input(self) -> Mapping[str, JSON]:
        """The validated arguments."""

    async def update(self, partial: str) -> None:
        """Show partial output to the user; the model sees only the result."""


@shown
@frozen(repr=False)
class ToolOutput:
    """What a tool returns when a string is not enough.

    `terminate` ends the loop if every call of the batch says so.
    """

    content: str | Sequence[UserContent]
    details: JSON = None
    is_error: bool = False
    terminate: bool = False


ToolRun: TypeAlias = "Callable[[Call, Context], Awaitable[str | ToolOutput] | str | ToolOutput]"


@shown
@frozen(repr=False)
class Tool:
    """A tool that the model may call.

    `parameters` is a JSON Schema of type object; it is canonicalised once an epoch. `run` gets
    `(call, ctx)`, may be `def` or `async def`, and signals an error by raising. A `sequential` tool
    makes its whole batch run one after another.
    """

    name: str = field(validator=_check_tool_name)
    description: str
    parameters: Mapping[str, JSON] = field(
        default=Factory(lambda: {"type": "object", "properties": {}}), kw_only=True
    )
    run: ToolRun = field(kw_only=True, repr=False)
    label: str = field(default="", kw_only=True)
    execution_mode: Literal["parallel", "sequential"] = field(default="parallel", kw_only=True)


@shown
@frozen(repr=False)
class Command:
    """A slash command; `run` gets the text after the name, and what it returns is shown.

    The answer never reaches the model.
    """

    name: str
    description: str
    run: Callable[[str, Context], Awaitable[str | None]] = field(repr=False)


@shown
@frozen(repr=False)
class Flag:
    """A command-line option of a plugin, read through `ctx.settings[name]`."""

    name: str
    description: str
    type: Literal["boolean", "string"] = "boolean"
    default: JSON = None


@shown
@frozen(repr=False)
class ProviderSpec:
    """Models that a plugin brings, for one of the wire APIs that the host speaks."""

    name: str
    models: Sequence[Model]


@shown
@frozen(repr=False)
class Renderer:
    """How entries or messages of one custom type are shown to people."""

    custom_type: str
    render: Callable[[CustomMessage | Entry], str] = field(repr=False)


@shown
@frozen(repr=False)
class Setting:
    """One setting of a plugin, with the JSON Schema of its value."""

    key: str
    description: str
    schema: Mapping[str, JSON] = Factory(dict)
    default: JSON = None


@shown
@frozen(repr=False)
class CheckResult:
    """What a check found; `detail` is one line, without secrets.

    `fix` is the way out, where it is another than the check's own `fix_hint`.
    """

    status: Literal["ok", "warning", "failed"]
    detail: str = ""
    fix: str = ""


@shown
@frozen(repr=False)
class Check:
    """One thing that `unipi doctor` looks at.

    `run` may be `def` or `async def` and changes nothing; None means that all is well. One that
    raises, or takes longer than `timeout` seconds, has failed. `fix_hint` says what to do then.
    """

    name: str
    run: Callable[[], Awaitable[CheckResult | None] | CheckResult | None] = field(repr=False)
    fix_hint: str = ""
    timeout: float = 5.0
