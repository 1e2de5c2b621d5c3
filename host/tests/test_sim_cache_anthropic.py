"""The Anthropic cache rule: entries at markers, a look-back of 20, tiers, and time."""

import pytest

from unipi.sim import Clock, Fault, Say, Simulator, run_simulator
from unipi.sim.raw import MESSAGES, send

SHORT = {"type": "ephemeral"}
LONG = {"type": "ephemeral", "ttl": "1h"}
BIG = "x" * 8000
TOOL = {"name": "read", "description": BIG, "input_schema": {"type": "object"}}


def text(words, marker=None):
    return {"type": "text", "text": words} | ({"cache_control": marker} if marker else {})


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def body(messages, **members):
    return {"model": "claude-sonnet-5", "max_tokens": 64, "messages": messages, **members}


def run(*steps, clock=None, headers=None, **options):
    """Send bodies in turn; a number among them moves the clock. Gives (prompt, read, written)."""
    clock = clock or Clock()
    sim = Simulator([Say("ok")], repeat_last=True, clock=clock, **options)
    with run_simulator(sim) as url:
        for step in steps:
            if isinstance(step, dict):
                response = send(url, MESSAGES, step, headers=headers)
                assert response.status == 200, response.body
            else:
                clock.advance(step)
    return [(r.prompt_tokens, r.cached_tokens, r.written_tokens) for r in sim.requests]


def test_a_marked_prefix_is_written_once_and_then_read_to_the_token():
    request = body([user(text(BIG, SHORT), text("question"))])
    (prompt, read, written), again = run(request, request)
    assert read == 0
    assert written == (len(f'user text "{BIG}"\n') + 3) // 4
    assert again == (prompt, written, 0)


def test_usage_s_input_tokens_are_what_lies_after_the_last_marker():
    sim = Simulator([Say("ok")], repeat_last=True)
    with run_simulator(sim) as url:
        usage = send(url, MESSAGES, body([user(text(BIG, LONG), text("q"))])).json()["usage"]
    record = sim.requests[0]
    assert usage["input_tokens"] == record.prompt_tokens - record.written_tokens
    assert usage["cache_creation_input_tokens"] == record.written_tokens
    assert usage["cache_read_input_tokens"] == 0
    creation = usage["cache_creation"]
    assert creation["ephemeral_1h_input_tokens"] == record.written_tokens
    assert creation["ephemeral_5m_input_tokens"] == 0


def test_usage_stands_in_message_start_and_again_in_message_delta():
    sim = Simulator([Say("ok")], repeat_last=True)
    request = body([user(text(BIG, SHORT))], stream=True)
    with run_simulator(sim) as url:
        send(url, MESSAGES, request)
        events = {e.name: e.json() for e in send(url, MESSAGES, request).events()}
    expected = sim.requests[1].cached_tokens
    assert expected > 2000
    assert events["message_start"]["message"]["usage"]["cache_read_input_tokens"] == expected
    assert events["message_delta"]["usage"]["cache_read_input_tokens"] == expected


def test_mixed_lifetimes_are_billed_apart():
    sim = Simulator([Say("ok")])
    with run_simulator(sim) as url:
        request = body([user(text(BIG, SHORT))], system=[text(BIG, LONG)])
        creation = send(url, MESSAGES, request).json()["usage"]["cache_creation"]
    assert creation["ephemeral_1h_input_tokens"] > 1900
    assert creation["ephemeral_5m_input_tokens"] > 1900


def test_without_a_marker_nothing_is_written_or_read():
    request = body([user(text(BIG))])
    assert [pair[1:] for pair in run(request, request)] == [(0, 0), (0, 0)]


def test_moving_the_marker_does_not_change_the_prefix():
    first = body([user(text(BIG, SHORT))])
    (_, _, written), (_, read, _) = run(first, body([user(text(BIG)), user(text("more", SHORT))]))
    assert read == written


