"""`unipi doctor`: what it finds, in a home made for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import define, field
from click.testing import CliRunner

from unipi.cli.doctor import doctor
from unipi.doctor import Finding, Report, examine
from unipi.session import Session
from unipi.session.listing import session_dir
from unipi_hookspecs import UserMessage

KEY = "sk-a-key-of-the-user-1234567890"


@define
class Place:
    """A project folder and a home of UniPi."""

    cwd: Path
    home: Path
    report: Report = field(init=False)

    def write(self, name: str, **values: object) -> Path:
        path = self.home / name
        path.write_text(json.dumps(values))
        path.chmod(0o600)
        return path

    def plugin(self, source: str) -> Path:
        path = self.cwd / "checking.py"
        path.write_text(f"from unipi_hookspecs import *\n{source}")
        return path

    def session(self) -> Path:
        path = session_dir(self.cwd) / "one.jsonl"
        with Session.create(path, cwd=self.cwd) as session:
            session.append_message(UserMessage("hello"))
        return path

    def look(self, *, paths: tuple[Path, ...] = ()) -> dict[str, Finding]:
        self.report = examine(self.cwd, paths=paths)
        return {finding.name: finding for finding in self.report.findings}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    home, cwd = tmp_path / "home", tmp_path / "project"
    home.mkdir(mode=0o700)
    cwd.mkdir()
    monkeypatch.setenv("UNIPI_HOME", str(home))
    monkeypatch.chdir(cwd)
    for name in ("ANTHROPIC", "OPENAI", "DEEPSEEK", "MISTRAL", "XAI"):
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)
    return Place(cwd, home)


def test_a_fresh_home_has_warnings_alone(place: Place) -> None:
    found = place.look()
    assert place.report.exit_code == 0
    assert {n: f.status for n, f in found.items() if f.status != "ok"} == {
        "default model": "warning",
        "provider keys": "warning",
    }


def test_a_key_is_told_to_be_there_and_never_shown(place: Place, monkeypatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    place.write("settings.json", default_model="anthropic/claude-sonnet-5")
    found = place.look()
    assert found["default model"].detail == "anthropic/claude-sonnet-5 (ANTHROPIC_API_KEY is set)"
    assert "anthropic: ANTHROPIC_API_KEY is set" in found["provider keys"].detail
    assert KEY not in json.dumps(place.report.to_json())


def test_a_default_model_without_its_key_has_failed_and_says_what_to_set(place: Place) -> None:
    place.write("settings.json", default_model="anthropic/claude-sonnet-5")
    found = place.look()["default model"]
    assert found.status == "failed"
    assert "set ANTHROPIC_API_KEY" in found.fix


@pytest.mark.parametrize("source", ["!touch asked; echo key", "keyring:unipi/none"])
def test_neither_a_command_nor_a_keyring_is_asked_for_its_key(place: Place, source: str) -> None:
    place.write("models.json", providers={"anthropic": {"api_key_env": source}})
    place.write("settings.json", default_model="anthropic/claude-sonnet-5")
    assert place.look()["default model"].status == "ok"
    assert not (place.cwd / "asked").exists()


def test_an_unknown_default_model_has_failed(place: Place) -> None:
    place.write("settings.json", default_model="nobody/nothing")
    assert "unknown model 'nobody/nothing'" in place.look()["default model"].detail


@pytest.mark.parametrize(
    ("file", "check"), [("settings.json", "settings"), ("models.json", "models")]
)
def test_a_broken_file_is_named_and_the_other_checks_still_run(
    place: Place, file: str, check: str
) -> None:
    (place.home / file).write_text('{"broken"')
    found = place.look()
    assert found[check].status == "failed"
    assert str(place.home / file) in found[check].detail
    assert found[check].fix
    assert found["plugins"].status == "ok"
    assert place.report.exit_code == 1


def test_a_settings_file_that_others_may_write_is_a_warning(place: Place) -> None:
    place.write("settings.json").chmod(0o666)
    found = place.look()["settings"]
    assert (found.status, found.fix) == (
        "warning",
        f"chmod go-w {place.home / 'settings.json'}",
    )


def test_a_project_s_settings_are_said_to_be_read_or_not(place: Place) -> None:
    (place.cwd / ".unipi").mkdir()
    (place.cwd / ".unipi" / "settings.json").write_text("{}")
    assert "not read: not trusted" in place.look()["settings"].detail
    place.write("settings.json", trusted_projects=[str(place.cwd)])
    assert ".unipi/settings.json read" in place.look()["settings"].detail


def test_a_plugin_that_cannot_load_has_failed_with_its_reason(place: Place) -> None:
    found = place.look(paths=(place.plugin("1 / 0"),))["plugins"]
    assert found.status == "failed"
    assert "ZeroDivisionError" in found.detail
    assert "unipi plugins disable" in found.fix


# The session folder.


def test_a_healthy_session_is_well(place: Place) -> None:
    place.session()
    found = place.look()
    assert {found[n].status for n in ("session folder", "session files", "session locks")} == {"ok"}
    assert "1 session files" in found["session folder"].detail


def test_a_session_that_others_may_read_is_named(place: Place) -> None:
    path = place.session()
    path.chmod(0o644)
    found = place.look()["session folder"]
    assert found.status == "warning"
    assert str(path) in found.detail
    assert found.fix.startswith("chmod -R go-rwx ")


def test_a_torn_last_line_is_found_and_left_alone(place: Place) -> None:
    path = place.session()
    with path.open("ab") as file:
        file.write(b'{"type":"message","id":"to')
    before = path.read_bytes()
    found = place.look()["session files"]
    assert found.status == "warning"
    assert str(path) in found.detail
    assert path.read_bytes() == before


def test_a_last_line_longer_than_what_is_looked_at_is_no_harm(place: Place) -> None:
    path = place.session()
    with path.open("ab") as file:
        file.write(b'{"type":"x","id":"y","text":"' + b"z" * 100_000 + b'"}\n')
    assert place.look()["session files"].status == "ok"


def test_a_last_line_that_is_no_entry_has_failed(place: Place) -> None:
    path = place.session()
    with path.open("ab") as file:
        file.write(b"no json\n")
    assert place.look()["session files"].status == "failed"


def test_a_lock_of_an_ended_process_is_free_and_no_trouble(place: Place) -> None:
    lock = place.session().with_suffix(".jsonl.lock")
    lock.write_text(json.dumps({"pid": ended_pid(), "started": "2026"}))
    assert "1 left by ended ones" in place.look()["session locks"].detail


def test_a_session_in_use_is_told_as_held(place: Place) -> None:
    path = place.session()
    with Session.open(path):
        found = place.look()["session locks"]
    assert (found.status, found.detail[:26]) == ("ok", "1 held by running processe")


def test_a_lock_that_outlives_its_owner_is_a_warning(place: Place) -> None:
    path = place.session()
    with Session.open(path):
        lock = path.with_suffix(".jsonl.lock")
        lock.write_text(json.dumps({"pid": ended_pid(), "started": "2026"}))
        found = place.look()["session locks"]
    assert found.status == "warning"
    assert str(lock) in found.detail


def ended_pid() -> int:
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return process.pid


def test_artifacts_that_others_may_read_are_named(place: Place) -> None:
    folder = place.session().with_suffix(".artifacts")
    folder.mkdir(mode=0o700)
    assert place.look()["artifact folders"].status == "ok"
    folder.chmod(0o755)
    assert str(folder) in place.look()["artifact folders"].detail


def test_an_artifact_folder_that_is_a_link_has_failed(place: Place) -> None:
    folder = place.session().with_suffix(".artifacts")
    folder.symlink_to(place.cwd)
    assert place.look()["artifact folders"].status == "failed"


def test_looking_changes_nothing(place: Place) -> None:
    place.session()

    def state() -> list[tuple[str, int, int]]:
        return sorted(
            (str(p), p.stat().st_mode, p.stat().st_mtime_ns) for p in place.home.rglob("*")
        )

    before = state()
    place.look()
    assert state() == before


# Checks of plugins.

CHECKS = """
@hookimpl
def register_checks(ctx):
    return [
        Check("fine", lambda: None),
        Check("coming", waits, timeout=2),
        Check("unwell", lambda: CheckResult("warning", "half of it"), "mend it"),
        Check("own way", lambda: CheckResult("failed", "all of it", "replace it"), "mend it"),
        Check("raises", lambda: 1 / 0, "mend it"),
        Check("wrong", lambda: "yes"),
        Check("said", lambda: CheckResult("ok", "two\\nlines\\x1b[31m"), "unused"),
    ]

