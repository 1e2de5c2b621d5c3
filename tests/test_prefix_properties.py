"""The promise itself: in an epoch each request is the previous one plus a tail, byte for byte.

Random sessions are played on a real agent against the strict simulator over loopback: prompts,
answers, tools, plugins (well behaved and careless), aborts, provider errors, closing and reopening.
"""

from __future__ import annotations

import itertools
import json
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from attrs import Factory, define, evolve, frozen
from hypothesis import HealthCheck, Phase, event, given, settings, strategies as st

from unipi.agent import AgentError, AgentOptions, RetryPolicy, RunFailedError, open_agent
from unipi.session import Session, message_from_fields, message_to_fields
from unipi.sim import Answer, Call, Clock, Fault, Say, Simulator
from unipi.sim.script import Think
from unipi.testing.lab import PROFILES, host, model
from unipi_hookspecs import (
    CustomMessage,
    EpochBoundaryEvent,
    Image,
    ProviderRequestSealedEvent,
    Resources,
    ResultPatch,
    StartWith,
    Text,
    Tool,
    ToolOutput,
    UserMessage,
    hookimpl,
)

APIS = ["anthropic-messages", "openai-chat-completions", "openai-responses"]
SETTINGS = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # shrinking plays thousands of sessions; add it by hand to hunt
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

# What is said.

ODD = ["a", "Z", " ", "\n", '"', "\\", "\0", "\x7f", "é", "e\u0301", "\u2028", "\ufeff", "｡", "😀"]
HALVES = ["\ud83d", "\ude00"]  # each half of a pair alone, and at times one after the other
spoken = st.lists(st.sampled_from(ODD), max_size=8).map("".join)
raw = st.lists(st.sampled_from([*ODD, *HALVES]), max_size=8).map("".join)
PIXEL = Image("iVBORw0KGgo=", "image/png")
blocks = st.lists(st.one_of(raw.map(Text), st.just(PIXEL)), min_size=1, max_size=3).map(tuple)
remarks = blocks.map(lambda said: (Text("say"), *said))

SCALARS = {
    text: text
    for text in (
        "1", "-0", "1.50", "1E+2", "123456789012345678901234567890", "true", "null", '"\\u0041\\/"',
        '"\\ud83d\\ude00"', '"e\u0301 😀"', '"\\n\\\\u"',
    )
} | {"[ ]": "[]", "{ }": "{}", '[1 ,\n"b"]': '[1,"b"]'}  # fmt: skip
"""How a value is written, and how it is written without insignificant space."""
LONE = '"\\ud83d"'  # an escape that no UTF-8 parser takes; what is replayed has U+FFFD's instead
space = st.sampled_from(["", "", " ", "\n\t"])


@frozen
class Written(Call):
    """A call whose argument text is known in the form that is replayed: `text` and `compact`."""

    text: str = ""
    compact: str = ""


@st.composite
def written(draw: st.DrawFn) -> Written:
    """A call with odd space, escapes, number spellings and duplicate keys in its arguments."""
    key = st.sampled_from(["b", "a", "\\u0061", "😀", "｡"])
    value = st.sampled_from([*SCALARS, LONE])
    members = draw(st.lists(st.tuples(key, value), max_size=4))
    text = ",".join(
        f'{draw(space)}"{k}"{draw(space)}:{draw(space)}{v}{draw(space)}' for k, v in members
    )
    compact = ",".join(f'"{k}":{SCALARS.get(v, v)}' for k, v in members)
    name = draw(st.sampled_from(["alpha", "alpha", "beta", "gamma_tool", "nobody"]))
    safe = [f"{{{t}}}".replace(LONE, '"\\ufffd"') for t in (text, compact)]
    return Written(name, f"{{{text}}}", None, *safe)


BROKEN = ["", " ", "null", "[]", '{"a": "cut', '{"a": 1,}', '{"a": "\n"}', "{'a': 1}", '{"a": NaN}']
broken = st.builds(Call, st.sampled_from(["alpha", "beta"]), st.sampled_from(BROKEN))
calls = st.one_of(written(), written(), written(), broken)
thoughts = st.one_of(spoken.map(Think), st.just(Think(redacted=True)))
parts = st.one_of(spoken.map(Say), calls, calls)
answers = st.builds(
    Answer,
    st.tuples(st.lists(thoughts, max_size=1), st.lists(parts, max_size=3)).map(
        lambda both: [*both[0], *both[1]]
    ),
    stop=st.none(),
    chunk=st.sampled_from([1, 7, 1000]),
)
CALLED = Answer([Say("half an answer"), Call("alpha", '{"a": 1}')], chunk=3)
faults = st.sampled_from(
    [
        Fault(status=429, type="rate_limit_error", headers={"retry-after": "0"}),
        Fault(status=529, type="overloaded_error"),
        Fault(status=403, type="permission_error"),
        Fault(drop=True),
        Fault(cut=True, after=4, answer=CALLED),
        Fault(stream_error=("overloaded_error", "Overloaded"), after=3),
    ]
)

