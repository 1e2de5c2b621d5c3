"""The cache rules of the other profiles, over chat completions."""

import pytest
from hypothesis import given, strategies as st

from unipi.sim import PROFILES, Clock, Say, Simulator, run_simulator, tokens_of
from unipi.sim.cache import make_cache
from unipi.sim.prompt import Prompt, make_block
from unipi.sim.raw import CHAT, MESSAGES, send

BIG = "x" * 8000
HEAD = b'# user ""\n'


def user(words):
    return {"role": "user", "content": words}


def answer(words="ok"):
    return {"role": "assistant", "content": words}


def body(*messages, **members):
    return {"model": "m", "messages": list(messages), **members}


def run(profile, *steps, **options):
    clock = Clock()
    sim = Simulator([Say("ok")], repeat_last=True, profile=profile, clock=clock, **options)
    replies = []
    with run_simulator(sim) as url:
        for step in steps:
            if isinstance(step, dict):
                response = send(url, CHAT, step)
                assert response.status == 200, response.body
                replies.append(response.json())
            else:
                clock.advance(step)
    return sim.requests, replies


def reads(profile, *steps, **options):
    return [record.cached_tokens for record in run(profile, *steps, **options)[0]]


def test_legacy_hits_come_in_steps_of_128():
    first, second = body(user(BIG)), body(user(BIG), answer(), user("more"))
    records, replies = run("openai_legacy", first, second)
    shared = len(HEAD) + len(BIG)
    assert records[1].cached_tokens == shared // 4 // 128 * 128
    details = replies[1]["usage"]["prompt_tokens_details"]
    assert details == {"cached_tokens": records[1].cached_tokens}
    assert replies[1]["usage"]["prompt_tokens"] == records[1].prompt_tokens


def test_legacy_reads_a_common_prefix_inside_one_block():
    first, second = body(user(BIG + "a" * 4000)), body(user(BIG + "b" * 4000))
    shared = len(b'# user "') + len(BIG)
    assert reads("openai_legacy", first, second)[1] == shared // 4 // 128 * 128


def test_legacy_needs_1024_tokens():
    under, over = body(user("x" * 4000)), body(user("x" * 4100))
    assert reads("openai_legacy", under, under) == [0, 0]
    assert reads("openai_legacy", over, over) == [0, 1024]


@pytest.mark.parametrize(
    "change",
    [
        {"prompt_cache_key": "other"},
        {"reasoning_effort": "low"},
        {"model": "n"},
        {"tools": [{"type": "function", "function": {"name": "a"}}]},
        {"response_format": {"type": "json_object"}},
    ],
)
def test_legacy_loses_everything_by(change):
    assert reads("openai_legacy", body(user(BIG)), body(user(BIG)) | change) == [0, 0]


def test_legacy_keeps_its_entries_while_they_are_used():
    request = body(user(BIG))
    assert [r > 0 for r in reads("openai_legacy", request, 200, request, 200, request)][1:] == [
        True,
        True,
    ]
    assert reads("openai_legacy", request, 301, request) == [0, 0]
    day = request | {"prompt_cache_retention": "24h"}
    assert reads("openai_legacy", day, 80_000, day)[1] > 0


def keyed(*messages, **members):
    return body(*messages, prompt_cache_key="k", **members)


def test_56_appending_hits_the_earlier_breakpoint_to_the_token():
    first, second = keyed(user(BIG)), keyed(user(BIG), answer(), user("more"))
    records, replies = run("openai_56", first, second)
    assert records[0].written_tokens == records[0].prompt_tokens
    assert records[1].cached_tokens == records[0].prompt_tokens
    details = replies[1]["usage"]["prompt_tokens_details"]
    assert details["cache_write_tokens"] == records[1].prompt_tokens - records[0].prompt_tokens


def test_56_another_last_message_finds_nothing_without_an_explicit_breakpoint():
    first, second = keyed(user(BIG), answer(), user("a")), keyed(user(BIG), answer(), user("b"))
    assert reads("openai_56", first, second) == [0, 0]
    marked = [{"type": "text", "text": BIG, "prompt_cache_breakpoint": {"mode": "explicit"}}]
    first = keyed(user(marked), answer(), user("a"))
    second = keyed(user(marked), answer(), user("b"))
    assert reads("openai_56", first, second)[1] == tokens_of(HEAD + BIG.encode())


def test_56_explicit_mode_without_breakpoints_does_not_cache():
    request = keyed(user(BIG), prompt_cache_options={"mode": "explicit"})
    records, _ = run("openai_56", request, request)
    assert [(r.cached_tokens, r.written_tokens) for r in records] == [(0, 0), (0, 0)]


def test_56_reads_nothing_without_the_same_key():
    assert reads("openai_56", body(user(BIG)), body(user(BIG))) == [0, 0]
    other = body(user(BIG), prompt_cache_key="other")
    assert reads("openai_56", keyed(user(BIG)), other) == [0, 0]


