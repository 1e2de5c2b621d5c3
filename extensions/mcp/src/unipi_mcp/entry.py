"""One entry of `mcpServers`, read from any of the spellings in use, and judged."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from attrs import evolve

from . import store
from .config import ServerConfig
from .expand import UnsetError, expand
from .schema import is_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unipi_hookspecs import JSON

    from .config import Mode, Source, Transport

_TRANSPORTS: Final[Mapping[str, Transport]] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}
_MODES: Final[Mapping[str, Mode]] = {
    "auto": "auto",
    "listed": "listed",
    "on_demand": "on_demand",
    "on-demand": "on_demand",
    "onDemand": "on_demand",
}
_START: Final = ("startSeconds", "startupTimeoutSec", "startup_timeout_sec")
_CALL: Final = ("callSeconds", "toolTimeoutSec", "tool_timeout_sec")
_STARTED: Final = ("type", "transport", "command", "args", "env", "cwd", "url", "headers")
_STARTED_TOO: Final = ("serverUrl", "bearer_token_env_var")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class EntryError(ValueError):
    """An entry that cannot be used; `path` leads to the key, the text holds none of its values."""

    def __init__(self, text: str, *path: str) -> None:
        super().__init__(text)
        self.path = path


def adjusts(raw: JSON) -> bool:
    """Whether an entry starts nothing by itself: it has neither command nor address."""
    return isinstance(raw, Mapping) and not {"command", "url", "serverUrl"} & raw.keys()


def adjust(below: ServerConfig, raw: JSON) -> ServerConfig:
    """`below` with what the entry says of deadlines, tools, mode and `enabled`."""
    assert isinstance(raw, Mapping)
    for key in (*_STARTED, *_STARTED_TOO):
        if key in raw:
            raise EntryError("says this without `command` or `url`; give the whole entry", key)
    made = _policy(below, raw)
    if made.enabled and not (made.command or made.url):
        raise EntryError("switches on a server of which a variable is not set", "enabled")
    return made


def server(
    source: Source, name: str, raw: JSON, cwd: Path, environ: Mapping[str, str]
) -> ServerConfig:
    """The server of an entry. Raises `EntryError`."""
    if not isinstance(raw, Mapping):
        raise EntryError("must be an object")
    if not name or _CONTROL.search(name) or len(name) > 128:
        raise EntryError("a server's name has 1 to 128 characters and no control characters")
    base = ServerConfig(
        name,
        _transport(raw),
        scope=source.scope,
        source=source.file,
        written=_written(raw),
    )
    base = _policy(base, raw)
    place = {**environ, "workspaceFolder": str(cwd), "userHome": str(Path.home())}
    try:
        if base.transport == "stdio":
            return _program(base, raw, source, place)
        return _remote(base, raw, place)
    except EntryError as error:
        if base.enabled or not isinstance(error.__cause__, UnsetError):
            raise
        return base  # its variables may be unset for the very reason that it is not in use


def _program(
    base: ServerConfig, raw: Mapping[str, JSON], source: Source, environ: Mapping[str, str]
) -> ServerConfig:
    if "envFile" in raw:
        raise EntryError("is not read; name the variables in `env`", "envFile")
    command = _text(raw, "command", environ)
    if not command.strip():
        raise EntryError("must be the name or path of a program", "command")
    args = tuple(
        _expanded(each, environ, "args", str(at)) for at, each in enumerate(_list(raw, "args"))
    )
    if any("\0" in each for each in (command, *args)):
        raise EntryError("holds a NUL character", "command")
    return evolve(
        base,
        command=command,
        args=args,
        env=_texts(raw, "env", environ),
        cwd=_folder(raw, source, environ),
    )


def _remote(
    base: ServerConfig, raw: Mapping[str, JSON], environ: Mapping[str, str]
) -> ServerConfig:
    key = "url" if "url" in raw else "serverUrl"
    url = _text(raw, key, environ)
    _check_url(url, key)
    headers = _texts(raw, "headers", environ)
    variable = raw.get("bearer_token_env_var")
    if isinstance(variable, str):
        token = _expanded(f"${{{variable}}}", environ, "bearer_token_env_var")
        headers = {**headers, "Authorization": f"Bearer {token}"}
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or _CONTROL.search(value):
            raise EntryError("is no header of HTTP", "headers", name)
    return evolve(base, url=url, headers=headers)


def _transport(raw: Mapping[str, JSON]) -> Transport:
    key = "type" if "type" in raw else "transport"
    given = raw.get(key)
    if given is None:
        return "stdio" if "command" in raw else "http"
    found = _TRANSPORTS.get(given) if isinstance(given, str) else None
    if found is None:
        raise EntryError("must be stdio, http or sse", key)
    if found == "stdio" and "command" not in raw:
        raise EntryError("is stdio, so the entry needs `command`", key)
    if found != "stdio" and not {"url", "serverUrl"} & raw.keys():
        raise EntryError(f"is {found}, so the entry needs `url`", key)
    return found


def _check_url(url: str, key: str) -> None:
    """https, or http to this machine; no user and password in the address, where logs show it."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise EntryError("is no address", key) from error
    if parts.scheme not in {"http", "https"} or not host or _CONTROL.search(url):
        raise EntryError("must be an address that begins with https:// (or http:// here)", key)
    if parts.username is not None or parts.password is not None:
        raise EntryError("holds a user or password; use `headers`", key)
    if parts.scheme == "http" and not _loopback(host):
        raise EntryError("must be https; http is for this machine alone", key)