# What happens.

MOMENTS = [
    "message_start", "message_update", "message_end", "tool_execution_start", "tool_call",
    "tool_execution_end", "turn_start", "turn_end", "provider_request_sealed", "epoch_boundary",
    "agent_start", "agent_end", "context", "before_provider_request",
]  # fmt: skip


@frozen
class Abort:
    """The user stops the run at the n-th time that this hook is heard."""

    moment: str
    after: int


@frozen
class Prompt:
    text: str
    images: tuple[Image, ...]
    steps: tuple[object, ...]
    abort: Abort | None


@frozen
class Reopen:
    """The process ends, and another one opens the file."""


@frozen
class Level:
    """The user chooses another thinking level: a boundary of theirs."""

    level: str


@frozen
class Wake:
    """A plugin speaks in the user's place while nothing runs."""

    content: object


IN_TOOLS = ["tool_execution_start", "tool_call", "tool_execution_end"]
aborts = st.builds(
    Abort,
    st.one_of(st.sampled_from(MOMENTS), st.sampled_from(IN_TOOLS)),
    st.sampled_from([0, 0, 1, 3]),
)
prompts = st.builds(
    Prompt,
    raw.map(lambda text: f"do {text}"),
    st.sampled_from([(), (), (PIXEL,)]),
    st.lists(st.one_of(answers, answers, answers, faults), max_size=4).map(tuple),
    st.one_of(st.none(), aborts),
)
happenings = st.lists(
    st.one_of(
        prompts,
        prompts,
        prompts,
        st.just(Reopen()),
        st.builds(Wake, st.one_of(raw.map(lambda text: f"say {text}"), remarks)),
        st.sampled_from([Level("low"), Level("off")]),
    ),
    min_size=2,
    max_size=7,
)
outcomes = st.one_of(
    raw,
    st.builds(ToolOutput, blocks, details=st.one_of(st.none(), raw), is_error=st.booleans()),
    raw.map(ValueError),
)

# Plugins. Whatever varies draws from one counter that outlives every process of the example, so
# that only what the session remembers can make a reopened one say the same.


@define
class World:
    """What an example's processes share."""

    count: itertools.count = Factory(itertools.count)
    outcomes: list[object] = Factory(list)
    abort: Abort | None = None
    agent: object = None
    schema: object = None

    def heard(self, moment: str) -> None:
        if self.abort is not None and self.abort.moment == moment:
            if self.abort.after == 0:
                event(f"aborted at {moment}")
                self.abort = None
                self.agent.abort()
            else:
                self.abort = evolve(self.abort, after=self.abort.after - 1)


class Tools:
    def __init__(self, world: World) -> None:
        self.world = world

    @hookimpl
    def register_tools(self):
        async def run(call, ctx):
            await anyio.lowlevel.checkpoint()
            outcome = self.world.outcomes[next(self.world.count) % len(self.world.outcomes)]
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        def quick(call, ctx):
            return "quick \ud83d"

        schema = {"type": "object", "properties": self.world.schema}
        return [
            Tool("gamma_tool", "G \ud83d｡", parameters=schema, run=run),
            Tool("alpha", "A. 😀", run=run),
            Tool("beta", "B", run=quick, execution_mode="sequential"),
        ]


def listener(*moments: str):
    """A plugin that hears these moments and does nothing but let the user stop the run."""

    def make(world: World) -> object:
        def hear(moment: str):
            def heard(event):
                world.heard(moment)

            return hookimpl(specname=moment)(heard)

        return type("Listener", (), {m: staticmethod(hear(m)) for m in moments})()

    return make


class Plugin:
    def __init__(self, world: World) -> None:
        self.next = lambda: next(world.count)


