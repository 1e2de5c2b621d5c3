"""One walk over a history that gathers what a summary is made of. No model, no clock, no locale."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from attrs import define, field, frozen

from unipi_hookspecs import (
    AssistantMessage,
    BashMessage,
    SummaryMessage,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

from .calls import CHANGES, attempt, called, path_of
from .history import RECALL, edits_of, is_ours, seen
from .text import clean, one_line, plain, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from unipi_hookspecs import JSON, Entry, Message

LINE: Final = 300
"""Bytes of a line that is quoted in a list."""
_LEAST: Final = 12
_ERROR: Final = 240
_STEP: Final = 200
_LONGEST: Final = 20_000
"""Characters of an answer that are looked through for lines; longer ones hold pasted matter."""

# These three are for text in small letters: a third of the time of a search that ignores case.
_DECIDED: Final = re.compile(
    r"\b(?:decid(?:e|ed|es|ing)|decisions?|agreed|settled on|cho(?:se|sen|ose)|opted|instead of|"
    r"rather than|go(?:ing)? with|stick(?:ing)? with|let'?s (?:use|keep|do|go|make)|"
    r"(?:i|we)(?:'ll| will| should) (?:use|keep|call|name|move|make|put|leave)|"
    r"the (?:plan|approach|fix|solution|root cause|reason|problem) (?:is|was))\b"
)
_BOUND: Final = re.compile(
    r"\b(?:must(?:n'?t)?|never|always|don'?t|do not|only|should(?:n'?t| not)?|no longer|avoid|"
    r"prefer|make sure|ensure|without|keep|require[sd]?|forbid(?:den)?|not allowed|no need|"
    r"can(?:'?t|not)|(?:i|we) (?:actually )?(?:want|need))\b"
)
_OPEN: Final = re.compile(
    r"\b(?:next steps?|next up|next(?=[:,])|todo|remaining|remains|not yet|left to do|unfinished|"
    r"still (?:needs?|have to|has to|to do|missing|fails?|failing|broken)|blocked by)\b"
)
_UNCHECKED: Final = re.compile(r"^\s*[-*] \[ \] (.+)$", re.MULTILINE)
_FAULTS: Final = (
    "error",
    "fail",
    "exception",
    "traceback",
    "not found",
    "cannot",
    "denied",
    "invalid",
    "panic",
)
_COMMIT: Final = re.compile(r"^\[([^\]\n]{1,120}?) ([0-9a-f]{7,40})\] (.{1,200})$", re.MULTILINE)
_SILENT: Final = "(no output)"
_MARK: Final = re.compile(r"^\s*(?:[-*+>]|\d+[.)]|#+)\s+")


@frozen
class Request:
    """What the user said, exactly; `times` counts how often the same words came."""

    entry_id: str
    text: str
    times: int = 1
    last_id: str = ""


@frozen
class Line:
    """A line that somebody said, and where."""

    entry_id: str
    who: str
    text: str


@frozen
class Step:
    """Something that was said or done, not yet cut to a line: most histories have more than is shown."""

    who: str
    text: str
    arguments: Mapping[str, JSON] | None = None
    failed: bool = False

    def line(self) -> str:
        """The step on one line."""
        if self.arguments is not None:
            return f"{self.who}: {called(self.text, self.arguments)}{' (failed)' * self.failed}"
        return f"{self.who}: {one_line(self.text, _STEP)}"


@frozen
class Failure:
    """A call that failed: what it was, what it said, and by what it was put right, if it was."""

    entry_id: str
    what: str
    said: str
    times: int = 1
    fixed: bool = False
    by: tuple[str, ...] = ()


@frozen
class Facts:
    """All that one history says, in the order in which it was said; `fresh` are its characters since
    the last compaction's cut.

    `changed` and `read` are paths by when they were last touched, with how often. `steps` are the
    lines of the transcript. `earlier` is the text of the newest summary that another than this
    plugin wrote, `branches` those of branches that were left.
    """

    messages: int
    characters: int
    fresh: int
    requests: tuple[Request, ...]
    constraints: tuple[Line, ...]
    decisions: tuple[Line, ...]
    changed: tuple[tuple[str, int], ...]
    read: tuple[tuple[str, int], ...]
    skills: tuple[str, ...]
    commits: tuple[tuple[str, str], ...]
    failures: tuple[Failure, ...]
    open_lines: tuple[Line, ...]
    last_said: Line | None
    steps: tuple[Step, ...]
    earlier: str
    branches: tuple[str, ...]


@define
class _Walk:
    """What has been gathered so far."""

    messages: int = 0
    characters: int = 0
    requests: dict[str, Request] = field(factory=dict)
    constraints: dict[str, Line] = field(factory=dict)
    decisions: dict[str, Line] = field(factory=dict)
    changed: dict[str, int] = field(factory=dict)
    read: dict[str, int] = field(factory=dict)
    skills: dict[str, None] = field(factory=dict)
    commits: dict[str, str] = field(factory=dict)
    failures: dict[str, Failure] = field(factory=dict)
    touched: dict[str, list[str]] = field(factory=dict)
    open_lines: list[Line] = field(factory=list)
    last_said: Line | None = None
    steps: list[Step] = field(factory=list)
    calls: dict[str, ToolCall] = field(factory=dict)
    earlier: str = ""
    branches: list[str] = field(factory=list)


def extract(entries: Sequence[Entry], edits_from: Sequence[Entry] = (), since: int = 0) -> Facts:
    """Gather the facts of a history (oldest entry first).

    `edits_from` is the whole branch, as an edit may stand behind what it is about; `since` is where
    the part begins whose size is counted as `fresh`.
    """
    walk = _Walk()
    edits = edits_of(edits_from or entries)
    for entry, message in seen(entries[:since], edits):
        _take(walk, entry, message)
    before = walk.characters
    for entry, message in seen(entries[since:], edits):
        _take(walk, entry, message)
    return Facts(
        walk.messages,
        walk.characters,
        walk.characters - before,
        tuple(walk.requests.values()),
        tuple(walk.constraints.values()),
        tuple(walk.decisions.values()),
        tuple(walk.changed.items()),
        tuple((path, n) for path, n in walk.read.items() if path not in walk.changed),
        tuple(walk.skills),
        tuple(walk.commits.items()),
        tuple(walk.failures.values()),
        tuple(walk.open_lines),
        walk.last_said,
        tuple(walk.steps),
        walk.earlier,
        tuple(walk.branches),
    )


def _take(walk: _Walk, entry: Entry, message: Message) -> None:
    walk.messages += 1
    if isinstance(message, UserMessage):
        _user(walk, entry, message)
    elif isinstance(message, AssistantMessage):
        _assistant(walk, entry, message)
    elif isinstance(message, ToolResultMessage):
        _result(walk, entry, message)
    elif isinstance(message, BashMessage):
        walk.characters += len(message.command) + len(message.output)
        walk.steps.append(Step("user ran", message.command))
    elif isinstance(message, SummaryMessage):
        _summary(walk, entry, message)


def _user(walk: _Walk, entry: Entry, message: UserMessage) -> None:
    text = clean(plain(message.content))
    walk.characters += len(text)
    if not text.strip():
        return
    before = walk.requests.get(text)
    walk.requests[text] = (
        Request(entry.id, text)
        if before is None
        else Request(before.entry_id, text, before.times + 1, entry.id)
    )
    walk.steps.append(Step("user", text))
    for line in _lines(text):
        low = line.lower()
        if _BOUND.search(low):
            _put(walk.constraints, Line(entry.id, "user", line))
        if _DECIDED.search(low):
            _put(walk.decisions, Line(entry.id, "user", line))


def _assistant(walk: _Walk, entry: Entry, message: AssistantMessage) -> None:
    for block in message.content:
        if isinstance(block, ToolCall) and block.name != RECALL:
            walk.calls[block.id] = block
            walk.characters += sum(len(v) for v in block.arguments.values() if isinstance(v, str))
    text = clean(plain([b for b in message.content if b.type == "text"])).strip()
    walk.characters += len(text)
    if not text:
        return
    walk.steps.append(Step("assistant", text))
    walk.last_said = Line(entry.id, "assistant", text)
    low = text[:_LONGEST].lower()
    decides, opens = _DECIDED.search(low) is not None, _OPEN.search(low) is not None
    unchecked = _UNCHECKED.findall(text[:_LONGEST]) if "[ ]" in low else []
    found = [Line(entry.id, "assistant", one_line(line, LINE)) for line in unchecked]
    if decides or (opens and not found):
        for line in _lines(text[:_LONGEST]):
            low = line.lower()
            if decides and _DECIDED.search(low) and not line.endswith(":"):
                _put(walk.decisions, Line(entry.id, "assistant", line))
            if opens and not unchecked and _OPEN.search(low):
                found.append(Line(entry.id, "assistant", line))
    if found:  # the newest answer that says what is open replaces what an older one said
        walk.open_lines = found


def _result(walk: _Walk, entry: Entry, message: ToolResultMessage) -> None:
    call = walk.calls.pop(message.tool_call_id, None)
    arguments = call.arguments if call is not None else {}
    name = call.name if call is not None else message.tool_name
    walk.characters += sum(len(b.text) for b in message.content if b.type == "text")
    walk.steps.append(Step("tool", name, arguments, failed=message.is_error))
    key = attempt(name, arguments)
    if message.is_error:
        said = _said(plain(message.content))
        if not said:
            return
        before = walk.failures.pop(key, None)
        times = before.times + 1 if before is not None and not before.fixed else 1
        walk.failures[key] = Failure(entry.id, called(name, arguments), said, times)
        walk.touched.setdefault(key, [])
        return
    failure = walk.failures.get(key)
    if failure is not None and not failure.fixed:
        walk.failures.pop(key)
        by = tuple(dict.fromkeys(walk.touched.pop(key, ())))
        walk.failures[key] = Failure(
            failure.entry_id, failure.what, failure.said, failure.times, fixed=True, by=by[-3:]
        )
    _files(walk, name, path_of(arguments))
    command = arguments.get("command")
    if isinstance(command, str) and "commit" in command:
        for found in _COMMIT.finditer(plain(message.content)[:_LONGEST]):
            walk.commits[found[2]] = one_line(found[3], 160)


def _files(walk: _Walk, name: str, path: str) -> None:
    if not path:
        return
    if name in CHANGES:
        walk.changed[path] = walk.changed.pop(path, 0) + 1
        for files in walk.touched.values():
            files.append(path)
    elif name == "read":
        if path.endswith("SKILL.md"):
            walk.skills[path] = None
        else:
            walk.read[path] = walk.read.pop(path, 0) + 1


def _summary(walk: _Walk, entry: Entry, message: SummaryMessage) -> None:
    if message.kind == "branch":
        walk.branches.append(clean(message.summary))
    elif not is_ours(entry):
        walk.earlier = clean(message.summary)


def _said(text: str) -> str:
    """The line of an error that says most: the first short one that names a fault, else the first.

    Empty for a command without output, such as a search that found nothing.
    """
    text = clean(text[:_LONGEST]).strip()
    if not text or text.startswith(_SILENT):
        return ""
    low = text.lower()
    at = _fault(low, 0) if len(low) == len(text) else -1
    while at >= 0:
        start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
        end = len(text) if end < 0 else end
        if end - start <= LINE:
            return one_line(text[start:end], _ERROR)
        at = _fault(low, end)
    return one_line(text.partition("\n")[0], _ERROR)


def _fault(low: str, start: int) -> int:
    """Where the next word for a fault stands, or -1; many plain searches beat one pattern."""
    return min((at for word in _FAULTS if (at := low.find(word, start)) >= 0), default=-1)


def _lines(text: str) -> Iterator[str]:
    """The lines worth quoting, bounded, without the marks of a list in front of them."""
    fenced = False
    for raw in text.split("\n"):
        if raw.lstrip().startswith("```"):
            fenced = not fenced
            continue
        if fenced or len(raw) < _LEAST:
            continue
        line = quoted(_MARK.sub("", raw), LINE)
        if len(line) >= _LEAST:
            yield line


def _put(lines: dict[str, Line], line: Line) -> None:
    """Keep a line once, at its newest place."""
    key = line.text.lower()
    lines.pop(key, None)
    lines[key] = line
