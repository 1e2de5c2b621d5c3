"""Write docs/hooks.md from the hook specifications.

python docs/make_hooks.py            write the page
python docs/make_hooks.py --check    exit 1 when the page is not what would be written
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import attrs

import unipi_hookspecs
from unipi_hookspecs import POLICIES, Context, HookPolicy, LoadContext, _specs

PAGE = Path(__file__).with_name("hooks.md")

KINDS = {
    "collect": "Every result is gathered, in plugin order.",
    "observe": "Returns count for nothing; all implementations are told, in order.",
    "chain": "A returned value takes the place of the event's for the next implementation.",
    "first": "The first answer that is not `None` wins.",
    "veto": "The first `Cancel` or `Block` stops the action; other answers replace what they name.",
}

INTRO = """# Hooks

<!-- Written by docs/make_hooks.py from the hook specifications. Change those, then run it. -->

Every hook of the host, with what it is given and what its answer does. All names come from
`unipi_hookspecs`. An event hook takes `(event, ctx)` and may be `def` or `async def`; a registration
hook takes `(ctx)` and is `def`. An implementation may name fewer arguments. `None` always means: no
opinion. [Your first plugin](first-plugin.md) shows one whole.

"""

FAILURES = """An implementation that raises, or that takes longer than its budget, is reported with the
plugin's name, and the action goes on with the value it had. Where the table says *blocks*, it is
stopped instead: a policy that cannot be asked is a policy that says no. Hooks marked *reversed* are
called last plugin first, so that what was opened first closes last.

"""


CONTEXTS = (
    (
        "The context of events, tools and commands",
        Context,
        "`ctx` belongs to one plugin and one session; once that has ended, every use of it raises\n"
        "`StaleContextError`.",
    ),
    (
        "The context of registration hooks",
        LoadContext,
        "There is no session yet when these are asked.",
    ),
)


def page() -> str:
    """The whole page."""
    homes: dict[str, str] = {}
    parts = [INTRO, "## Kinds\n\n| kind | what an answer does |\n|---|---|\n"]
    parts += [f"| {kind} | {text} |\n" for kind, text in KINDS.items()]
    parts += ["\n", FAILURES, "## All hooks\n\n"]
    parts.append("| hook | kind | may touch of the cached prefix | budget | on failure |\n")
    parts.append("|---|---|---|---|---|\n")
    parts += [_row(policy) for policy in POLICIES.values()]
    parts += [_section(policy, homes) for policy in POLICIES.values()]
    parts += [_protocol(title, cls, intro) for title, cls, intro in CONTEXTS]
    parts.append("\n## Other values\n\nWhat the fields above hold.\n")
    for name in unipi_hookspecs.__all__:
        described = _described(name) if name not in homes else ""
        if described:
            parts.append(f"\n{described}")
    return "".join(parts)


def _row(policy: HookPolicy) -> str:
    kind = f"{policy.kind}, reversed" if policy.reverse else policy.kind
    failure = "blocks" if policy.fail_closed else "goes on"
    effect = "nothing" if policy.cache_effect == "-" else policy.cache_effect
    link = f"[`{policy.name}`](#{policy.name})"
    return f"| {link} | {kind} | {effect} | {policy.budget:g} s | {failure} |\n"


def _section(policy: HookPolicy, homes: dict[str, str]) -> str:
    """One hook: signature, docstring, and the values that no earlier section described."""
    function = getattr(_specs, policy.name)
    lines = [f"\n## {policy.name}\n", "```text", _signature(policy), "```\n"]
    lines.append((inspect.getdoc(function) or "") + "\n")
    annotations = function.__annotations__
    for name in re.findall(
        r"\b[A-Z]\w+", f"{annotations.get('event', '')} {annotations['return']}"
    ):
        if name in homes:
            lines.append(f"**`{name}`**: see [`{homes[name]}`](#{homes[name]}).\n")
        elif described := _described(name):
            homes[name] = policy.name
            lines.append(described)
    return "\n".join(lines)


def _signature(policy: HookPolicy) -> str:
    """`name(event: ToolCallEvent, ctx: Context) -> Block | None`, as a reader would write it."""
    annotations = getattr(_specs, policy.name).__annotations__
    arguments = ", ".join(f"{n}: {_bare(t)}" for n, t in annotations.items() if n != "return")
    return f"{policy.name}({arguments}) -> {_bare(annotations['return'])}"


def _bare(annotation: str) -> str:
    return annotation.replace("ev.", "").replace("'", '"')


def _described(name: str) -> str:
    """A class with its fields, or nothing for a name that is no class of values."""
    cls = getattr(unipi_hookspecs, name, None)
    if not isinstance(cls, type) or not attrs.has(cls):
        return ""
    doc = inspect.getdoc(cls) if "__doc__" in vars(cls) else None
    lines = [f"**`{name}`**" + (f": {doc}" if doc else ""), ""]
    lines += [
        f"- `{field.name}: {_bare(str(field.type))}`{_default(field)}"
        for field in attrs.fields(cls)
    ]
    return "\n".join([*lines, ""]) if attrs.fields(cls) else "\n".join(lines)


def _default(field: attrs.Attribute[object]) -> str:
    if field.default is attrs.NOTHING:
        return ""
    if isinstance(field.default, attrs.Factory):
        return ", optional"
    return f" = `{_bare(repr(field.default))}`"


def _protocol(title: str, cls: type, intro: str) -> str:
    """The members of a protocol, each with its signature and what its docstring says."""
    lines = [f"\n## {title}\n", intro + "\n"]
    for name, member in vars(cls).items():
        if name.startswith("_") or not (isinstance(member, property) or callable(member)):
            continue
        doc = (inspect.getdoc(member) or "").split()
        lines.append(f"- `{_member(name, member)}`" + (f": {' '.join(doc)}" if doc else ""))
    return "\n".join([*lines, ""])


def _member(name: str, member: object) -> str:
    if isinstance(member, property):
        return f"ctx.{name}: {_bare(member.fget.__annotations__['return'])}"
    signature = inspect.signature(member)
    parts, keyword_only = [], False
    for parameter in list(signature.parameters.values())[1:]:
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            parts.append("*")
        text = f"{parameter.name}: {_bare(parameter.annotation)}"
        if parameter.default is not parameter.empty:
            text += f" = {_bare(repr(parameter.default))}"
        parts.append(text)
    wait = "await " if inspect.iscoroutinefunction(member) else ""
    return f"{wait}ctx.{name}({', '.join(parts)}) -> {_bare(signature.return_annotation)}"


def main(arguments: list[str]) -> int:
    """Write or check the page; returns the exit code."""
    text = page()
    if arguments == ["--check"]:
        if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        sys.stderr.write("docs/hooks.md is not current: run python docs/make_hooks.py\n")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