class Projector(Plugin):
    """Shows the model something else in place of new messages, another thing each time."""

    @hookimpl
    def context(self, event):
        shown = list(event.messages)
        for i in range(event.new_from, len(shown)):
            if self.next() % 2 and isinstance(shown[i], UserMessage | CustomMessage):
                shown[i] = evolve(shown[i], content=f"projected {self.next()} \ud83d")
        return shown


class Dropper(Plugin):
    """Leaves out some of the new custom messages; never one that a turn is to answer."""

    @hookimpl
    def context(self, event):
        return [
            m
            for i, m in enumerate(event.messages)
            if i < event.new_from
            or not isinstance(m, CustomMessage)
            or m.custom_type == "wake"
            or self.next() % 2
        ]


class Snapshots(Plugin):
    """Tells the model about state that changes, at every moment there is."""

    @hookimpl
    async def agent_start(self, ctx):
        await ctx.append_message("state", f"n={self.next() % 2}", supersedes=True)

    @hookimpl
    async def turn_end(self, ctx):
        await ctx.append_message("state", f"n={self.next() % 3} \ud83d", supersedes=True)

    @hookimpl
    async def agent_end(self, ctx):
        await ctx.append_message("late", (Text("e\u0301"), PIXEL), deliver="follow_up")
        await ctx.append_message("next", f"for later {self.next()}", deliver="next_turn")


class Excluder(Plugin):
    """Keeps its own messages from the model."""

    @hookimpl
    def session_start(self, ctx):
        ctx.exclude_custom_type("secret")

    @hookimpl
    async def agent_start(self, ctx):
        await ctx.append_message("secret", "never seen by the model")


class Shaper(Plugin):
    """Gives the head of the payload the same addition every time."""

    @hookimpl
    def before_provider_request(self, event):
        payload = event.payload
        tools = [dict(tool) for tool in payload.tools]
        return evolve(payload, envelope={**payload.envelope, "temperature": 1}, tools=tools)


class Writer(Plugin):
    """Adds one constant block to the system prompt in the payload, not looking what is there."""

    @hookimpl
    def before_provider_request(self, event):
        first, extra = event.payload.system[0], "Be brief."
        if not isinstance(first, str):
            extra = (
                {"role": "system", "content": extra}
                if first.get("role")
                else {"type": "text", "text": extra}
            )
        return evolve(event.payload, system=[*event.payload.system, extra])


class Patcher(Plugin):
    """Changes the last wire message, another way each time, and patches results and messages."""

    @hookimpl
    def before_provider_request(self, event):
        *before, last = event.payload.messages
        if last.get("role") != "user":
            return None
        content = last["content"]
        if isinstance(content, str):
            content = f"{content} (patched {self.next()})"
        elif content[0]["type"] == "input_text":
            content = [{**content[0], "text": f"{content[0]['text']} (patched {self.next()})"}]
        else:
            return None
        changed = {**last, "content": content}
        return evolve(event.payload, messages=[*before, changed])

    @hookimpl
    def tool_result(self, event):
        return ResultPatch(content=(*event.content, Text(f"patched {self.next()} \ude00")))


class Instructor(Plugin):
    @hookimpl
    def resources_discover(self):
        return Resources(["Rules. \ud83d e\u0301"])


class CarelessRewriter(Plugin):
    """Puts a message in front of the history, or changes an old one."""

    @hookimpl
    def context(self, event):
        shown = list(event.messages)
        if self.next() % 2:
            return [UserMessage(f"memory {self.next()}"), *shown]
        if isinstance(shown[0], UserMessage):
            shown[0] = UserMessage(f"rewritten {self.next()}")
        return shown


class CarelessHead(Plugin):
    """Puts a counter into the head and into a message that was sent."""

    @hookimpl
    def before_provider_request(self, event):
        payload = event.payload
        first, *rest = payload.messages
        return evolve(
            payload,
            envelope={**payload.envelope, "temperature": self.next() / 1e6},
            messages=[{**first, "content": f"careless {self.next()}"}, *rest],
        )


class CarelessAdder(Plugin):
    """Puts a message into the payload that is not in the session."""

    @hookimpl
    def before_provider_request(self, event):
        payload = event.payload
        extra = {"role": "user", "content": f"memory {self.next()}"}
        return evolve(payload, messages=[extra, *payload.messages])


class Clocked(Plugin):
    @hookimpl
    def before_agent_start(self, event):
        return StartWith(system_prompt=f"{event.system_prompt}\nIt is {self.next()} o'clock.")