async def waits():
    import anyio
    await anyio.lowlevel.checkpoint()
    return CheckResult("ok", "waited")
"""


def test_a_plugin_s_checks_follow_the_host_s_with_its_name(place: Place) -> None:
    found = place.look(paths=(place.plugin(CHECKS),))
    own = [f for f in place.report.findings if f.owner == "checking"]
    assert place.report.findings[-len(own) :] == own
    assert [(f.name, f.status, f.detail, f.fix) for f in own] == [
        ("fine", "ok", "", ""),
        ("coming", "ok", "waited", ""),
        ("unwell", "warning", "half of it", "mend it"),
        ("own way", "failed", "all of it", "replace it"),
        ("raises", "failed", "the check raised ZeroDivisionError: division by zero", "mend it"),
        ("wrong", "failed", "the check did not return a CheckResult", ""),
        ("said", "ok", "two lines\ufffd[31m", ""),
    ]
    assert found["fine"].owner == "checking"


@pytest.mark.parametrize(
    "run",
    [
        "def run():\n    import threading\n    threading.Event().wait(20)\n",
        "async def run():\n    import anyio\n    await anyio.sleep_forever()\n",
    ],
    ids=["sync", "async"],
)
def test_a_check_that_hangs_costs_its_limit_and_no_more(place: Place, run: str) -> None:
    offers = (
        "@hookimpl\ndef register_checks(ctx):\n    return [Check('hangs', run, 'kill it', 0.1)]\n"
    )
    found = place.look(paths=(place.plugin(run + offers),))["hangs"]
    assert (found.status, found.detail, found.fix) == (
        "failed",
        "no answer within 0.1 s",
        "kill it",
    )
    assert found.elapsed_ms < 5_000


def test_an_async_check_that_is_cut_off_still_cleans_up(place: Place) -> None:
    source = (
        "import anyio, pathlib\n"
        "async def run():\n"
        "    try:\n        await anyio.sleep_forever()\n"
        "    finally:\n        pathlib.Path('cleaned').touch()\n"
        "@hookimpl\ndef register_checks(ctx):\n    return [Check('hangs', run, '', 0.05)]\n"
    )
    place.look(paths=(place.plugin(source),))
    assert (place.cwd / "cleaned").exists()


def test_a_plugin_whose_registration_fails_is_named(place: Place) -> None:
    source = "@hookimpl\ndef register_checks(ctx):\n    raise OSError('no')\n"
    place.look(paths=(place.plugin(source),))
    (found,) = (f for f in place.report.findings if f.owner == "checking")
    assert (found.status, found.name) == ("failed", "register_checks")


def test_a_plugin_s_check_reads_its_own_settings(place: Place) -> None:
    place.write("settings.json", plugins={"checking": {"url": "there"}})
    source = (
        "@hookimpl\ndef register_checks(ctx):\n"
        "    return [Check('url', lambda: CheckResult('ok', ctx.settings['url']))]\n"
    )
    assert place.look(paths=(place.plugin(source),))["url"].detail == "there"


# The command.


def test_the_json_document_has_a_status_counts_and_the_checks(place: Place) -> None:
    result = CliRunner().invoke(doctor, ["--json"])
    document = json.loads(result.stdout)
    assert (result.exit_code, document["status"]) == (0, "warning")
    assert sum(document["counts"].values()) == len(document["checks"])
    assert set(document["checks"][0]) == {"name", "owner", "status", "detail", "fix", "ms"}


def test_the_exit_code_is_that_of_the_worst(place: Place) -> None:
    (place.home / "settings.json").write_text("[]")
    result = CliRunner().invoke(doctor, [])
    assert result.exit_code == 1
    assert "1 failed" in result.stdout
    assert "Traceback" not in result.output


def test_the_table_has_no_colour_for_who_wants_none(place: Place, monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[3" not in CliRunner().invoke(doctor, []).stdout


def test_a_home_that_cannot_be_read_is_a_finding_and_no_crash(place: Place) -> None:
    if os.geteuid() == 0:
        (place.home / "settings.json").mkdir()  # root reads everything but this
    else:
        place.write("settings.json").chmod(0)
    assert place.look()["settings"].status == "failed"
