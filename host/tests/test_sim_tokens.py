"""The simulator counting in tokens that it is given."""

from __future__ import annotations

import pytest

from unipi.sim import Say, Simulator

HEADERS = {"authorization": "Bearer x", "content-type": "application/json"}


class Letters:
    """A token a letter: of the last message, and of the answer."""

    def prompt(self, request):
        return [ord(letter) for letter in request["messages"][-1]["content"]]

    def answer(self, parts):
        return [ord(letter) for part in parts for letter in part.text]


def ask(sim: Simulator, text: str) -> tuple[int, int]:
    body = b'{"model":"m","messages":[{"role":"user","content":"%b"}]}' % text.encode()
    exchange = sim.exchange("POST", "/v1/chat/completions", HEADERS, body)
    exchange.began()
    exchange.finished()
    return sim.requests[-1].prompt_tokens, sim.requests[-1].cached_tokens


def test_prompt_answer_and_cache_are_counted_in_the_tokens_that_are_given():
    sim = Simulator([Say("yes"), Say("no"), Say("no")], profile="exact", tokens=Letters())
    assert ask(sim, "why? ") == (5, 0)
    assert ask(sim, "why? yes, and now?") == (18, 8)
    assert ask(sim, "what?") == (5, 2)


def test_a_rule_that_needs_the_simulators_own_blocks_refuses_other_tokens():
    with pytest.raises(ValueError, match="'anthropic' needs the simulator's own tokens"):
        Simulator([], profile="anthropic", tokens=Letters())