class Constant(Plugin):
    """Adds the same sentence to the system prompt at every start."""

    @hookimpl
    def before_agent_start(self, event):
        return StartWith(system_prompt=f"{event.system_prompt}\nAnswer in verse.")


GOOD = (Projector, Dropper, Snapshots, Excluder, Shaper, Writer, Patcher, Instructor, Constant)
CARELESS = (CarelessRewriter, CarelessHead, CarelessAdder, Clocked)
LISTENERS = (
    listener(*(m for m in MOMENTS if m not in ("context", "before_provider_request"))),
    listener("context"),
    listener("before_provider_request"),
)
SCHEMAS = [
    {},
    {"b": {}, "a": {"description": "\ud83d"}},
    {"｡": {}, "😀": {"type": ["null", "object"]}},
]


@frozen
class Plan:
    plugins: tuple[object, ...]
    outcomes: tuple[object, ...]
    happenings: tuple[object, ...]
    schema: object = Factory(dict)


def plans(*kinds: object) -> st.SearchStrategy[Plan]:
    return st.builds(
        Plan,
        st.tuples(
            st.lists(st.sampled_from(kinds), max_size=4, unique=True),
            st.lists(st.sampled_from(LISTENERS), max_size=3, unique=True),
        ).map(lambda both: (*both[0], *both[1])),
        st.lists(outcomes, min_size=1, max_size=4).map(tuple),
        happenings.map(tuple),
        st.sampled_from(SCHEMAS),
    )


class Play:
    """One example: its simulator, its session file, and one agent after another on it."""

    def __init__(self, folder: Path, api: str, policy: str, plan: Plan) -> None:
        self.folder, self.api, self.plan = folder, api, plan
        self.path = folder / "s.jsonl"
        self.options = AgentOptions(
            policy=policy,
            max_turns=5,
            retry=RetryPolicy(attempts=2, base=0.001, cap=0.001),
            wants_bodies=True,
        )
        self.world = World(outcomes=list(plan.outcomes), schema=plan.schema)
        self.steps: list[object] = []
        self.faults: list[int] = []
        self.scripted: list[object] = []
        self.events: list[object] = []
        self.sim = Simulator(self.step, profile=PROFILES[api], clock=Clock(), check_thinking=True)

    def step(self, request: object, index: int) -> object:
        step = self.steps.pop(0) if self.steps else Say("done")
        if isinstance(step, Fault):
            self.faults.append(index)
        elif isinstance(step, Answer):
            self.scripted += step.parts
        return step

    @asynccontextmanager
    async def process(self) -> AsyncIterator[None]:
        """One process: it opens the file, works in it, and finds it as it left it."""
        made = [("tools-of-test", Tools(self.world))]
        made += [(f"p{n}", kind(self.world)) for n, kind in enumerate(self.plan.plugins)]
        known = self.path.exists()
        session = Session.open(self.path) if known else Session.create(self.path, cwd=self.folder)
        async with self.sim.serve() as url:
            served = evolve(model(url, self.api), reasoning=True, input=("text", "image"))
            told = self.events.append
            prepared = host(self.folder, made)
            async with open_agent(prepared, session, served, self.options, observer=told) as agent:
                self.agent = self.world.agent = agent
                yield
                said = session.messages()
        with Session.open(self.path, read_only=True) as session:
            assert session.damages == ()
            assert session.messages() == said
            assert session.open_calls() == []

    async def prompt(self, prompt: Prompt) -> None:
        self.steps = list(prompt.steps)
        self.world.abort = prompt.abort
        try:
            await self.agent.prompt(prompt.text, prompt.images)
        except (AgentError, RunFailedError):
            event("a run failed")
        self.world.abort = None
        self.steps = []

    async def happen(self, happening: object) -> None:
        if isinstance(happening, Prompt):
            await self.prompt(happening)
        elif isinstance(happening, Level):
            self.options = evolve(self.options, thinking=happening.level)
            await self.agent.set_thinking(happening.level)
        else:
            context = self.agent.contexts.of("waker")
            await context.append_message("wake", happening.content, trigger_turn=True)
            await self.agent.settled()

    async def run(self) -> None:
        last = Prompt("and at the end", (), (), None)
        lives: list[list[object]] = [[]]
        for happening in (*self.plan.happenings, Reopen(), last):
            if isinstance(happening, Reopen):
                lives.append([])
            else:
                lives[-1].append(happening)
        with anyio.fail_after(20):
            for life in lives:
                async with self.process():
                    for happening in life:
                        await self.happen(happening)

    @property
    def boundaries(self):
        return [e.boundary for e in self.events if isinstance(e, EpochBoundaryEvent)]


