"""The simulator's cache rules held against a real engine's, token by token.

Fifty random scripts of edits are sent to llama.cpp's server and to the simulator, the very same
bodies. Both count the engine's own tokens: `/apply-template` gives the prompt as the engine renders
it, `/tokenize` its ids, and the simulator is given those in place of its four bytes a token
(`Simulator(tokens=…)`). The rules that may make a difference are four, and each is asserted:

- A slot alone knows the last prompt and answer: profile `exact`, no difference at all.
- Whole blocks of 16, of all earlier prompts: profile `block16` reads what the best of all prompts
  shares, rounded down; so it is less than a block behind the engine, and before it only where an
  older prompt shares more than the last one does.
- The server may keep prompts that left its slot in host memory: then it reads what the last prompt
  shares, or what an older one does, and never less than `exact`.
- By its own tokens the simulator's prompt ends with the last message, the engine's with the opening
  of an answer. Where another message follows instead of an answer, the engine loses the opening, and
  for a change inside the last four bytes, which are one token of the simulator's, those too.
"""

from __future__ import annotations

import copy
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import orjson
import pytest
from attrs import Factory, define, frozen

from unipi.sim import Answer, Call, Part, Recorded, Say, Simulator
from unipi.sim.engine import engine_available, start_engine
from unipi.sim.tiny_model import Action, tool_call, write_model

_MISSING = engine_available()
pytestmark = [
    pytest.mark.engine,
    pytest.mark.slow,
    pytest.mark.skipif(_MISSING is not None, reason=_MISSING or "the engine is installed"),
]

SCRIPTS = 50
EDITS = 6
BLOCK = 16
OPENING = 12  # one token <|im_start|>, ten for "assistant" and its line end, and the marker
LAST = 4
Wire = dict[str, Any]

# What is sent: a conversation and how it may change.

WORDS = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "zeta",
    "café",
    "→",
    "{",
    "}",
    ":",
    "'",
    '"',
    "0",
    "17",
]
SCHEMA: Wire = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
}


def tool(name: str) -> Wire:
    function = {"name": name, "description": f"The tool {name}.", "parameters": SCHEMA}
    return {"type": "function", "function": function}


@define
class Chat:
    """What the next request says; `edit` changes it as its random numbers have it."""

    random: random.Random
    tools: list[Wire] = Factory(lambda: [tool("edit"), tool("grep"), tool("read")])
    system: str = ""
    messages: list[Wire] = Factory(list)
    past: list[tuple[list[Wire], str, list[Wire]]] = Factory(list)

    def words(self, most: int = 12) -> str:
        return " ".join(self.random.choices(WORDS, k=self.random.randint(2, most)))

    def body(self) -> bytes:
        self.past.append(copy.deepcopy((self.tools, self.system, self.messages)))
        return orjson.dumps(
            {
                "model": "scripted",
                "max_tokens": 16,
                "tools": self.tools,
                "messages": [{"role": "system", "content": self.system}, *self.messages],
            }
        )

    def answered(self, message: Wire) -> None:
        """Take an answer; what it calls is answered at once, and somebody speaks."""
        calls = message.get("tool_calls") or []
        said = {key: message[key] for key in ("role", "content", "tool_calls") if message.get(key)}
        self.messages.append({"content": None, **said})
        for call in calls:
            result = {"role": "tool", "tool_call_id": call["id"], "content": self.words()}
            self.messages.append(result)
        if not calls or self.random.random() < 0.3:
            self.append()

    def append(self) -> None:
        look = self.random.choice(["", " Please look."])
        self.messages.append({"role": "user", "content": self.words() + look})

    def rewrite(self) -> None:
        """Another letter at a random place of a random message."""
        said = [m for m in self.messages if m["role"] != "assistant"]
        message = self.random.choice(said)
        text = message["content"]
        place = self.random.randrange(len(text))
        message["content"] = text[:place] + "#" + text[place + self.random.randint(0, 1) :]

    def reorder(self) -> None:
        self.random.shuffle(self.tools)

    def resettle(self) -> None:
        place = self.random.randrange(len(self.system))
        self.system = self.system[:place] + self.words(3) + self.system[place:]

    def go_back(self) -> None:
        """An older request again, with or without something new."""
        self.tools, self.system, self.messages = copy.deepcopy(self.random.choice(self.past))
        if self.random.random() < 0.5:
            self.append()

    def edit(self) -> str:
        edits = [self.append] * 3
        edits += [self.rewrite, self.rewrite, self.reorder, self.resettle, self.go_back]
        chosen = self.random.choice(edits)
        if chosen is not self.append:
            chosen()
        return chosen.__name__