def test_consecutive_user_messages_are_one_turn():
    split = body([user(text(BIG)), user(text("b", SHORT))])
    joined = body([user(text(BIG), text("b", SHORT))])
    (_, _, written), (_, read, _) = run(split, joined)
    assert read == written


def test_a_string_is_one_text_block():
    first = body([user(text("hi", SHORT))], system=BIG)
    (_, _, written), (_, read, _) = run(first, body([user(text("hi", SHORT))], system=[text(BIG)]))
    assert read == written


def test_a_prefix_under_the_model_s_minimum_is_silently_not_cached():
    def request(size, model):
        return body([user(text("x" * size, SHORT))]) | {"model": model}

    under, over = request(4 * 1000, "claude-sonnet-5"), request(4 * 1024, "claude-sonnet-5")
    assert [r[2] > 0 for r in run(under, over)] == [False, True]
    # Opus 5 caches from 512 tokens, Haiku 4.5 from 4,096.
    assert run(request(4 * 512, "claude-opus-5"))[0][2] > 0
    assert run(request(4 * 4000, "claude-haiku-4-5"))[0][2] == 0


@pytest.mark.parametrize(("added", "hits"), [(19, True), (20, False)])
def test_a_read_looks_back_20_positions_the_marker_s_own_included(added, hits):
    first = body([user(text(BIG, SHORT))])
    grown = [text(f"b{i}") for i in range(added - 1)]
    second = body([user(text(BIG), *grown, text("last", SHORT))])
    (_, _, written), (_, read, rewritten) = run(first, second)
    assert read == (written if hits else 0)
    assert (rewritten > written) is not hits


def test_a_second_marker_at_the_old_place_mends_a_wide_turn():
    first = body([user(text(BIG, SHORT))])
    grown = [text(f"b{i}") for i in range(60)]
    second = body([user(text(BIG, SHORT), *grown, text("last", SHORT))])
    (_, _, written), (_, read, _) = run(first, second)
    assert read == written


def test_an_entry_lives_five_minutes_from_the_start_of_the_request():
    request = body([user(text(BIG, SHORT))])
    assert [r[1] > 0 for r in run(request, 299, request)] == [False, True]
    assert [r[1] > 0 for r in run(request, 301, request)] == [False, False]


def test_a_read_refreshes_the_entry():
    request = body([user(text(BIG, SHORT))])
    assert [r[1] > 0 for r in run(request, 200, request, 200, request)] == [False, True, True]


def test_an_entry_found_by_looking_back_is_refreshed_too():
    old = body([user(text(BIG, SHORT))])
    grown = body([user(text(BIG), text("more", SHORT))])
    fork = body([user(text(BIG), text("other", SHORT))])
    assert [r[1] > 0 for r in run(old, 200, grown, 200, fork)] == [False, True, True]


def test_an_hour_s_marker_lives_an_hour():
    request = body([user(text(BIG, LONG))])
    assert [r[1] > 0 for r in run(request, 3599, request, 3601, request)] == [False, True, False]


def test_the_automatic_marker_stands_on_the_last_cacheable_block():
    request = body([user(text(BIG))], cache_control=SHORT)
    (prompt, _, written), (_, read, _) = run(request, request)
    assert prompt == written == read


def section_reads(change, **options):
    """Which of tools, system and messages are still read after a change."""

    def request(**members):
        return body(
            [user(text(BIG, SHORT))],
            tools=[TOOL | {"cache_control": SHORT}],
            system=[text(BIG, SHORT)],
            **members,
        )

    base = request()
    changed = change(request())
    (prompt, *_), (_, read, _) = run(base, changed, **options)
    return round(3 * read / prompt)