def play(api: str, policy: str, plan: Plan) -> Play:
    with tempfile.TemporaryDirectory() as folder:
        played = Play(Path(folder), api, policy, plan)
        anyio.run(played.run)
        check_requests(played)
        check_verbatim(played)
        check_file(played.path)
    return played


def check_requests(played: Play) -> None:
    """Every request was accepted, is what was sealed, and extends the one before it."""
    sealed = {
        e.info.request_id: e for e in played.events if isinstance(e, ProviderRequestSealedEvent)
    }
    before: ProviderRequestSealedEvent | None = None
    for request in played.sim.requests:
        if request.status != 200:
            assert request.answer_index in played.faults, request.error
        now = sealed[request.request_id]
        assert request.body == now.body
        if before is not None and now.info.epoch == before.info.epoch:
            kept = before.body[: len(before.body) - before.tail_length]
            assert now.body.startswith(kept), (kept[-400:], now.body[len(kept) - 400 :][:800])
        before = now
    numbers = [boundary.number for boundary in played.boundaries]
    assert numbers == sorted(set(numbers))
    assert "resume" not in [boundary.cause for boundary in played.boundaries]


def check_verbatim(played: Play) -> None:
    """What a model said goes back to it as it came: arguments, thinking and text."""
    said = {p.text for p in played.scripted if isinstance(p, Say | Think)} | {"done", None}
    calls = [p for p in played.scripted if isinstance(p, Written)]
    body = played.sim.requests[-1].body
    texts = {call.text for call in calls} | {"{}"}
    request = json.loads(body)
    for message in request.get("messages") or request["input"]:
        if message.get("type") == "function_call":
            assert message["arguments"] in texts
        elif message.get("type") == "reasoning":
            assert {part["text"] for part in message["summary"]} <= said
        elif message.get("role") == "assistant" and played.api == APIS[1]:
            assert {c["function"]["arguments"] for c in message.get("tool_calls", ())} <= texts
        elif message.get("role") == "assistant":
            for block in message["content"]:
                assert block.get("text", block.get("thinking")) in said
    inputs = (b"{}}", *(call.compact.encode() + b"}" for call in calls))
    for place in re.finditer(rb'"type":"tool_use","id":"\w+","name":"\w+","input":', body):
        assert body.startswith(inputs, place.end()), body[place.start() : place.end() + 200]


def check_file(path: Path) -> None:
    """The file reads back as it was written, line for line and message for message."""
    data = path.read_bytes()
    with Session.open(path, read_only=True) as session:
        lines = [json.loads(line) for line in data.splitlines()[1:]]
        assert [dict(entry.fields) for entry in session.entries()] == lines
        for entry in session.entries():
            if entry.message is not None:
                fields = message_to_fields(entry.message)
                assert message_from_fields(fields) == entry.message
                assert {**entry.fields, **fields} == entry.fields
    assert path.read_bytes() == data


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_under_enforce_one_epoch_lasts_whatever_plugins_do_and_however_runs_end(api: str) -> None:
    @SETTINGS
    @given(plans(*GOOD, *CARELESS))
    def holds(plan: Plan) -> None:
        played = play(api, "enforce", plan)
        assert {b.cause for b in played.boundaries} <= {"first", "thinking"}
        assert not any(b.avoidable for b in played.boundaries)

    holds()


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_under_record_plugins_that_keep_the_rules_never_cost_a_boundary(api: str) -> None:
    @SETTINGS
    @given(plans(*GOOD))
    def holds(plan: Plan) -> None:
        played = play(api, "record", plan)
        assert not any(b.avoidable for b in played.boundaries)

    holds()


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_under_record_every_break_of_the_bytes_is_a_boundary_with_an_owner(api: str) -> None:
    @SETTINGS
    @given(plans(*GOOD, *CARELESS))
    def holds(plan: Plan) -> None:
        played = play(api, "record", plan)
        named = {f"p{n}" for n, kind in enumerate(plan.plugins) if kind in CARELESS}
        for boundary in played.boundaries:
            assert boundary.owner in named if boundary.avoidable else ("host", "user")

    holds()