def chat(seed: int) -> Chat:
    made = Chat(random.Random(seed))
    made.system = " ".join(made.words() for _ in range(made.random.randint(1, 20)))
    made.append()
    return made


# Who answers.

LOOK = tool_call("read", path="a.txt")
TEXT = "Fine."


@frozen
class Request:
    """One request as the engine saw it.

    ids: the tokens of its prompt; answer: those that its answer left in the cache.
    """

    edit: str
    body: bytes
    ids: Sequence[int]
    answer: Sequence[int]
    parts: Sequence[Part]
    prompt: int
    cached: int

    @property
    def held(self) -> list[int]:
        return [*self.ids, *self.answer]


@frozen
class Engine:
    """llama.cpp's server as it is asked here."""

    client: httpx2.AsyncClient

    async def post(self, path: str, body: bytes | Wire) -> Wire:
        content = body if isinstance(body, bytes) else orjson.dumps(body)
        response = await self.client.post(path, content=content)
        assert response.status_code == 200, response.text
        found: Wire = orjson.loads(response.content)
        return found

    async def tokens(self, text: str, *, whole: bool) -> list[int]:
        asked = {"content": text, "add_special": whole, "parse_special": True}
        found: list[int] = (await self.post("/tokenize", asked))["tokens"]
        return found

    async def ask(self, body: bytes, edit: str) -> tuple[Request, Wire]:
        rendered = await self.post("/apply-template", body)
        ids = await self.tokens(rendered["prompt"], whole=True)
        answer = await self.post("/v1/chat/completions", body)
        message: Wire = answer["choices"][0]["message"]
        calls = message.get("tool_calls") or []
        parts: list[Part] = [
            Call(c["function"]["name"], c["function"]["arguments"], c["id"]) for c in calls
        ] or [Say(message["content"])]
        said = await self.tokens(LOOK if calls else TEXT, whole=False)
        usage = answer["usage"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        request = Request(edit, body, ids, said, parts, usage["prompt_tokens"], cached)
        return request, message


@asynccontextmanager
async def engine(folder: Path, keep_mib: int) -> AsyncIterator[Engine]:
    path = folder / "scripted.gguf"
    write_model(path, [Action("look", LOOK), Action("", TEXT)])
    async with (
        start_engine(path, keep_mib=keep_mib) as url,
        httpx2.AsyncClient(base_url=url, timeout=30) as client,
    ):
        yield Engine(client)


async def played(engine: Engine, scripts: int) -> list[Request]:
    """All requests of the scripts, one after the other."""
    done = []
    for seed in range(scripts):
        talk, edit = chat(seed), "begin"
        for _ in range(EDITS + 1):
            request, message = await engine.ask(talk.body(), edit)
            done.append(request)
            talk.answered(message)
            edit = talk.edit()
    return done


@define
class Known:
    """The tokens of the request in hand, as `unipi.sim.Tokenizer` asks for them."""

    request: Request | None = None

    def prompt(self, request: object) -> Sequence[int]:
        assert self.request is not None
        return self.request.ids

    def answer(self, parts: object) -> Sequence[int]:
        assert self.request is not None
        return self.request.answer


def simulated(requests: Sequence[Request], profile: str, *, own: bool = False) -> list[Recorded]:
    """Each request as the simulator counts it; `own`: in tokens of its own."""
    known = Known()

    def script(request: dict[str, object], index: int) -> Answer:
        return Answer(tuple(requests[index].parts))

    sim = Simulator(script, profile=profile, tokens=None if own else known)
    headers = {"authorization": "Bearer x", "content-type": "application/json"}
    for request in requests:
        known.request = request
        exchange = sim.exchange("POST", "/v1/chat/completions", headers, request.body)
        assert exchange.status == 200, exchange.body
        exchange.began()
        exchange.finished()
    return sim.requests


def read_by(seen: Sequence[Recorded]) -> list[int]:
    return [request.cached_tokens for request in seen]


def extends(prompts: Sequence[int], cached: Sequence[int]) -> list[int]:
    """The requests that read all of the one before them (all but a token, if it is the same)."""
    return [i for i in range(1, len(prompts)) if cached[i] >= prompts[i - 1] - 1]


def shared(left: Sequence[int], right: Sequence[int]) -> int:
    """How many tokens two sequences have in common at their beginning."""
    return next(
        (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b),
        min(len(left), len(right)),
    )


def best(requests: Sequence[Request], place: int) -> int:
    """The most that any earlier prompt shares with this one, its last token left out."""
    now = requests[place].ids
    most = max((shared(old.held, now) for old in requests[:place]), default=0)
    return min(most, len(now) - 1)


@pytest.fixture(scope="module")
def slot(tmp_path_factory: pytest.TempPathFactory) -> list[Request]:
    """Every request of the fifty scripts, on an engine that keeps no prompt but its slot's."""

    async def play() -> list[Request]:
        async with engine(tmp_path_factory.mktemp("slot"), keep_mib=0) as one:
            return await played(one, SCRIPTS)

    return anyio.run(play)


def test_the_simulator_reads_what_the_engine_reads_in_fifty_random_scripts(
    slot: list[Request],
) -> None:
    assert len(slot) == SCRIPTS * (EDITS + 1)
    assert {r.edit for r in slot} == {
        "begin",
        "append",
        "rewrite",
        "reorder",
        "resettle",
        "go_back",
    }
    assert {len(r.ids) - r.prompt for r in slot} == {0}, "the engine counts other tokens"
    cached = read_by(simulated(slot, "exact"))
    assert [(r.edit, r.cached, c) for r, c in zip(slot, cached, strict=True) if r.cached != c] == []


def test_whole_blocks_are_less_than_a_block_behind_and_ahead_by_older_prompts_alone(
    slot: list[Request],
) -> None:
    blocks = read_by(simulated(slot, "block16"))
    for place, (request, read) in enumerate(zip(slot, blocks, strict=True)):
        assert read > request.cached - BLOCK, "less than a block behind"
        assert read == best(slot, place) // BLOCK * BLOCK
        if read > request.cached:
            assert request.cached < best(slot, place), "an older prompt shares more than the last"


def test_by_its_own_tokens_too_the_simulator_says_which_request_extends_the_last(
    slot: list[Request],
) -> None:
    seen = simulated(slot, "exact", own=True)
    own = set(extends([r.prompt_tokens for r in seen], read_by(seen)))
    engine = set(extends([r.prompt for r in slot], [r.cached for r in slot]))
    assert engine <= own
    assert {i for i, r in enumerate(slot) if r.edit == "append" and i} <= engine
    for i in own - engine:
        assert slot[i].edit in ("go_back", "rewrite")
        assert slot[i - 1].prompt - slot[i].cached <= OPENING + LAST


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_host_memory_gives_back_older_prompts_and_takes_nothing(tmp_path: Path) -> None:
    async with engine(tmp_path, keep_mib=64) as one:
        requests = await played(one, 12)
    exact = read_by(simulated(requests, "exact"))
    more = 0
    for place, (request, read) in enumerate(zip(requests, exact, strict=True)):
        options = {
            min(shared(old.held, request.ids), len(request.ids) - 1) for old in requests[:place]
        }
        assert request.cached == read or request.cached in options
        assert request.cached >= read
        more += request.cached > read
    assert more, "going back found nothing in host memory"
