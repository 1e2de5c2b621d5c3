"""The protocols of what the host hands to plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from attrs import frozen

from ._value import shown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from ._content import JSON, UserContent
    from ._messages import Entry, Message
    from ._models import CacheState, ContextUsage, Model, Purpose, ThinkingLevel
    from ._tools import Tool

Deliver = Literal["steer", "follow_up", "next_turn"]


class Logger(Protocol):
    """structlog's shape: an event in words, then values by name."""

    def debug(self, event: str, /, **values: object) -> object: ...
    def info(self, event: str, /, **values: object) -> object: ...
    def warning(self, event: str, /, **values: object) -> object: ...
    def error(self, event: str, /, **values: object) -> object: ...


class UI(Protocol):
    """Talking to the user. Where there is no user, each answers with its neutral value."""

    @property
    def interactive(self) -> bool:
        """Whether somebody can answer."""

    async def confirm(self, question: str, *, default: bool = False) -> bool: ...
    async def select(self, question: str, options: Sequence[str]) -> str | None: ...
    async def input(self, question: str, *, default: str = "") -> str | None: ...
    def notify(self, text: str, *, level: Literal["info", "warning", "error"] = "info") -> None: ...


class SessionView(Protocol):
    """The session, read-only."""

    @property
    def id(self) -> str: ...
    @property
    def path(self) -> Path | None:
        """The session file, or None for a session in memory."""

    @property
    def cwd(self) -> Path: ...
    @property
    def name(self) -> str | None: ...
    @property
    def leaf_id(self) -> str | None: ...
    def entries(self) -> Sequence[Entry]:
        """All entries, in file order."""

    def branch(self) -> Sequence[Entry]:
        """From the root to the current leaf."""

    def messages(self) -> Sequence[Message]:
        """What the model sees of the current branch, compactions applied."""


@shown
@frozen(repr=False)
class Bounded:
    """Output cut to what a model may see.

    `text` is at most 65,536 bytes of UTF-8, note included. `artifact` is the path of the full
    text, or None when nothing was cut or it could not be kept. Sizes are in bytes.
    """

    text: str
    total_bytes: int
    truncated: bool = False
    artifact: str | None = None


@shown
@frozen(repr=False)
class ProcessResult:
    """How a child process ended. Output is decoded as UTF-8, broken bytes as U+FFFD.

    `survivors` says that background processes of the group still held its pipes when the
    command itself had ended.
    """

    exit_code: int | None
    stdout: str
    stderr: str
    timed_out: bool = False
    cancelled: bool = False
    survivors: bool = False


class SideSession(Protocol):
    """A session beside the main one: its own file, epochs and counters."""

    @property
    def session(self) -> SessionView: ...
    @property
    def tokens(self) -> int:
        """Prompt and output tokens of its own answers so far, cached ones included."""

    async def prompt(self, text: str) -> str:
        """Let it work on `text`, and return the text of its last answer.

        Raises `PluginError` when the provider fails, it was aborted, or it gave no answer.
        """

    def abort(self) -> None:
        """Stop the running prompt; the session stays valid."""


class LoadContext(Protocol):
    """What registration hooks get: there is no session yet."""

    @property
    def plugin(self) -> str:
        """The name of the plugin that is being asked."""

    @property
    def cwd(self) -> Path: ...
    @property
    def settings(self) -> Mapping[str, JSON]: ...
    @property
    def log(self) -> Logger: ...
    @property
    def project_trusted(self) -> bool:
        """Whether the user trusts the project in `cwd`: else none of its files is to be acted on."""

    @property
    def user_dir(self) -> Path:
        """The folder of the user's settings."""

    @property
    def state_dir(self) -> Path:
        """The folder of what the host and its plugins keep; files there are the user's alone."""


