"""Every command and every Python snippet of the documents runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from unipi.session.listing import new_session_path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
SHELL = ("sh", "console")


def blocks(*languages):
    """`(page, line number, options of the info string, text)` of each fenced block."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            language, options, body = match.groups()
            if language in languages:
                yield page, text.count("\n", 0, match.start()) + 1, options.split(), body


def commands():
    """Each command line of the documents, with the exit code that its block states."""
    for page, line, options, body in blocks(*SHELL):
        given = dict(option.partition("=")[::2] for option in options)
        lines = body.replace("\\\n", " ").splitlines()
        if any(text.startswith("$ ") for text in lines):
            lines = [text[2:] for text in lines if text.startswith("$ ")]
        for text in lines:
            if text.strip() and not text.startswith("#"):
                where = f"{page.name}:{line}"
                yield pytest.param(text, int(given.get("exit", 0)), id=f"{where} {text}")


def targets():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))


def entry(entry_id, parent, minute, **fields):
    stamp = f"2026-11-30T10:{minute:02}:00.000Z"
    return {"id": entry_id, "parentId": parent, "timestamp": stamp, **fields}


def answer(text, fresh, read, written):
    usage = {"input": fresh, "output": 10, "cacheRead": read, "cacheWrite": written}
    usage["totalTokens"] = sum(usage.values())
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "api": "anthropic-messages",
        "provider": "anthropic",
        "model": "claude-sonnet-5",
        "usage": usage,
        "stopReason": "stop",
        "timestamp": 1_796_000_000_000,
    }


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """What the documents name: a recorded `session.jsonl`, `requests.jsonl` and `careful.py`.

    The session is also where the host keeps those of this folder.
    """
    said = [
        ("a1", None, 0, {"role": "user", "content": "Hello.", "timestamp": 1_796_000_000_000}),
        ("a2", "a1", 1, answer("Hello!", 2, 0, 4_000)),
        ("a3", "a2", 2, {"role": "user", "content": "Go on.", "timestamp": 1_796_000_060_000}),
        ("a4", "a3", 3, answer("Gladly.", 2, 4_000, 40)),
    ]
    header = {"type": "session", "version": 3, "id": "5f0c7c3e-0000-7000-8000-000000000001"}
    header |= {"timestamp": "2026-11-30T10:00:00.000Z", "cwd": str(tmp_path)}
    lines = [header]
    lines += [entry(i, p, m, type="message", message=message) for i, p, m, message in said]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "session.jsonl").write_text(text, encoding="utf-8")
    monkeypatch.setenv("UNIPI_HOME", str(tmp_path / "home"))
    kept = new_session_path(tmp_path)[0]
    kept.parent.mkdir(parents=True)
    kept.write_text(text, encoding="utf-8")
    body = {"model": "claude-sonnet-5", "messages": [{"role": "user", "content": "Hello."}]}
    bodies = [body, {**body, "system": "It is 10:01."}]
    text = "".join(json.dumps(line) + "\n" for line in bodies)
    (tmp_path / "requests.jsonl").write_text(text, encoding="utf-8")
    plugin = next(body for page, *_, body in blocks("python") if page.name == "first-plugin.md")
    (tmp_path / "careful.py").write_text(plugin, encoding="utf-8")
    return tmp_path


def test_the_documents_have_commands_and_pages():
    assert {page.name for page in PAGES} >= {"README.md", "architecture.md", "hooks.md", "json.md"}
    assert list(commands())


def run(words, folder):
    """The command line of UniPi, as a user would call it in `folder`, with a home of its own."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("UNIPI_")}
    return subprocess.run(
        [sys.executable, "-m", "unipi", *words],
        cwd=folder,
        env={**env, "UNIPI_HOME": str(folder / "home"), "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize(("command", "exit_code"), [*commands()])
def test_a_command_of_the_documents_does_what_it_says(command, exit_code, folder):
    words = shlex.split(command)
    if words[0] == "make":
        named = [word for word in words[1:] if "=" not in word]
        assert set(named) <= targets()
        return
    if words[0] == "pip" or words[:3] == ["python", "-m", "pip"]:
        return  # what is installed, and from where, is the business of the packaging tests
    assert words[0] == "unipi", f"the tests do not know how to run {command!r}"
    done = run(words[1:], folder)
    assert done.returncode == exit_code, done.stderr
    assert "Traceback" not in done.stderr
    if "--json" in words and exit_code == 0:
        for document in done.stdout.splitlines() if words[1] == "run" else [done.stdout]:
            json.loads(document)


def test_the_plugin_of_the_guide_is_active(folder):
    done = run(["plugins", "list", "-e", "careful.py", "--json"], folder)
    (careful,) = (item for item in json.loads(done.stdout) if item["name"] == "careful")
    assert (careful["status"], careful["hooks"]) == ("active", ["tool_call"])


@pytest.mark.parametrize(
    "command",
    ["cache audit", "cache report", "replay", "recall", "sessions doctor", "plugins list"],
)
def test_the_documented_json_keys_are_those_that_are_printed(command, folder):
    page = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    section = page.split(f"## `unipi {command}`\n")[1].split("\n## ")[0]
    keys = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", section, re.MULTILINE)
    documented = re.findall(r"`(\w+)`", " ".join(keys))
    files = {"plugins list": [], "recall": ["hello"]}.get(command, ["session.jsonl"])
    printed = json.loads(run([*command.split(), *files, "--json"], folder).stdout)
    objects = printed if isinstance(printed, list) else [printed]
    assert objects
    assert all(set(item) == set(documented) for item in objects)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_snippets_of_a_page_run_one_after_another(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": f"snippets of {page.name}"}
    for found, line, _, body in blocks("python"):
        if found == page:
            # Blank lines in front, so that a failure names the line of the page.
            exec(compile("\n" * line + body, str(page), "exec"), namespace)


def anchors(page):
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_of_a_page_lead_somewhere(page):
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link
