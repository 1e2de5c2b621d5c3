"""The slash commands, and the trigger that does what the command does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from unipi_hookspecs import UserMessage

from . import state
from .history import is_ours, last_cut
from .settings import PRESETS, read_options
from .summary import summarise
from .text import size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unipi_hookspecs import CacheState, Context, Entry, TurnEndEvent

_KEPT: Final = 20_000 * 4
"""Characters that the host keeps by default, about: what a preview assumes."""
_DRY: Final = re.compile(r"(?<!\S)--dry-run(?!\S)")
_PRESET: Final = re.compile(r"(?<!\S)--preset[ =]+(\S+)")
_OPTION: Final = re.compile(r"(?<!\S)--[a-z]")
_USAGE: Final = "usage: /unipi:compact [--dry-run] [--preset NAME] [what to mind]"


async def compact(rest: str, ctx: Context) -> str:
    """`/unipi:compact`: compact now, or with `--dry-run` show what that would keep and cost."""
    dry = _DRY.search(rest) is not None
    rest = _DRY.sub(" ", rest)
    named = _PRESET.search(rest)
    name = named[1] if named else ""
    instructions = _PRESET.sub(" ", rest).strip()
    if _OPTION.search(instructions):
        return _USAGE
    if named and name not in PRESETS:
        return f"no preset {name!r}; there are {', '.join(sorted(PRESETS))}. {_USAGE}"
    if dry:
        return _preview(ctx, name, instructions)
    if name:
        await ctx.append_entry(state.PRESET, {"preset": name})
    return await ctx.compact(instructions)


def _preview(ctx: Context, preset: str, instructions: str) -> str:
    branch = ctx.session.branch()
    options = read_options(ctx.settings, preset or state.chosen_preset(branch))
    place = _likely_cut(branch)
    if place == 0:
        return "nothing would be cut off: all of it lies within what stays"
    window = ctx.model.context_window if ctx.model else 0
    made = summarise(branch, branch[place].id, options, instructions=instructions, window=window)
    facts = made.facts
    return "\n".join(
        [
            f"About {facts.messages:,} messages ({facts.characters:,} characters) would be cut off; "
            f"the summary would have {size(made.text):,} bytes (preset {options.preset}).",
            f"Kept word for word: {len(facts.requests):,} requests. Found: "
            f"{len(facts.constraints):,} constraints, {len(facts.decisions):,} decisions, "
            f"{len(facts.changed):,} files changed, {len(facts.read):,} read, "
            f"{sum(not f.fixed for f in facts.failures):,} failures open, "
            f"{sum(f.fixed for f in facts.failures):,} put right, {len(facts.commits):,} commits.",
            _price(ctx.cache_state()),
            "",
            made.text,
        ]
    )


def _price(cache: CacheState) -> str:
    if cache.rewrite_is_free:
        return "The boundary costs nothing now: no part of the prompt is in the provider's cache."
    money = f", about ${cache.price:.4f}" if cache.price is not None else ""
    unknown = " if it is still cached" if cache.cold is None else ""
    return f"The boundary gives up {cache.tokens:,} cached tokens{money}{unknown}."


def _likely_cut(branch: Sequence[Entry]) -> int:
    """About where the host would cut: at the start of the turn in which its budget ends."""
    room = _KEPT
    start, _ = last_cut(branch)
    for place in range(len(branch) - 1, -1, -1):
        message = branch[place].message
        if message is None:
            continue
        room -= _characters(branch[place])
        if room <= 0 and isinstance(message, UserMessage):
            return place if place > start else 0
    return 0


def _characters(entry: Entry) -> int:
    message = entry.message
    if message is None or message.role == "summary":
        return 0
    if message.role == "bashExecution":
        return len(message.command) + len(message.output)
    if isinstance(message.content, str):
        return len(message.content)
    total = 0
    for block in message.content:
        if block.type == "text":
            total += len(block.text)
        elif block.type == "thinking":
            total += len(block.thinking)
        elif block.type == "toolCall":
            total += len(block.arguments_text or str(dict(block.arguments)))
        else:
            total += 4_800
    return total


def stats(ctx: Context) -> str:
    """`/unipi:compact-stats`: what the session file says of its compactions; nothing is estimated."""
    lines: list[str] = []
    for entry in ctx.session.branch():
        if entry.type != "compaction":
            continue
        fields = entry.fields
        before, summary = fields.get("tokensBefore"), fields.get("summary")
        told = f"{before:,}" if isinstance(before, int) else "unknown"
        bytes_ = size(summary) if isinstance(summary, str) else 0
        by = "without a model" if is_ours(entry) else "by another"
        lines.append(
            f"{len(lines) + 1}. {entry.timestamp[:19]}: {told} tokens before, a summary of "
            f"{bytes_:,} bytes, {by}"
        )
    if not lines:
        return "This branch was never compacted."
    return "\n".join([f"Compactions of this branch: {len(lines)}", *lines])


async def preset(rest: str, ctx: Context) -> str:
    """`/unipi:compact-preset`: choose one for this session, or say which is in force."""
    name = rest.strip()
    if not name:
        now = state.options_of(ctx).preset
        return f"preset {now}; there are {', '.join(sorted(PRESETS))}"
    if name not in PRESETS:
        return f"no preset {name!r}; there are {', '.join(sorted(PRESETS))}"
    await ctx.append_entry(state.PRESET, {"preset": name})
    return f"preset {name} for this session"


async def on_turn_end(event: TurnEndEvent, ctx: Context) -> None:
    """Compact when the context has grown to the share of the window that the settings name."""
    rule = read_options(ctx.settings).trigger
    usage, model = event.message.usage, ctx.model
    tokens = usage.prompt + usage.output if usage is not None else 0
    trigger = state.of(ctx).trigger
    now = event.message.timestamp
    verdict = trigger.sample(rule, tokens, model.context_window if model else 0, now)
    if not verdict.fire:
        return
    ctx.ui.notify(f"the context fills {rule.percent} % of the window; compacting", level="info")
    await ctx.compact()
