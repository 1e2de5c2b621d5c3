"""The settings files: what they say, and how they complain."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING

import pytest

from unipi.loader.paths import state_dir, user_dir
from unipi.loader.settings import (
    Settings,
    SettingsError,
    load_options,
    load_settings,
    set_disabled,
)

if TYPE_CHECKING:
    from pathlib import Path


def save(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "settings.json"
    path.write_text(text)
    return path


def test_without_files_everything_has_its_default(tmp_path: Path) -> None:
    assert load_settings(tmp_path, tmp_path) == Settings()


def test_unipi_home_moves_the_users_folders(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("UNIPI_HOME", str(tmp_path))
    assert (user_dir(), state_dir()) == (tmp_path, tmp_path / "state")
    monkeypatch.delenv("UNIPI_HOME")
    assert user_dir().name == "unipi"


def test_the_users_file_reaches_the_loaders_options(tmp_path: Path) -> None:
    content = {
        "disabled_plugins": ["a"],
        "allowed_plugins": ["b"],
        "required_plugins": ["guard"],
        "import_limit": 2,
        "plugins": {"b": {"size": 3}},
        "model": "sim/x",
    }
    save(tmp_path, json.dumps(content))
    settings = load_settings(tmp_path)
    options = load_options(settings, user_dir=tmp_path, deny=["c"])
    assert options.deny == {"a", "c"}
    assert options.allow == {"b"}
    assert (options.required, options.import_limit) == (("guard",), 2.0)
    assert options.settings == {"b": {"size": 3}}
    assert settings.values == {"model": "sim/x"}


def test_a_trusted_projects_file_adds_to_the_users(tmp_path: Path) -> None:
    project = tmp_path / "project"
    mine = {
        "trusted_projects": [str(project)],
        "disabled_plugins": ["a"],
        "required_plugins": ["g"],
        "plugins": {"p": {"x": 1, "y": 1}},
    }
    save(tmp_path / "user", json.dumps(mine))
    theirs = {"disabled_plugins": ["b"], "required_plugins": ["h"], "plugins": {"p": {"y": 2}}}
    save(project / ".unipi", json.dumps(theirs))
    settings = load_settings(tmp_path / "user", project)
    assert settings.disabled_plugins == {"a", "b"}
    assert settings.required_plugins == ("g", "h")
    assert settings.plugins == {"p": {"x": 1, "y": 2}}
    assert load_options(settings, project_dir=project).project_trusted


def test_an_untrusted_projects_file_is_not_read(tmp_path: Path) -> None:
    save(tmp_path / "project" / ".unipi", "{ broken")
    assert load_settings(tmp_path / "user", tmp_path / "project") == Settings()


BAD = {
    '{\n "a": 1,\n}': "line 3, column 1: no JSON",
    "[]": "must hold one JSON object",
    '{\n\n"disabled_plugins": "a"}': "line 3: `disabled_plugins` must be a list of strings",
    '{"import_limit": true}': "line 1: `import_limit` must be a number of seconds",
    '{"import_limit": 0}': "`import_limit` must be a number of seconds above 0",
    '{"override_tools": "no"}': "`override_tools` must be true or false",
    '{"plugins": []}': "`plugins` must be an object of objects",
    '{"plugins": {\n"p": 1}}': "line 2: `plugins.p` must be an object",
    '{"a": 1, "a": 2}': "`a` stands there twice",
    '{"a": NaN}': "NaN is not JSON",
    "[" * 100_000: "nested too deeply",
}


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_a_file_that_is_wrong_is_named_with_line_and_key(tmp_path: Path, text: str) -> None:
    path = save(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        load_settings(tmp_path)
    assert BAD[text] in str(caught.value)
    assert str(path) in str(caught.value)


def test_bytes_that_are_no_text_are_said_to_be_so(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings(tmp_path)


@pytest.mark.parametrize(
    "key", ["trusted_projects", "allowed_plugins", "override_tools", "import_limit"]
)
def test_a_project_cannot_decide_what_is_the_users_to_decide(tmp_path: Path, key: str) -> None:
    save(tmp_path / ".unipi", json.dumps({key: []}))
    with pytest.raises(SettingsError, match=f"`{key}` may stand in the user's settings only"):
        load_settings(tmp_path / "user", tmp_path, trusted=True)


def test_disabling_changes_one_key_and_keeps_the_file_private(tmp_path: Path) -> None:
    save(tmp_path, '{"z": {"ä": 1}, "disabled_plugins": ["b"]}').chmod(0o644)
    path = set_disabled(tmp_path, "a", disabled=True)
    assert json.loads(path.read_text()) == {"z": {"ä": 1}, "disabled_plugins": ["a", "b"]}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    set_disabled(tmp_path, "b", disabled=False)
    assert load_settings(tmp_path).disabled_plugins == {"a"}
    assert [item.name for item in tmp_path.iterdir()] == ["settings.json"]


def test_disabling_makes_a_private_folder_and_follows_a_linked_file(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    set_disabled(home, "a", disabled=True)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    kept = tmp_path / "dotfiles.json"
    (home / "settings.json").rename(kept)
    (home / "settings.json").symlink_to(kept)
    set_disabled(home, "b", disabled=True)
    assert json.loads(kept.read_text())["disabled_plugins"] == ["a", "b"]


def test_a_broken_file_is_not_overwritten(tmp_path: Path) -> None:
    path = save(tmp_path, "{ mine")
    with pytest.raises(SettingsError):
        set_disabled(tmp_path, "a", disabled=True)
    assert path.read_text() == "{ mine"
