"""What is wrong between the lines of a session file: ids, parents, calls and results, two writers."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from . import session_formats as formats
from .session_formats import PI

if TYPE_CHECKING:
    from collections.abc import Callable

    from .session_file import Examined, Kept
    from .session_formats import Line

_SWITCHES = 3
"""Times that a file goes back and forth between two branches before two writers explain it best."""


def join(examined: Examined) -> None:
    """Give each entry an id of its own, and a parent that is there."""
    form = examined.form
    new = _new_ids(examined)
    seen: set[str] = set()
    now: dict[str, str] = {}  # what an id that was used twice is called from its second entry on
    before: str | None = None
    for line in _entries(examined):
        own, parent = line.fields.get(form.id), line.fields.get(form.parent)
        if not isinstance(own, str):
            continue  # version 1: a plain list
        if isinstance(parent, str) and parent in now:
            parent = now[parent]
            line.fields = {**line.fields, form.parent: parent}
        if isinstance(parent, str) and parent not in seen:
            what = f"its parent {parent!s:.40} is not in the file before it"
            cure = f"its parent is {before}" if before else "it begins the session"
            examined.found(line, "foreign parent", what, cure)
            line.fields = {**line.fields, form.parent: before}
        if own in seen:
            now[own] = new()
            examined.found(line, "duplicate id", f"{own!s:.40} is used twice", f"it is {now[own]}")
            line.fields = {**line.fields, form.id: now[own]}
            own = now[own]
        seen.add(own)
        before = own


@frozen
class Missing:
    """A call of `caller` without a result, and where one is put: in front of `at`, or behind it."""

    caller: Kept
    call: Line
    at: Kept
    before: bool


def pair(examined: Examined) -> None:
    """Put a result behind every call, and leave out the results that belong to none."""
    if examined.form is PI and all("id" in line.fields for line in _entries(examined)):
        missing, results = _unpaired_in_tree(examined)
    else:
        missing, results = _unpaired_in_list(examined)
    told: set[int] = set()
    for each in missing:
        if id(each.call) not in told:
            told.add(id(each.call))
            what = f"{each.call.get('name')!s:.40} {each.call.get('id')!s:.64} has no result"
            cure = "a result says that it was not run"
            examined.found(each.caller, "orphan call", what, cure)
    for line, call_id in results:
        what = f"its call {call_id!s:.64} is not before it"
        examined.found(line, "orphan result", what, "it is left out")
    if missing or results:
        _rewrite(examined, missing, results)


def sort_writers(examined: Examined) -> None:
    """Where two programs wrote in turns, let the branch that is not gone on with stand in one piece."""
    if examined.form is not PI:
        return  # Claude Code hangs parallel results beside each other: that is no second writer
    entries = [line for line in _entries(examined) if isinstance(line.fields.get("id"), str)]
    for branch in _branches(entries):
        inside = {id(line) for line in branch}
        at = next(i for i, line in enumerate(examined.lines) if id(line) in inside)
        end = max(i for i, line in enumerate(examined.lines) if id(line) in inside)
        span = examined.lines[at : end + 1]
        sides = [id(line) in inside for line in span]
        if sum(a != b for a, b in pairwise(sides)) < _SWITCHES:
            continue
        what = f"two branches were written in turns, one of {len(branch):,} entries beside the last"
        cure = "each branch stands in one piece, the last one last"
        examined.found(branch[0], "two writers", what, cure)
        rest = [line for line in span if id(line) not in inside]
        examined.lines[at : end + 1] = [*branch, *rest]


def _branches(entries: list[Kept]) -> list[list[Kept]]:
    """The branches beside the one that ends with the last entry, each in file order."""
    parents = {line.fields["id"]: line.fields.get("parentId") for line in entries}
    trunk: set[object] = set()
    last = entries[-1].fields["id"] if entries else None
    while last is not None and last not in trunk:
        trunk.add(last)
        last = parents.get(last)
    root: dict[object, object] = {}
    branches: dict[object, list[Kept]] = {}
    for line in entries:
        own, parent = line.fields["id"], line.fields.get("parentId")
        if own not in trunk:
            root[own] = root.get(parent, own)
            branches.setdefault(root[own], []).append(line)
    return list(branches.values())


def _entries(examined: Examined) -> list[Kept]:
    return examined.lines[1:] if examined.form is PI else examined.lines


def _new_ids(examined: Examined) -> Callable[[], str]:
    """Ids that the file has not, the same ones for the same file."""
    taken = {line.fields.get(examined.form.id) for line in examined.lines}
    numbers = iter(range(1 << 32))

    def new() -> str:
        found = next(text for n in numbers if (text := f"{0xD0C70000 + n:08x}") not in taken)
        taken.add(found)
        return found

    return new


def _unpaired_in_tree(examined: Examined) -> tuple[list[Missing], list[tuple[Kept, str]]]:
    """Calls without a result on some branch, and results that do not follow their call on it."""
    form = examined.form
    waiting: dict[str | None, dict[str, tuple[Kept, Line]]] = {}
    missing: list[Missing] = []
    results: list[tuple[Kept, str]] = []
    leaves: dict[str, Kept] = {}
    for line in _entries(examined):
        own, parent = str(line.fields["id"]), line.fields.get("parentId")
        open_ = dict(waiting.get(parent, {}))
        leaves.pop(str(parent), None)
        leaves[own] = line
        found = formats.results_of(form, line.fields)
        results += [(line, call_id) for call_id in found if open_.pop(call_id, None) is None]
        if not found and _says(line.fields):
            missing += [Missing(*pair, line, before=True) for pair in open_.values()]
            open_ = {str(c.get("id")): (line, c) for c in formats.calls_of(form, line.fields)}
        waiting[own] = open_
    for own, line in leaves.items():
        missing += [Missing(*pair, line, before=False) for pair in waiting[own].values()]
    return missing, results


def _unpaired_in_list(examined: Examined) -> tuple[list[Missing], list[tuple[Kept, str]]]:
    """The same where the place in the file, and no parent, says what follows what."""
    form = examined.form
    asked: dict[str, tuple[Kept, Line]] = {}
    answered: set[str] = set()
    results: list[tuple[Kept, str]] = []
    for line in _entries(examined):
        for call_id in formats.results_of(form, line.fields):
            if call_id not in asked or call_id in answered:
                results.append((line, call_id))
            answered.add(call_id)
        for call in formats.calls_of(form, line.fields):
            asked[str(call.get("id"))] = (line, call)
    missing = [
        Missing(line, call, line, before=False)
        for call_id, (line, call) in asked.items()
        if call_id not in answered
    ]
    return missing, results


def _says(fields: Line) -> bool:
    """Whether an entry says something to the model; what a failed answer said is not sent again."""
    if fields.get("type") in ("custom_message", "branch_summary"):
        return True
    message = formats.message_of(fields)
    return message is not None and message.get("stopReason") not in ("error", "aborted")


def _rewrite(examined: Examined, missing: list[Missing], results: list[tuple[Kept, str]]) -> None:
    """Leave results out and put others in; what stood behind either stands behind its neighbour."""
    form, new = examined.form, _new_ids(examined)
    gone: dict[int, list[str]] = {}
    for line, call_id in results:
        gone.setdefault(id(line), []).append(call_id)
    there: dict[tuple[int, bool], list[Line]] = {}
    for each in missing:
        made = formats.result_for(form, each.caller.fields, each.call)
        there.setdefault((id(each.at), each.before), []).append(made)
    moved: dict[object, object] = {}  # by the id of a parent that has gone, or has grown
    lines: list[Kept] = []

    def put_in(line: Kept, made: list[Line], parent: object) -> object:
        for result in made:
            fields = result
            if form.id in line.fields:
                fields = {**result, form.id: new(), form.parent: parent}
                parent = fields[form.id]
            lines.append(evolve(line, fields=fields))
        return parent

    for line in examined.lines:
        own, parent = line.fields.get(form.id), line.fields.get(form.parent)
        fields: Line | None = line.fields
        if parent in moved:
            parent = moved[parent]
        parent = put_in(line, there.get((id(line), True), []), parent)
        if parent != line.fields.get(form.parent):
            fields = {**line.fields, form.parent: parent}
        for call_id in gone.get(id(line), []):
            fields = formats.without_result(form, fields, call_id) if fields else None
        if fields is not None:
            lines.append(evolve(line, fields=fields))
        place = own if fields is not None else parent
        behind = put_in(line, there.get((id(line), False), []), place)
        if behind != own:
            moved[own] = behind
    examined.lines = lines