@pytest.mark.parametrize(
    ("kept", "change"),
    [
        (3, {"max_tokens": 65}),
        (3, {"metadata": {"user_id": "u"}}),
        (3, {"stop_sequences": ["x"]}),
        (3, {"tool_choice": {"type": "auto"}}),
        (3, {"output_config": {"effort": "high"}}),
        (3, {"thinking": {"type": "disabled"}}),
        (2, {"tool_choice": {"type": "any"}}),
        (2, {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}),
        (2, {"thinking": {"type": "adaptive"}}),
        (2, {"output_config": {"effort": "low"}}),
        (1, {"system": [text("y" * 8000, SHORT)]}),
        (1, {"speed": "fast"}),
        (0, {"tools": [TOOL | {"description": "y" * 8000, "cache_control": SHORT}]}),
        (0, {"model": "claude-sonnet-4-6"}),
    ],
)
def test_a_change_loses_the_sections_that_depend_on_it(kept, change):
    assert section_reads(lambda request: request | change) == kept


def test_a_first_image_loses_the_messages():
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    image = {"type": "image", "source": source}
    first = body([user(text(BIG, SHORT))])
    _, (_, read, _) = run(first, body([user(text(BIG, SHORT), image)]))
    assert read == 0


def test_a_change_in_the_middle_keeps_what_stands_before_an_earlier_marker():
    def request(middle):
        return body([user(text(BIG, SHORT), text(middle), text("end", SHORT))])

    (_, _, written), (_, read, rewritten) = run(request("a"), request("b"))
    assert read == (len(f'user text "{BIG}"\n') + 3) // 4
    assert rewritten == written - read


def test_older_models_strip_thinking_at_a_new_user_text_and_lose_the_cache_from_there():
    thought = {"type": "thinking", "thinking": BIG, "signature": "s"}
    history = [user(text(BIG)), {"role": "assistant", "content": [thought, text("a", SHORT)]}]
    new, old = "claude-sonnet-5", "claude-sonnet-4-5"
    reads = {}
    for model in (new, old):
        first = body([*history, user(text("b", SHORT))], model=model) | {"model": model}
        (prompt, _, _), *_ = run(first)
        reads[model] = prompt
    assert reads[new] - reads[old] > 1900


def test_a_prewarm_writes_the_cache_and_generates_nothing():
    sim = Simulator([Say("ok")])
    with run_simulator(sim) as url:
        warm = send(url, MESSAGES, body([user(text(BIG, SHORT))]) | {"max_tokens": 0}).json()
        send(url, MESSAGES, body([user(text(BIG, SHORT))]))
    assert warm["content"] == []
    assert warm["stop_reason"] == "max_tokens"
    assert sim.requests[1].cached_tokens == sim.requests[0].written_tokens > 0
    assert [r.answer_index for r in sim.requests] == [None, 0]


def test_a_request_that_fails_writes_nothing():
    sim = Simulator([Fault(status=529), Say("ok")])
    request = body([user(text(BIG, SHORT))])
    with run_simulator(sim) as url:
        assert send(url, MESSAGES, request).status == 529
        send(url, MESSAGES, request)
    assert [r.cached_tokens for r in sim.requests] == [0, 0]


def test_a_stream_that_is_cut_leaves_its_prompt_in_the_cache():
    sim = Simulator([Fault(cut=True, after=1), Say("ok")])
    request = body([user(text(BIG, SHORT))], stream=True)
    with run_simulator(sim) as url:
        assert not send(url, MESSAGES, request).complete
        send(url, MESSAGES, request)
    assert sim.requests[1].cached_tokens > 0


def test_an_entry_can_be_read_once_the_first_response_has_begun():
    from unipi.sim import PROFILES
    from unipi.sim.cache import make_cache
    from unipi.sim.prompt import Prompt, make_block

    cache = make_cache(PROFILES["anthropic"])
    prompt = Prompt("claude-opus-5", (make_block("messages", b"x" * 8000, marker=300.0),))
    first = cache.look_up(prompt, 0.0)
    assert cache.look_up(prompt, 1.0).cached == 0
    first.begin()
    assert cache.look_up(prompt, 2.0).cached == 2000
