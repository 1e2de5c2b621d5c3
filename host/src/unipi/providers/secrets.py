"""API keys: out of the environment, a command or a keyring, and into a header, with no stop on the
way."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from unipi.redaction import guard

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unipi_hookspecs import Model

KEYRING = "keyring:"
COMMAND_TIMEOUT = 60.0
"""Seconds that a key command may take; a password manager may be asking its user."""


class SecretError(Exception):
    """A key could not be had. The text names the model and the way out, never a value."""


class Secret:
    """A key that shows itself to `reveal()` alone: not in a repr, a format or a pickle."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        """Take a key; white space around it goes.

        Raises SecretError when what is left is empty or cannot stand in a header.
        """
        value = value.strip()
        if not value or not value.isascii() or not value.isprintable():
            raise SecretError("the key is empty or holds characters that no header can carry")
        self._value = value
        guard(value)

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    def __reduce__(self) -> str:
        raise TypeError("a Secret is never pickled or copied")


async def find_secret(model: Model, environ: Mapping[str, str] | None = None) -> Secret | None:
    """Find the key of a model: None when the model names none.

    `api_key_env` is the name of an environment variable, `!` and a command that prints the key
    (Pi's form), or `keyring:SERVICE/USER`. Raises SecretError when it yields nothing usable.
    """
    source = model.api_key_env
    if not source:
        return None
    if source.startswith("!"):
        return await _from_command(model, source[1:].strip())
    if source.startswith(KEYRING):
        return await _from_keyring(model, source.removeprefix(KEYRING))
    value = (os.environ if environ is None else environ).get(source, "")
    if not value.strip():
        raise SecretError(
            f"no key for {model.provider}: set the environment variable {source}, or give the "
            "provider another key source (api_key_env) in models.json"
        )
    try:
        return Secret(value)
    except SecretError as error:
        raise SecretError(f"{model.provider}, environment variable {source}: {error}") from None


async def _from_keyring(model: Model, place: str) -> Secret:
    """Ask the system's keyring, in a thread: it may be asking its user for the password."""
    import anyio.to_thread

    service, slash, user = place.partition("/")
    if not (service and slash and user):
        raise SecretError(
            f"{model.provider}: api_key_env must be keyring:SERVICE/USER; correct models.json"
        )
    try:
        import keyring
    except ImportError:
        raise SecretError(
            f"{model.provider}: its key is in a keyring, for which the package keyring is needed: "
            "install unipi[keyring]"
        ) from None
    try:
        value = await anyio.to_thread.run_sync(keyring.get_password, service, user)
    except Exception as error:  # noqa: BLE001 - backends raise what they like, and it may quote a value
        raise SecretError(
            f"{model.provider}: the keyring could not be read ({type(error).__name__}); unlock it, "
            "or give another key source (api_key_env) in models.json"
        ) from None
    if value is None:
        raise SecretError(
            f"{model.provider}: the keyring holds no key for {service}/{user}; "
            f"`keyring set {service} {user}` puts one there"
        )
    try:
        return Secret(value)
    except SecretError as error:
        raise SecretError(f"{model.provider}, keyring {service}/{user}: {error}") from None


async def _from_command(model: Model, command: str) -> Secret:
    import subprocess

    import anyio

    try:
        with anyio.fail_after(COMMAND_TIMEOUT):
            # Its error output goes to the terminal untouched, where a prompt belongs.
            done = await anyio.run_process(command, stderr=None, check=False)
    except TimeoutError:
        raise SecretError(
            f"{model.provider}: the key command gave nothing in {COMMAND_TIMEOUT:.0f} s; run it "
            "by hand, or correct api_key_env in models.json"
        ) from None
    except (OSError, subprocess.SubprocessError) as error:
        raise SecretError(
            f"{model.provider}: the key command could not be started ({type(error).__name__}); "
            "correct api_key_env in models.json"
        ) from None
    if done.returncode != 0:
        raise SecretError(
            f"{model.provider}: the key command failed with exit code {done.returncode}; run it "
            "by hand, or correct api_key_env in models.json"
        )
    try:
        return Secret(done.stdout.decode("utf-8", "replace"))
    except SecretError as error:
        raise SecretError(f"{model.provider}, key command: {error}") from None
