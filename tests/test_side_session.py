"""Side sessions: a session beside the main one, whose bytes and counters do not move for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from unipi.session import Session
from unipi.sim import Answer, Call, Say
from unipi.testing import lab, prefix_breaks
from unipi_hookspecs import Tool, hookimpl

APIS = ["anthropic-messages", "openai-chat-completions", "openai-responses"]
LONG = "word " * 2_000


class Asks:
    """A tool that asks a side session, and a record of which session each hook ran for."""

    def __init__(self, **wish: object) -> None:
        self.wish = wish
        self.purposes: list[str] = []
        self.heard: list[str] = []
        self.side_path: Path | None = None
        self.tokens = 0

    @hookimpl
    def register_tools(self) -> list[Tool]:
        async def ask(call, ctx) -> str:
            async with ctx.open_side_session("helper", **self.wish) as side:
                self.side_path = side.session.path
                answer = await side.prompt("look into it")
                self.tokens = side.tokens
                return answer

        return [Tool("ask", "Ask a helper.", run=ask)]

    @hookimpl
    def provider_request_sealed(self, event, ctx) -> None:
        self.purposes.append(event.info.purpose)
        self.heard.append(ctx.session.id)


def script():
    return [Call("ask"), Say("found it"), Say("thanks"), Say("bye")]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("inherit", [False, True])
async def test_the_main_session_s_requests_are_as_if_there_had_been_no_helper(
    tmp_path: Path, api: str, inherit: bool
) -> None:
    asks = Asks(inherit=inherit)
    main = Session.create(tmp_path / "main.jsonl", cwd=tmp_path)
    async with lab(tmp_path, script(), api=api, session=main, plugins=[("asks", asks)]) as it:
        await it.agent.prompt(LONG)
        await it.agent.prompt("more")
        assert [b.cause for b in it.boundaries] == ["first"]
    first, helper, second, third = it.requests
    assert prefix_breaks([first, second, third]) == []
    assert b"look into it" in helper.body
    assert b"look into it" not in second.body
    assert b"found it" in second.body
    assert asks.purposes == ["turn", "helper", "turn", "turn"]
    assert asks.tokens > 0


@pytest.mark.parametrize("api", APIS)
async def test_a_side_session_that_inherits_extends_what_the_session_last_sent(
    tmp_path: Path, api: str
) -> None:
    asks = Asks(inherit=True)
    main = Session.create(tmp_path / "main.jsonl", cwd=tmp_path)
    async with lab(tmp_path, script(), api=api, session=main, plugins=[("asks", asks)]) as it:
        await it.agent.prompt(LONG)
    first, helper, _ = it.requests
    assert prefix_breaks([first, helper]) == []
    assert helper.cached_tokens >= first.prompt_tokens - 128


async def test_hooks_get_the_context_of_the_session_that_the_event_is_of(tmp_path: Path) -> None:
    asks = Asks()
    main = Session.create(tmp_path / "main.jsonl", cwd=tmp_path)
    async with lab(tmp_path, script(), session=main, plugins=[("asks", asks)]) as it:
        await it.agent.prompt("go")
    before, side, after = asks.heard
    assert before == after == main.id
    assert side != main.id


async def test_its_own_file_names_the_session_it_was_made_for_and_can_be_resumed(
    tmp_path: Path,
) -> None:
    asks = Asks()
    main = Session.create(tmp_path / "main.jsonl", cwd=tmp_path)
    async with lab(tmp_path, script(), session=main, plugins=[("asks", asks)]) as it:
        await it.agent.prompt("go")
    assert asks.side_path is not None
    head = asks.side_path.read_text().splitlines()[0]
    assert str(tmp_path / "main.jsonl") in head
    again = Asks(resume=asks.side_path)
    other = Session.create(tmp_path / "other.jsonl", cwd=tmp_path)
    async with lab(tmp_path, script(), session=other, plugins=[("asks", again)]) as it:
        await it.agent.prompt("go")
    assert it.requests[1].body.count(b"look into it") == 2


async def test_only_the_named_tools_and_the_given_prompt_are_in_its_head(tmp_path: Path) -> None:
    asks = Asks(tools=("read",), system="You only look.")
    async with lab(tmp_path, script(), plugins=[("asks", asks)]) as it:
        await it.agent.prompt("go")
    helper = it.requests[1].body
    assert b"You only look." in helper
    assert b'"name":"read"' in helper
    assert b'"name":"bash"' not in helper
    assert b'"name":"ask"' not in helper


async def test_an_unknown_model_is_an_error_that_lists_the_known_ones(tmp_path: Path) -> None:
    asks = Asks(model="no/such")
    steps = [Answer([Call("ask")]), Say("oh")]
    async with lab(tmp_path, steps, plugins=[("asks", asks)]) as it:
        await it.agent.prompt("go")
    assert b"sim/sim-model" in it.requests[1].body