def test_56_entries_live_half_an_hour():
    request = keyed(user(BIG))
    assert [r > 0 for r in reads("openai_56", request, 1799, request, 1801, request)] == [
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(("later", "hits"), [(79, True), (80, False)])
def test_56_considers_the_latest_80_breakpoints(later, hits):
    grown = [user(f"m{i}") for i in range(later)]
    assert (reads("openai_56", keyed(user(BIG)), keyed(user(BIG), *grown))[1] > 0) is hits


@pytest.mark.parametrize(("place", "written"), [(0, False), (1, True), (2, True), (3, True)])
def test_56_writes_the_newest_message_and_the_latest_three_breakpoints(place, written):
    def marked(words):
        breakpoint_ = {"prompt_cache_breakpoint": {"mode": "explicit"}}
        return {"type": "text", "text": words} | breakpoint_

    parts = [marked(f"{i}" * 8000) for i in range(4)]
    first = keyed(user([*parts, {"type": "text", "text": "end"}]))
    fork = keyed(user([*parts[: place + 1], marked("fork")]))
    found = reads("openai_56", first, fork)[1]
    before = len(b'# user ""\n') + place * len(b'+ ""\n') + 8000 * (place + 1)
    assert (found == (before + 3) // 4) is written


def test_deepseek_reads_only_whole_units():
    first = body(user(BIG), user("b" * 400))
    appended = body(user(BIG), user("b" * 400), answer(), user("more"))
    changed = body(user(BIG), user("c" * 400))
    records, replies = run("deepseek", first, appended)
    # The unit ends with the answer, which was rendered as it is replayed.
    assert records[1].cached_tokens > records[0].prompt_tokens
    usage = replies[1]["usage"]
    assert usage["prompt_cache_hit_tokens"] == records[1].cached_tokens
    assert (
        usage["prompt_cache_hit_tokens"] + usage["prompt_cache_miss_tokens"]
        == usage["prompt_tokens"]
    )
    assert reads("deepseek", first, changed) == [0, 0]


def test_deepseek_keeps_a_common_prefix_for_the_third_request():
    requests = [body(user(BIG), user(letter * 400)) for letter in "abc"]
    found = reads("deepseek", *requests)
    assert found[:2] == [0, 0]
    assert found[2] == (len(HEAD) + len(BIG) + len(b'# user "')) // 4


def test_deepseek_wants_the_reasoning_of_tool_turns_back():
    call = {"id": "c", "type": "function", "function": {"name": "a", "arguments": "{}"}}
    asked = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "c", "content": "r"}
    thinking = {"thinking": {"type": "enabled"}}
    sim = Simulator([Say("ok")], profile="deepseek")
    with run_simulator(sim) as url:
        without = send(url, CHAT, body(user("q"), asked, result, **thinking))
        given_back = asked | {"reasoning_content": "r"}
        with_it = send(url, CHAT, body(user("q"), given_back, result, **thinking))
    assert without.status == 400
    assert "must be passed back" in without.json()["error"]["message"]
    assert with_it.status == 200


def test_block16_floors_to_full_blocks_and_never_reads_the_last_token():
    request = body(user("x" * (640 - len(HEAD))))
    assert reads("block16", request, request) == [0, 144]
    appended = body(user("x" * (640 - len(HEAD))), user("m" * 40))
    assert reads("block16", request, appended) == [0, 160]


def test_block16_is_kept_apart_by_its_salt():
    request = body(user(BIG))
    assert reads("block16", request, request | {"cache_salt": "s"}) == [0, 0]


def test_exact_reads_all_but_the_last_token_and_the_answer_too():
    request = body(user(BIG))
    records, replies = run("exact", request, request)
    assert records[1].cached_tokens == records[1].prompt_tokens - 1
    assert replies[1]["timings"]["cache_n"] == records[1].cached_tokens
    assert replies[1]["timings"]["prompt_n"] == 1
    appended = body(user(BIG), answer(), user("more"))
    assert reads("exact", request, appended)[1] > tokens_of(HEAD + BIG.encode())


def test_exact_has_one_slot_that_another_prompt_overwrites():
    request = body(user(BIG))
    assert reads("exact", request, body(user("other")), request)[2] < 5


def test_a_prefix_rule_over_anthropic_messages_reports_reads_and_no_writes():
    sim = Simulator([Say("ok")], repeat_last=True, profile="exact")
    request = {"model": "m", "max_tokens": 9, "messages": [user(BIG)]}
    with run_simulator(sim) as url:
        usages = [send(url, MESSAGES, request).json()["usage"] for _ in range(2)]
    total = sim.requests[0].prompt_tokens
    assert [u["cache_read_input_tokens"] for u in usages] == [0, total - 1]
    assert [u["input_tokens"] for u in usages] == [total, 1]
    assert "cache_creation_input_tokens" not in usages[1]


def test_a_marker_rule_over_chat_reads_at_marked_parts():
    marked = [{"type": "text", "text": BIG, "cache_control": {"type": "ephemeral"}}]
    records, _ = run("anthropic", body(user(marked)), body(user(marked), answer(), user("more")))
    assert records[1].cached_tokens == records[0].written_tokens > 1900


texts = st.lists(st.sampled_from([b"a" * 40, b"b" * 41, b"c" * 42]), min_size=1, max_size=30)


@pytest.mark.parametrize("name", sorted(PROFILES))
@given(history=st.lists(texts, min_size=1, max_size=4))
def test_no_rule_reads_or_writes_more_than_the_prompt_or_what_was_never_sent(name, history):
    cache = make_cache(PROFILES[name])
    sent: list[bytes] = []
    for pieces in history:
        blocks = tuple(make_block("messages", piece, marker=300.0) for piece in pieces)
        hit = cache.look_up(Prompt("claude-opus-5", blocks, key="k"), 0.0)
        whole = b"".join(pieces)
        longest = max((_common(whole, other) for other in sent), default=0)
        assert 0 <= hit.cached <= (longest + 3) // 4
        assert hit.cached + hit.written <= hit.prompt == tokens_of(whole)
        hit.begin()
        hit.finish([])
        sent.append(whole)


def _common(left, right):
    pairs = zip(left, right, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
