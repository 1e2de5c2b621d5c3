"""What the diagnostics plugin adds to each request of a session of 2,000 messages of 2 KB.

The build is the host's own path from the new messages to the sealed bytes, its one copy of the body
included; the observer is the plugin's own hook on what was sealed. Both in the same run, in turns.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from attrs import evolve

from benchmarks.bench_build import MESSAGES, SECRET, head_spec, texts_of
from benchmarks.claims import Claim
from unipi.prefix.ledger import Reason
from unipi.prefix.lineage import Item, Lineage
from unipi.providers.anthropic_messages import AnthropicMessages
from unipi.providers.openai_chat import OpenAIChat
from unipi_diagnostics.session import Sessions
from unipi_hookspecs import (
    AssistantMessage,
    ProviderRequestSealedEvent,
    RequestInfo,
    Text,
    UserMessage,
)

if TYPE_CHECKING:
    from unipi.prefix.seal import Sealed
    from unipi.prefix.wire import WireApi
    from unipi_hookspecs import Message


def run(quick: bool) -> list[Claim]:
    """Measure two wire APIs in turns; `quick` takes three repetitions, not five."""
    texts = texts_of(MESSAGES)
    claims = []
    for api in (AnthropicMessages(), OpenAIChat()):
        rounds = [_observe(api, texts) for _ in range(3 if quick else 5)]
        # The median of each request over the rounds: a pause of the machine is nobody's cost.
        built, seen = (
            sum(median(values) for values in zip(*series, strict=True))
            for series in zip(*rounds, strict=True)
        )
        note = (
            f"plugin {seen * 1e3:.1f} ms / build {built * 1e3:.1f} ms, {len(texts) // 2} requests"
        )
        claims.append(Claim(f"observer.share.{api.name}", seen / built, 0.05, note=note))
    return claims


def _observe(api: WireApi, texts: list[str]) -> tuple[list[float], list[float]]:
    """Seconds for building each request, and for observing it."""
    spec = head_spec(api.name)
    lineage = Lineage(api, SECRET)
    state = Sessions().of("bench")
    sealed, _ = lineage.restart(spec, api.head(spec), Reason("first", "host"), [])
    info = RequestInfo("0", 0, "turn", "bench", api.name, spec.model.id, 1)
    state.sealed(_event(sealed, info))
    built: list[float] = []
    seen: list[float] = []
    for at in range(0, len(texts), 2):
        new: list[Message] = [
            UserMessage(texts[at]),
            AssistantMessage([Text(texts[at + 1])], api=api.name, provider="bench"),
        ]
        begin = perf_counter()
        for place, message in enumerate(new):
            lineage.append(Item(f"{at + place:08x}", message))
        lineage.project()
        lineage.accept(list(enumerate(new)))
        sealed = lineage.extend([raw for _, raw in lineage.new_fragments(spec)])
        built.append(perf_counter() - begin)
        event = _event(sealed, evolve(info, request_id=str(at)))
        begin = perf_counter()
        state.sealed(event)
        seen.append(perf_counter() - begin)
        lineage.answered(None)
    assert state.current is not None
    assert state.current.extensions == len(texts) // 2
    return built, seen


def _event(sealed: Sealed, info: RequestInfo) -> ProviderRequestSealedEvent:
    return ProviderRequestSealedEvent(
        sealed.body,
        {},
        info,
        sealed.head_length,
        sealed.tail_length,
        sealed.message_ends,
        sealed.shared_length,
        sealed.kept_messages,
        sealed.same_meaning,
        sealed.fingerprint,
    )