class Context(Protocol):
    """What event hooks, tools and commands get; it belongs to one plugin and one session.

    After the session has ended every use raises `StaleContextError`.
    """

    @property
    def plugin(self) -> str: ...
    @property
    def cwd(self) -> Path: ...
    @property
    def settings(self) -> Mapping[str, JSON]: ...
    @property
    def log(self) -> Logger: ...
    @property
    def ui(self) -> UI: ...
    @property
    def session(self) -> SessionView: ...
    @property
    def model(self) -> Model | None: ...
    @property
    def thinking_level(self) -> ThinkingLevel: ...
    @property
    def cancelled(self) -> bool:
        """Whether the running turn has been cancelled."""

    @property
    def idle(self) -> bool:
        """Whether no run is active."""

    def cache_state(self) -> CacheState:
        """Whether the provider's cache is cold now, and what a rewrite of history would cost."""

    def context_usage(self) -> ContextUsage:
        """How many tokens the context takes now, and of how large a window."""

    async def append_message(
        self,
        custom_type: str,
        content: str | Sequence[UserContent],
        *,
        display: bool = True,
        details: JSON = None,
        supersedes: bool = False,
        deliver: Deliver = "steer",
        trigger_turn: bool = False,
    ) -> bool:
        """Tell the model something, at the tail.

        With `supersedes` the text says that it replaces earlier ones of its `custom_type`, and
        nothing is appended when it equals the live one; a model that takes instructions in
        mid-conversation (`Model.verbs`) may get it as one, so it should hold no text of strangers.
        Returns whether it was appended or queued.
        """

    async def append_entry(self, custom_type: str, data: JSON = None) -> str:
        """Keep `data` in the session, out of the model's sight; returns the entry's id."""

    async def send_user_message(
        self, content: str | Sequence[UserContent], *, deliver: Deliver = "follow_up"
    ) -> None:
        """Say something as the user would; it passes the `input` hook."""

    def bound_output(self, raw: str | bytes, *, label: str = "output") -> Bounded:
        """Cut output to the model's bound and keep the whole of it in an artifact."""

    def request_boundary(self, cause: str, detail: str = "") -> None:
        """Let a new cache epoch begin with the next request, owned by this plugin."""

    async def compact(self, instructions: str = "") -> str:
        """Compact now, or before the running turn's next request; returns what came of it.

        `instructions` is what the summary should mind, in words.
        """

    def exclude_custom_type(self, custom_type: str) -> None:
        """Keep messages of this type from the model, from their first projection on.

        Raises `PrefixError` when one was already sent in this epoch.
        """

    def register_tools(self, tools: Sequence[Tool]) -> None:
        """Offer more tools; they join with the next epoch, or with the next request where the
        model can be told of them (`Model.verbs`). One of this plugin's that is there already, and
        was described otherwise, is replaced with the next epoch.
        """

    def disable_tool(self, name: str, reason: str) -> None:
        """Refuse calls of a tool from now on.

        It leaves the tool list with the next epoch, or is withdrawn with the next request where the
        model can be told so (`Model.verbs`).
        """

    def enable_tool(self, name: str) -> None:
        """Take a `disable_tool` of this plugin back."""

    async def run_process(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | None = None,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
    ) -> ProcessResult:
        """Run a child process without a shell; `timeout` in seconds.

        The child gets a base environment plus `env`, never the host's secrets. Its whole process
        group ends when this call is cancelled or times out.
        """

    def open_side_session(
        self,
        purpose: Purpose = "helper",
        *,
        system: str | None = None,
        tools: Sequence[str] | None = None,
        model: str | None = None,
        thinking: ThinkingLevel | None = None,
        inherit: bool = False,
        max_turns: int | None = None,
        resume: Path | None = None,
    ) -> AbstractAsyncContextManager[SideSession]:
        """Open a session beside this one, until the block ends; this one does not move.

        `system` replaces the base prompt; `tools` names what it may call, None for all; `model` is
        `provider/id`. With `inherit` it begins with what this session last sent, byte for byte, and
        so reads its cache; `system` and `model` are not taken then, and tools outside `tools` stay
        in sight but are refused. `resume` goes on with the file of an earlier one. Raises
        `PluginError` for a model that is not known or a file that cannot be opened.
        """

    def start_task(self, run: Callable[[], Awaitable[None]], *, name: str = "") -> None:
        """Start a background task that ends with the session."""