def _loopback(host: str) -> bool:
    from ipaddress import ip_address

    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _policy(base: ServerConfig, raw: Mapping[str, JSON]) -> ServerConfig:
    """What does not decide which server it is: these may be adjusted by another file."""
    return evolve(
        base,
        start_seconds=_seconds(raw, _START, base.start_seconds),
        call_seconds=_seconds(raw, _CALL, _milliseconds(raw, base.call_seconds)),
        enabled_tools=_enabled_tools(raw, base.enabled_tools),
        disabled_tools=_names(raw, ("disabledTools", "disabled_tools")) or base.disabled_tools,
        mode=_mode(raw, base.mode),
        enabled=_enabled(raw, default=base.enabled),
    )


def _seconds(raw: Mapping[str, JSON], keys: Sequence[str], default: float) -> float:
    for key in keys:
        value = raw.get(key)
        if value is not None:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise EntryError("must be a number of seconds", key)
            if not 0 < value <= 86_400:
                raise EntryError("must be above 0 and at most 86,400 seconds", key)
            return float(value)
    return default


def _milliseconds(raw: Mapping[str, JSON], default: float) -> float:
    """`timeout`, which other hosts give in milliseconds."""
    value = raw.get("timeout")
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise EntryError("must be a number of milliseconds above 0", "timeout")
    return min(value / 1000, 86_400.0)


def _enabled(raw: Mapping[str, JSON], *, default: bool) -> bool:
    for key, turned in (("enabled", False), ("disabled", True)):
        value = raw.get(key)
        if value is not None:
            if not isinstance(value, bool):
                raise EntryError("must be true or false", key)
            return value is not turned
    return default


def _mode(raw: Mapping[str, JSON], default: Mode) -> Mode:
    value = raw.get("mode")
    if value is None:
        return default
    found = _MODES.get(value) if isinstance(value, str) else None
    if found is None:
        raise EntryError("must be auto, listed or on_demand", "mode")
    return found


def _enabled_tools(
    raw: Mapping[str, JSON], default: tuple[str, ...] | None
) -> tuple[str, ...] | None:
    found = _names(raw, ("enabledTools", "enabled_tools", "tools"))
    return default if found is None else found


def _names(raw: Mapping[str, JSON], keys: Sequence[str]) -> tuple[str, ...] | None:
    for key in keys:
        if raw.get(key) is not None:
            return tuple(each for each in _list(raw, key))
    return None


def _list(raw: Mapping[str, JSON], key: str) -> list[str]:
    value = raw.get(key)
    if value is None:
        return []
    if not is_list(value):
        raise EntryError("must be a list of strings", key)
    made: list[str] = []
    for at, each in enumerate(value):
        if not isinstance(each, str):
            raise EntryError("must be a string", key, str(at))
        made.append(each)
    return made


def _text(raw: Mapping[str, JSON], key: str, environ: Mapping[str, str]) -> str:
    value = raw.get(key)
    if not isinstance(value, str):
        raise EntryError("must be a string", key)
    return _expanded(value, environ, key)


def _texts(raw: Mapping[str, JSON], key: str, environ: Mapping[str, str]) -> dict[str, str]:
    value = raw.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise EntryError("must be an object of strings", key)
    made: dict[str, str] = {}
    for name, each in value.items():
        if not isinstance(each, str):
            raise EntryError("must be a string", key, name)
        if not name or "\0" in name or (key == "env" and "=" in name):
            raise EntryError("is no name of a variable", key, name)
        made[name] = _expanded(each, environ, key, name)
    return made


def _folder(raw: Mapping[str, JSON], source: Source, environ: Mapping[str, str]) -> Path | None:
    if raw.get("cwd") is None:
        return None
    folder = Path(_text(raw, "cwd", environ)).expanduser()
    if not folder.is_absolute():
        if source.scope != "project" or source.file is None:
            raise EntryError("must be an absolute path, or one under ~", "cwd")
        folder = source.file.parent / folder
    return folder


def _expanded(text: str, environ: Mapping[str, str], *path: str) -> str:
    try:
        return expand(text, environ)
    except UnsetError as error:
        raise EntryError(str(error), *path) from error


def _written(raw: Mapping[str, JSON]) -> str:
    return store.digest({key: raw[key] for key in (*_STARTED, *_STARTED_TOO) if key in raw})
