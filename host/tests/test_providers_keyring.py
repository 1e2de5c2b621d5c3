"""Keys out of the system's keyring, through the package's own way of choosing a backend."""

from __future__ import annotations

import sys

import attrs
import keyring
import keyring.backend
import pytest

from unipi.providers.secrets import SecretError, find_secret
from unipi_hookspecs import Model

MODEL = Model("acme", "m", "anthropic-messages", "http://127.0.0.1:1")
KEY = "sk-in-the-keyring-1234567890"


class Drawer(keyring.backend.KeyringBackend):
    """A backend that keeps passwords in memory."""

    priority = 1.0
    locked = False

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        if self.locked:
            raise RuntimeError(f"locked, and it holds {KEY}")
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[service, username]


@pytest.fixture
def drawer():
    before = keyring.get_keyring()
    keyring.set_keyring(Drawer())
    keyring.set_password("unipi", "acme", KEY)
    yield keyring.get_keyring()
    keyring.set_keyring(before)


def model(source: str) -> Model:
    return attrs.evolve(MODEL, api_key_env=source)


async def test_a_key_is_read_by_service_and_user(drawer) -> None:
    secret = await find_secret(model("keyring:unipi/acme"))
    assert secret is not None
    assert secret.reveal() == KEY


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("keyring:unipi/nobody", "keyring set unipi nobody"),
        ("keyring:unipi", "keyring:SERVICE/USER"),
        ("keyring:/acme", "keyring:SERVICE/USER"),
    ],
)
async def test_a_key_that_is_not_there_is_told_with_the_way_out(drawer, source, words) -> None:
    with pytest.raises(SecretError, match=words):
        await find_secret(model(source))


async def test_what_a_backend_says_is_not_quoted_for_it_may_hold_the_key(drawer) -> None:
    drawer.locked = True
    with pytest.raises(SecretError, match="RuntimeError") as caught:
        await find_secret(model("keyring:unipi/acme"))
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(SecretError, match=r"install unipi\[keyring\]"):
        await find_secret(model("keyring:unipi/acme"))
