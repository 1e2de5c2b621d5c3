"""`unipi cache report` and `watch`: tables, JSON, the page, and what is never in any of them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import stat
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner

from unipi.cli.main import cli
from unipi_diagnostics import cli_watch
from unipi_diagnostics.audit_rates import PriceBook
from unipi_diagnostics.audit_records import Mark
from unipi_diagnostics.cli_text import pause, plain
from unipi_diagnostics.cli_watch import Follower, told
from unipi_diagnostics.page_chart import MOST_BARS, Band, Bar, chart

RECORDED = Path(__file__).parents[4] / "shared" / "data" / "pi-session-a.jsonl"
needs_data = pytest.mark.skipif(
    not RECORDED.exists(), reason="the recorded session (shared/data) is not here"
)
NOON = 1_795_953_600_000
SECRETS = (
    "sk-ant-api03-abcdefghijklmnop",
    "ghp_abcdefghijklmnopqrst0123",
    "hunter2-is-the-password",
)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("UNIPI_HOME", str(tmp_path / "home"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return tmp_path / "home"


def usage(read, written, fresh=0):
    return {"input": fresh, "output": 5, "cacheRead": read, "cacheWrite": written}


def answer(second, read, written, said="Fine.", **fields):
    message = {"role": "assistant", "provider": "anthropic", "model": "claude-sonnet-5"}
    message |= {
        "api": "anthropic-messages",
        "stopReason": "stop",
        "timestamp": NOON + second * 1000,
    }
    message |= {
        "content": [{"type": "text", "text": said}],
        "usage": usage(read, written),
        **fields,
    }
    return {"type": "message", "id": f"a{second}", "parentId": None, "message": message}


def boundary(**data):
    return {"type": "custom", "id": "b", "customType": "unipi.epoch", "data": data}


def ours(cwd="/w", said="Hello", **header):
    """A session with a ledger: a first epoch, and one that a plugin was the owner of."""
    prompt = {"role": "user", "content": said}
    lost = {"tokensLost": 5_000, "price": 0.01, "detail": "the tool `web` came"}
    return [
        {"type": "session", "version": 3, "id": "5f0c", "cwd": cwd, **header},
        boundary(number=1, cause="first", owner="host", avoidable=False, tokensLost=0),
        {"type": "message", "id": "u1", "message": prompt},
        answer(0, 0, 5_000, said),
        answer(5, 5_000, 100),
        boundary(number=2, cause="tools", owner="careless", avoidable=True, **lost),
        {"type": "message", "id": "u2", "message": prompt},
        answer(432, 0, 5_200),
    ]


def save(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def run(*arguments, code=0):
    done = CliRunner().invoke(cli, ["cache", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done.output


# The report.


@needs_data
def test_every_miss_that_the_recording_explains_has_its_cause_in_under_a_second(home):
    began = time.perf_counter()
    report = json.loads(run("report", RECORDED, "--json"))
    assert time.perf_counter() - began < 1
    assert (report["misses"], report["tokens_lost"]) == (12, 1_491_729)
    assert [stretch["cause"] for stretch in report["stretches"]] == [
        "first",
        "minimum",
        "thinking_level",
        "compaction",
        "idle",
        "unexplained",
        "compaction",
        "unexplained",
        "unexplained",
        "after_error",
        "unexplained",
        "after_abort",
        "unexplained",
    ]
    # Of the others the recording tells only where they stand: at a new prompt, in time.
    riddles = [row for row in report["rows"] if row["cause"] == "unexplained"]
    assert all(row["at"] == "prompt" and row["seconds"] < 300 for row in riddles)


def test_a_session_of_ours_names_owner_price_and_what_was_avoidable(home, tmp_path):
    path = save(tmp_path / "s.jsonl", ours())
    report = json.loads(run("report", path, "--json"))
    first, second = report["stretches"]
    assert (first["cause"], first["owner"], first["tokens_lost"]) == ("first", "host", 0)
    assert (second["cause"], second["owner"], second["avoidable"]) == ("tools", "careless", True)
    assert (second["tokens_lost"], second["expected_tokens"]) == (5_100, 5_000)
    assert second["loss"] == pytest.approx(5_100 * (2.5 - 0.2) / 1e6)
    assert report["by_owner"]["careless"]["tokens_paid_again"] == 5_100
    assert report["avoidable"] == 1
    table = run("report", path)
    assert all(word in table for word in ("careless", " yes ", "tools", "$0.01"))
    assert "1 misses, 5,100 tokens lost" in table


def test_the_last_session_is_that_of_this_folder_else_the_newest(home, tmp_path):
    import os

    here = save(home / "sessions" / "a" / "1.jsonl", ours(cwd=str(Path.cwd()), said="x"))
    other = save(home / "sessions" / "b" / "2.jsonl", ours(cwd="/elsewhere"))
    os.utime(here, (1_000, 1_000))
    assert json.loads(run("report", "--json"))["file"] == str(here)
    here.unlink()
    assert json.loads(run("report", "--last", "--json"))["file"] == str(other)


def test_without_a_session_it_says_how_to_get_one(home):
    assert "unipi run" in run("report", code=2)
    assert "unipi run" in run("report", "--all", code=2)
    assert "choose one" in run("report", "x", "--all", code=2)
    assert "goes with --all" in run("report", "--since", "2026-01-01", code=2)


def test_all_sessions_are_added_up(home):
    save(home / "sessions" / "a" / "1.jsonl", ours(cwd="/w/a"))
    save(home / "sessions" / "b" / "2.jsonl", ours(cwd="/w/b"))
    report = json.loads(run("report", "--all", "--json"))
    assert (report["files"], report["by_owner"]["careless"]["misses"]) == (2, 2)
    assert "2 sessions" in run("report", "--all")


# The page.


class Page(HTMLParser):
    """Tags, attributes and text of a page; a tag that is closed wrongly fails the test."""

    VOID = frozenset({"meta", "br"})

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.texts, self._open = [], [], [], []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def page_of(path, tmp_path, *arguments):
    out = tmp_path / "report.html"
    run("report", *([path] if path else []), "--html", out, *arguments)
    return out


def test_the_page_needs_nothing_else_and_lets_nothing_else_in(home, tmp_path):
    out = page_of(save(tmp_path / "s.jsonl", ours()), tmp_path)
    text = out.read_text()
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "form", "a", "object"} & set(page.tags)
    assert not [a for a in page.attributes if a[1] in ("src", "href", "style", "onload")]
    assert "://" not in text
    assert "@import" not in text
    assert "url(" not in text
    (policy,) = (v for _, n, v in page.attributes if n == "content" and "default-src" in v)
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'")
    assert "prefers-color-scheme:dark" in style
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_the_page_shows_the_stretches_with_cause_and_owner(home, tmp_path):
    page = Page(page_of(save(tmp_path / "s.jsonl", ours()), tmp_path).read_text())
    said = " ".join(page.texts)
    for expected in ("tools", "careless (avoidable)", "the tool `web` came", "after 7 m 7 s"):
        assert expected in said
    assert "read" in [value for tag, name, value in page.attributes if tag == "path"]


def test_the_page_of_all_sessions_has_a_bar_a_day(home, tmp_path):
    save(home / "sessions" / "a" / "1.jsonl", ours(cwd="/w/a"))
    page = Page(page_of(None, tmp_path, "--all").read_text())
    assert "Prompt tokens per day" in page.texts
    assert any(text.startswith("2026-11-29:") for text in page.texts)


def test_a_page_that_cannot_be_written_is_named_and_leaves_nothing(home, tmp_path):
    path = save(tmp_path / "s.jsonl", ours())
    assert "cannot be written" in run("report", path, "--html", tmp_path / "no" / "r.html", code=1)
    assert not (tmp_path / "no").exists()


def test_a_very_long_session_makes_a_page_of_bounded_size():
    bars = [Bar(f"#{number}", 1_000 + number, 0, 0) for number in range(20_000)]
    bars[12_345] = Bar("the miss", 0, 13_345, 0)
    drawn = chart(bars, [Band(1, 0, "first"), Band(2, 12_345, "2: tools", bad=True)], "t")
    assert drawn.count('class="tip"') <= MOST_BARS
    assert "the miss: 0 read, 13,345 written" in drawn
    assert len(drawn) < 150_000


def test_a_chart_of_nothing_is_empty():
    assert chart([], [], "t") == ""
    assert "<svg" in chart([Bar("#0", 0, 0, 0)], [Band(1, 0, "first")], "t")


# What is in none of it.


def planted(path):
    """A session with secrets wherever text may stand, and text that would do harm if shown raw."""
    evil = "\x1b[31m\x1b]0;owned\x07\u202e<script>alert(1)</script>"
    key, token, password = SECRETS
    lines = ours(cwd=f"/w/{key}", said=f"{password} {evil}", extra=password)
    lines[5]["data"] |= {"owner": f"careless {evil}", "detail": f"{token} {evil}"}
    lines[4]["message"] |= {"model": f"m-{evil}", "errorMessage": password}
    lines[3]["message"]["content"].append(
        {"type": "toolCall", "id": password, "name": password, "arguments": {password: password}}
    )
    lines[-1]["id"] = f"{token}{evil}"
    return save(path, lines)


@pytest.mark.parametrize(
    "arguments",
    [
        ["report"],
        ["report", "--json"],
        ["report", "--html"],
        ["audit"],
        ["audit", "--json"],
        ["audit", "--since", "2026-01-01"],
        ["audit", "--since", "2026-01-01", "--json"],
        ["watch", "--for", "0"],
    ],
    ids=" ".join,
)
def test_no_planted_secret_and_no_control_character_comes_out(arguments, home, tmp_path):
    path = planted(tmp_path / "s.jsonl")
    command, *options = arguments
    if options == ["--html"]:
        options.append(tmp_path / "report.html")
    shown = run(command, path, *options)
    if "--html" in options:
        shown = options[-1].read_text()
        assert "<script" not in shown
        assert "&lt;script&gt;" in shown
    joined = re.sub(r"\s|[│┃]", "", shown)
    for secret in SECRETS:
        assert secret not in shown
        assert secret not in joined
    assert not [c for c in shown if c != "\n" and not c.isprintable()]


@pytest.mark.parametrize(
    "key",
    [
        *SECRETS[:2],
        "AKIAABCDEFGHIJKLMNOP",
        "xoxb-1234567890-abc",
        "Bearer abcdefghijklmnop",
        "https://me:password@host/x",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    ],
)
def test_what_looks_like_a_key_is_masked(key):
    shown = plain(f"before {key} after", 500)
    assert "[redacted]" in shown
    assert key not in shown


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.6, "1 m 0 s"), (432, "7 m 12 s"), (11_100, "3 h 5 m"), (187_200, "2 d 4 h")],
)
def test_a_pause_is_said_in_words(seconds, words):
    assert pause(seconds) == words


# Watching.


def lines_of(follower):
    return [told(found, follower.prices) for found in follower.look()]


def test_each_answer_and_boundary_is_told_as_it_is_appended(tmp_path):
    lines = ours()
    path = save(tmp_path / "s.jsonl", lines[:4])
    follower = Follower(path, PriceBook())
    assert len(lines_of(follower)) == 2
    assert lines_of(follower) == []
    with path.open("a") as file:
        file.write(json.dumps(lines[4]) + "\n" + json.dumps(lines[5])[:40])
        file.flush()
        (told_now,) = lines_of(follower)
        assert told_now == "12:00:05 #1 claude-sonnet-5: 5,100 prompt tokens, 98.0% read"
        file.write(json.dumps(lines[5])[40:] + "\n" + json.dumps(lines[7]) + "\n")
    ended, missed = lines_of(follower)
    assert ended.strip() == "an avoidable boundary: tools, by careless (the tool `web` came)"
    assert missed.endswith("MISSED 5,100 tokens, $0.01: tools after 7 m 7 s")


def test_a_file_that_was_replaced_is_read_from_its_beginning(tmp_path):
    path = save(tmp_path / "s.jsonl", ours())
    follower = Follower(path, PriceBook())
    assert follower.look()
    save(tmp_path / "new.jsonl", [*ours(), answer(500, 5_000, 300)]).replace(path)
    assert next(f for f in follower.look() if not isinstance(f, Mark)).index == 0
    assert follower.auditor.answered == 4
    path.write_text(json.dumps(ours()[0]) + "\n")
    assert follower.look() == []
    assert follower.auditor.answered == 0


def test_watching_ends_by_itself_after_a_given_time(home, tmp_path):
    path = save(tmp_path / "s.jsonl", ours())
    begun, ended = run("watch", path, "--for", "0").splitlines()
    assert begun.startswith("watching s.jsonl: 3 requests")
    assert ended.startswith("3 requests, 32.7% of prompt tokens read, 1 misses")


def test_ctrl_c_ends_it_with_the_totals(home, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("anyio.run", interrupted)
    path = save(tmp_path / "s.jsonl", ours())
    assert run("watch", path).splitlines()[-1].startswith("3 requests")


def test_what_is_appended_while_watching_is_printed(home, tmp_path, monkeypatch):
    lines = ours()
    path = save(tmp_path / "s.jsonl", lines[:5])
    looks = []
    look = Follower.look

    def append_once(self):
        looks.append(None)
        if len(looks) == 2:
            with path.open("a") as file:
                file.write("".join(json.dumps(line) + "\n" for line in lines[5:]))
        return look(self)

    monkeypatch.setattr(Follower, "look", append_once)
    monkeypatch.setattr(cli_watch, "INTERVAL", 0.01)
    shown = run("watch", path, "--for", "0.1")
    assert "an avoidable boundary: tools" in shown
    assert "MISSED 5,100 tokens" in shown


def test_watching_a_file_of_another_kind_is_refused(home, tmp_path):
    (tmp_path / "notes.jsonl").write_text("hello\n")
    assert "is not a session" in run("watch", tmp_path / "notes.jsonl", code=2)
