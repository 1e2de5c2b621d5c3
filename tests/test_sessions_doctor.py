"""`unipi sessions doctor`: every known poison is found, its cure told, and a copy mended."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings, strategies as st

from unipi.cli.sessions_doctor import doctor
from unipi.doctor.session_file import examine, write_copy
from unipi.session import Session
from unipi.sim import Say
from unipi.testing.lab import PROFILES, lab

RECORDED = Path(__file__).resolve().parents[2] / "shared" / "data" / "pi-session-a.jsonl"
BIG = "A" * 7_000_000


def user(text="Go on."):
    return {"role": "user", "content": text, "timestamp": 1}


def said(*blocks, reason="stop", api="anthropic-messages"):
    content = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
    usage = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0}
    names = {"api": api, "provider": "anthropic", "model": "m"}
    return {
        "role": "assistant",
        "content": content,
        "usage": usage,
        "stopReason": reason,
        "timestamp": 1,
        **names,
    }


def call(name="c1", **more):
    return {"type": "toolCall", "id": name, "name": "bash", "arguments": {"command": "ls"}, **more}


def result(name="c1"):
    content = [{"type": "text", "text": "ok"}]
    fields = {"toolCallId": name, "toolName": "bash", "content": content, "isError": False}
    return {"role": "toolResult", **fields, "timestamp": 1}


def lines(*messages, parents=None, ids=None):
    """A session of version 3, each message behind the one before it unless `parents` says else."""
    made = [{"type": "session", "version": 3, "id": "s1", "timestamp": STAMP, "cwd": "/w"}]
    for number, message in enumerate(messages):
        own = ids[number] if ids else f"e{number}"
        before = (ids[number - 1] if ids else f"e{number - 1}") if number else None
        parent = parents[number] if parents else before
        made.append(
            {"type": "message", "id": own, "parentId": parent, "timestamp": STAMP}
            | {"message": message}
        )
    return made


STAMP = "2026-11-30T10:00:00.000Z"


def text_of(made):
    return "".join(json.dumps(line) + "\n" for line in made)


THOUGHT = {"type": "thinking", "thinking": "hm"}
PICTURE = {"type": "image", "data": BIG, "mimeType": "image/png"}
WRITERS = ["e0", "e0", "e1", "e2", "e3", "e4", "e5"]

PI = {
    "orphan call": text_of(lines(user(), said("a", call()), user())),
    "orphan call, of two": text_of(
        lines(user(), said(call(), call("c2")), result("c2"), said("done"))
    ),
    "orphan call, at the end": text_of(lines(user(), said(call()))),
    "orphan result": text_of(lines(user(), said("a"), result(), user())),
    "orphan result, the second": text_of(
        lines(user(), said(call()), result(), result(), said("done"))
    ),
    "malformed arguments": text_of(
        lines(user(), said(call(arguments='{"a": ')), result(), said("done"))
    ),
    "foreign call id": text_of(
        lines(user(), said(call("fc/1:x y")), result("fc/1:x y"), said("done"))
    ),
    "foreign parent": text_of(
        lines(user(), said("a"), user("b"), parents=[None, "e0", "elsewhere"])
    ),
    "duplicate id": text_of(
        lines(user(), said("a"), user("b"), said("c"), ids=["e0", "e1", "e0", "e3"])
    ),
    "lone surrogate": text_of(lines(user("broken \ud83d end"), said("a"))),
    "unsigned thinking": text_of(lines(user(), said(THOUGHT, "a"), user())),
    "oversized picture": text_of(lines({**user(), "content": [PICTURE]}, said("a"))),
    "torn line": text_of(lines(user(), said("a"))) + '{"type":"message","id":"e9","par',
    "broken line": text_of(lines(user())) + "no JSON\n" + text_of(lines(user(), said("a"))[2:]),
    "two writers": text_of(
        lines(
            *(user(f"w{n % 2} {n}") if n % 4 < 2 else said(f"w{n % 2} {n}") for n in range(8)),
            parents=[None, None, *(f"e{n}" for n in range(6))],
        )
    ),
}


def claude(*messages):
    made = []
    for number, (kind, content) in enumerate(messages):
        made.append(
            {
                "type": kind,
                "uuid": f"u{number}",
                "parentUuid": f"u{number - 1}" if number else None,
                "sessionId": "s1",
                "timestamp": STAMP,
                "message": {"role": kind, "content": content},
            }
        )
    return text_of(made)


USE = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
DONE = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}
PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": BIG}}

CLAUDE = {
    "orphan call": claude(("user", "hi"), ("assistant", [USE]), ("user", "go on")),
    "orphan result": claude(("user", "hi"), ("user", [DONE]), ("assistant", [])),
    "malformed arguments": claude(
        ("user", "hi"), ("assistant", [{**USE, "input": "ls"}]), ("user", [DONE])
    ),
    "lone surrogate": claude(("user", "broken \udc00")),
    "unsigned thinking": claude(("user", "hi"), ("assistant", [THOUGHT])),
    "oversized picture": claude(("user", [PNG])),
    "torn line": claude(("user", "hi")) + '{"type":"user","uu',
    "duplicate id": claude(("user", "hi")) * 2,
    "foreign parent": claude(("user", "hi"), ("user", "on")).replace(
        '"parentUuid": "u0"', '"parentUuid": "x"'
    ),
}


def file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "s.jsonl"
    path.write_text(text, encoding="utf-8")
    return path


def kind(name: str) -> str:
    return name.partition(",")[0]


@pytest.mark.parametrize("name", PI)
def test_a_poison_of_pis_format_is_found_at_its_line_and_gone_from_the_copy(
    tmp_path: Path, name: str
) -> None:
    path = file(tmp_path, PI[name])
    before = path.read_bytes()
    examined = examine(path)
    assert {finding.kind for finding in examined.findings} == {kind(name)}
    assert all(finding.line > 1 and finding.what and finding.cure for finding in examined.findings)
    write_copy(examined, tmp_path / "m.jsonl")
    assert path.read_bytes() == before
    assert examine(tmp_path / "m.jsonl").findings == []
    with Session.open(tmp_path / "m.jsonl", read_only=True) as mended:
        assert mended.damages == ()
        assert mended.left_out() == []
        assert mended.open_calls() == []


@pytest.mark.parametrize("name", CLAUDE)
def test_a_poison_of_claude_codes_format_is_found_and_gone_from_the_copy(
    tmp_path: Path, name: str
) -> None:
    examined = examine(file(tmp_path, CLAUDE[name]))
    assert {finding.kind for finding in examined.findings} == {kind(name)}
    write_copy(examined, tmp_path / "m.jsonl")
    assert examine(tmp_path / "m.jsonl").findings == []


@pytest.mark.parametrize("api", sorted(PROFILES))
@pytest.mark.parametrize("name", PI)
async def test_a_provider_takes_the_mended_copy(tmp_path: Path, name: str, api: str) -> None:
    write_copy(examine(file(tmp_path, PI[name])), tmp_path / "m.jsonl")
    session = Session.open(tmp_path / "m.jsonl")
    async with lab(tmp_path, [Say("well")], api=api, session=session) as it:
        await it.agent.prompt("Are you well?")
    assert [request.status for request in it.sim.requests] == [200]


def test_parallel_results_of_claude_code_hang_beside_each_other_and_are_no_fault(
    tmp_path: Path,
) -> None:
    second = {**USE, "id": "toolu_2"}
    text = claude(
        ("user", "hi"),
        ("assistant", [USE]),
        ("assistant", [second]),
        ("user", [DONE]),
        ("user", [{**DONE, "tool_use_id": "toolu_2"}]),
    )
    made = [json.loads(line) for line in text.splitlines()]
    made[3]["parentUuid"] = "u1"
    assert examine(file(tmp_path, text_of(made))).findings == []


def test_nothing_of_what_was_said_is_lost_in_a_copy(tmp_path: Path) -> None:
    path = file(tmp_path, PI["two writers"])
    write_copy(examine(path), tmp_path / "m.jsonl")
    with Session.open(path) as before, Session.open(tmp_path / "m.jsonl") as after:
        assert {e.id for e in after.entries()} == {e.id for e in before.entries()}
        assert after.messages() == before.messages()
    order = [json.loads(line)["id"] for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    assert order == ["s1", "e0", "e2", "e4", "e6", "e1", "e3", "e5", "e7"]


@pytest.mark.skipif(not RECORDED.exists(), reason="needs ../shared/data")
def test_a_recorded_session_of_pi_has_one_call_that_a_compaction_cut_off(tmp_path: Path) -> None:
    (found,) = examine(RECORDED).findings
    assert (found.line, found.kind) == (628, "orphan call")
    write_copy(examine(RECORDED), tmp_path / "m.jsonl")
    with Session.open(tmp_path / "m.jsonl", read_only=True) as mended:
        assert mended.open_calls() == []


MESSAGES = st.lists(
    st.sampled_from(
        [
            user(),
            said("a"),
            said(call("c1")),
            said(call("c1"), call("c2")),
            result("c1"),
            result("c2"),
            said(THOUGHT, "x"),
            said("f", reason="aborted"),
            said(call("c3", arguments=[])),
            user("\ud800"),
        ]
    ),
    min_size=1,
    max_size=14,
)


@settings(max_examples=150, deadline=None)
@given(MESSAGES, st.integers(0, 1000))
def test_any_tree_of_anything_is_whole_after_mending(tmp_path_factory, messages, seed) -> None:
    tmp_path = tmp_path_factory.mktemp("any")
    chance = random.Random(seed)
    parents = [
        f"e{chance.randrange(max(0, n - 3), n)}" if n else None for n in range(len(messages))
    ]
    examined = examine(file(tmp_path, text_of(lines(*messages, parents=parents))))
    write_copy(examined, tmp_path / "m.jsonl")
    assert examine(tmp_path / "m.jsonl").findings == []
    with Session.open(tmp_path / "m.jsonl", read_only=True) as mended:
        for entry in mended.entries():
            mended.move_leaf(entry.id)
            told = [line for line in mended.left_out() if "the answer" not in line]
            assert [line for line in told if "begins with the user" not in line] == []


# ---- the command


def run(*arguments):
    return CliRunner().invoke(doctor, [str(each) for each in arguments])


def test_the_command_says_what_it_found_and_how_a_copy_is_had(tmp_path: Path) -> None:
    path = file(tmp_path, PI["orphan call"])
    done = run(path)
    assert done.exit_code == 1
    assert "orphan call" in done.output
    assert "--mend OUT" in done.output
    done = run(path, "--mend", tmp_path / "m.jsonl")
    assert f"mended in {tmp_path / 'm.jsonl'}" in done.output.replace("\n", "")
    assert (tmp_path / "m.jsonl").stat().st_mode & 0o777 == 0o600
    assert run(tmp_path / "m.jsonl").exit_code == 0


def test_the_document_names_line_entry_kind_and_cure(tmp_path: Path) -> None:
    told = json.loads(run(file(tmp_path, PI["orphan call"]), "--json").output)
    assert (told["format"], told["mended"]) == ("pi", None)
    (finding,) = told["findings"]
    assert (finding["line"], finding["entry"], finding["kind"]) == (3, "e1", "orphan call")
    assert set(finding) == {"line", "entry", "kind", "what", "cure"}


@pytest.mark.parametrize("text", ["", "no session\n", '{"a": 1}\n'])
def test_what_is_no_session_is_told_in_a_line(tmp_path: Path, text: str) -> None:
    done = run(file(tmp_path, text))
    assert done.exit_code == 2
    assert "is no session" in done.output
    assert isinstance(done.exception, SystemExit)


def test_a_copy_takes_no_file_that_is_there(tmp_path: Path) -> None:
    path = file(tmp_path, PI["orphan call"])
    done = run(path, "--mend", path)
    assert done.exit_code == 2
    assert "is there already" in done.output
    assert path.read_text() == PI["orphan call"]
