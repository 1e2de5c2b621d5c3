"""What building a request costs while a session grows to 2,000 messages of 2 KB.

A request goes out after every second message, so 1,000 of them. Measured is the host's own path
from the new messages to the sealed bytes and their fingerprint, against a diagnostic that writes
every message as sorted JSON and takes its HMAC-SHA-256 at each request. The one copy of the body
that a send needs is the same in any host, and left out of the bounded figures.
"""

from __future__ import annotations

import hmac
import json
import random
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.claims import Claim
from unipi.prefix.canonical import canonical
from unipi.prefix.ledger import Reason
from unipi.prefix.lineage import Item, Lineage
from unipi.prefix.seal import Prefix
from unipi.prefix.wire import HeadSpec, ToolSpec
from unipi.providers.anthropic_messages import AnthropicMessages
from unipi.providers.openai_chat import OpenAIChat
from unipi_hookspecs import AssistantMessage, Model, Text, UserMessage

if TYPE_CHECKING:
    from unipi.prefix.wire import WireApi
    from unipi_hookspecs import JSON, Message

MESSAGES = 2_000
_SIZE = 2_048
SECRET = bytes(range(32))
_WORDS = (*(f"word{i:02d}" for i in range(60)), "é", '"quoted"', "line\nend", "日本")


def run(quick: bool) -> list[Claim]:
    """Measure both wire APIs and the naive diagnostic in turns; `quick` takes three, not five."""
    texts = texts_of(MESSAGES)
    apis = (OpenAIChat(), AnthropicMessages())
    naive: list[float] = []
    ours: dict[str, list[tuple[list[float], list[float]]]] = {api.name: [] for api in apis}
    for _ in range(3 if quick else 5):
        naive.append(_naive(texts, every=40))
        for api in (*apis, *apis, *apis):  # a tenth of a second each: more of them, less noise
            ours[api.name].append(_grow(api, texts))
    claims = []
    for name, repetitions in ours.items():
        turns, copies = (
            [median(values) for values in zip(*series, strict=True)]
            for series in zip(*repetitions, strict=True)
        )
        claims += _claims(name, turns, copies, median(naive))
    return claims


def _claims(api: str, turns: list[float], copies: list[float], naive: float) -> list[Claim]:
    total, copied = sum(turns), sum(copies)
    first, last = turns[10:110], turns[-100:]
    growth = median(last) / median(first)
    return [
        Claim(
            f"build.total.{api}",
            naive / total,
            100,
            "ge",
            f"naive {naive:.2f} s / ours {total * 1e3:.1f} ms, {len(turns)} requests",
        ),
        Claim(
            f"build.growth.{api}",
            growth,
            1.5,
            note=f"median of the last 100 requests {median(last) * 1e6:.0f} us / of the first "
            f"{median(first) * 1e6:.0f} us",
        ),
        Claim(
            f"build.total_with_copy.{api}",
            naive / (total + copied),
            better="ge",
            note=f"the same with the copy of the body, {copied * 1e3:.0f} ms in all",
        ),
    ]


def texts_of(count: int) -> list[str]:
    rng = random.Random(7)
    return [" ".join(rng.choices(_WORDS, k=_SIZE // 6))[:_SIZE] for _ in range(count)]


def head_spec(api: str) -> HeadSpec:
    model = Model("bench", "bench-model", api, "http://127.0.0.1", context_window=2_000_000)
    schema = canonical({"type": "object", "properties": {"key": {"type": "string"}}})
    tools = [ToolSpec(f"tool_{i}", "Look one row up.", schema) for i in range(10)]
    return HeadSpec(model, ["You are careful. " * 50], tools)


def _grow(api: WireApi, texts: list[str]) -> tuple[list[float], list[float]]:
    """Seconds for each request without the copy of the body, and of the sealing with it.

    A twin of the prefix takes the same fragments under the clock; the lineage's own prefix is then
    extended and sealed, which is the copy.
    """
    spec = head_spec(api.name)
    head = api.head(spec)
    lineage = Lineage(api, SECRET)
    lineage.restart(spec, head, Reason("first", "host"), [])
    twin = Prefix(head, SECRET)
    turns, copies = [], []
    for at in range(0, len(texts), 2):
        new: list[Message] = [
            UserMessage(texts[at]),
            AssistantMessage([Text(texts[at + 1])], api=api.name, provider="bench"),
        ]
        begin = perf_counter()
        for place, message in enumerate(new):
            lineage.append(Item(f"{at + place:08x}", message))
        _, sent = lineage.project()
        lineage.accept(list(enumerate(new)))
        fragments = [raw for _, raw in lineage.new_fragments(spec)]
        twin.extend(fragments)
        twin.fingerprint()
        built = perf_counter()
        sealed = lineage.extend(fragments)
        copies.append(perf_counter() - built)
        turns.append(built - begin)
        lineage.answered(None)
        assert sent == at
        assert sealed.fingerprint == twin.fingerprint()
    return turns, copies


def _sorted(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value


def _naive(texts: list[str], every: int) -> float:
    """Seconds that the naive diagnostic takes over the session.

    Only each `every`-th request is run, since its cost is linear in the number of messages.
    """
    roles = ("user", "assistant")
    messages: list[JSON] = [
        {"role": roles[i % 2], "content": [{"type": "text", "text": text}]}
        for i, text in enumerate(texts)
    ]
    before: list[str] = []
    spent = 0.0
    for size in range(2 * every, len(messages) + 1, 2 * every):
        begin = perf_counter()
        digests = [
            hmac.digest(
                SECRET, json.dumps(_sorted(message), separators=(",", ":")).encode(), "sha256"
            ).hex()
            for message in messages[:size]
        ]
        assert digests[: len(before)] == before
        spent += perf_counter() - begin
        before = digests
    return spent * every
