"""Scripts: what is answered, in which order, and what happens when there is nothing to answer."""

import pytest

from unipi.sim import Answer, Call, Fault, Say, Simulator, run_simulator
from unipi.sim.raw import CHAT, MESSAGES, send

BODY = {"model": "claude-sonnet-5", "max_tokens": 9, "messages": [{"role": "user", "content": "q"}]}


def texts(script, count, **options):
    sim = Simulator(script, **options)
    with run_simulator(sim) as url:
        replies = [send(url, MESSAGES, BODY) for _ in range(count)]
    return [r.json()["content"][0]["text"] if r.status == 200 else r for r in replies]


def test_steps_are_consumed_one_a_request():
    assert texts([[Say("a")], Answer([Say("b")]), Say("c")], 3) == ["a", "b", "c"]


def test_an_exhausted_script_is_a_500_that_says_so():
    answers = texts([Say("a")], 2)
    assert answers[1].status == 500
    error = answers[1].json()["error"]
    assert error["type"] == "api_error"
    assert "script exhausted" in error["message"]


def test_the_last_step_can_be_repeated():
    assert texts([Say("a"), Say("b")], 3, repeat_last=True) == ["a", "b", "b"]


def test_a_refused_request_consumes_no_step():
    sim = Simulator([Say("a")])
    with run_simulator(sim) as url:
        assert send(url, MESSAGES, {**BODY, "messages": []}).status == 400
        assert send(url, MESSAGES, BODY).status == 200
    assert [r.answer_index for r in sim.requests] == [None, 0]
    assert "at least one message" in sim.requests[0].error


def test_a_callable_script_sees_the_request_and_its_number():
    def script(request, index):
        return [Say(f"{index}: {request['messages'][0]['content']}")]

    assert texts(script, 2) == ["0: q", "1: q"]


def test_a_script_that_raises_is_told_to_the_client():
    def script(request, index):
        raise RuntimeError("no idea")

    (reply,) = texts(script, 1)
    assert reply.status == 500
    assert "RuntimeError: no idea" in reply.json()["error"]["message"]


def test_one_simulator_serves_both_apis_from_one_script_and_counts_ids_on():
    sim = Simulator([[Call("a")]], repeat_last=True)
    with run_simulator(sim) as url:
        first = send(url, MESSAGES, BODY).json()
        second = send(url, CHAT, {"model": "m", "messages": BODY["messages"]}).json()
    assert first["content"][0]["id"] == "toolu_sim_0001"
    assert second["choices"][0]["message"]["tool_calls"][0]["id"] == "call_sim_0002"


def test_the_same_script_gives_the_same_bytes():
    def run():
        with run_simulator(Simulator([[Say("a"), Call("b", {"c": 1})]])) as url:
            return send(url, MESSAGES, {**BODY, "stream": True}).body

    assert run() == run()


def test_a_fault_is_exactly_one_thing():
    with pytest.raises(ValueError, match="exactly one"):
        Fault()
    with pytest.raises(ValueError, match="exactly one"):
        Fault(status=429, cut=True)


def test_text_that_utf8_cannot_carry_is_refused_when_the_script_is_written():
    with pytest.raises(ValueError, match="UTF-8"):
        Say("\ud800")


def test_an_unknown_profile_is_named_with_the_known_ones():
    with pytest.raises(ValueError, match="'nope'; known: anthropic"):
        Simulator([], profile="nope")
