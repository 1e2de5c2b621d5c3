"""An Anthropic request as rendered blocks: what the cache and the thinking check see of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from unipi.sim import thinking
from unipi.sim.errors import ApiError
from unipi.sim.prompt import Block, Prompt, make_block
from unipi.sim.rules import HOUR, MINUTE
from unipi.sim.shapes import as_dict, as_list, as_str, dumps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from unipi.sim.wire import Options

THINKING_TYPES = ("thinking", "redacted_thinking")
BINDING_BETA = "thinking-binding-controls-2026-08-01"


@attrs.frozen
class Rendered:
    """A rendered request and the state in which its answer's thinking is signed."""

    prompt: Prompt
    state: bytes
    last_signature: str | None
    transformations: tuple[dict[str, object], ...] | None


def marker_ttl(value: object) -> float | None:
    """Seconds that a ``cache_control`` value asks for; None when there is none."""
    if not isinstance(value, dict):
        return None
    return HOUR if value.get("ttl") == "1h" else 5 * MINUTE


def content_blocks(content: object) -> list[dict[str, object]]:
    """A content value as blocks; a string is one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [as_dict(block) for block in as_list(content)]


def message_block(role: str, block: dict[str, object], *, ends_message: bool = True) -> Block:
    """Render one message block. The role is part of each block, so merged turns render alike."""
    kind = as_str(block.get("type"))
    text = f"{role} {kind} ".encode() + dumps(_content(kind, block)) + b"\n"
    return make_block(
        "messages",
        text,
        marker=_marker(block),
        ends_message=ends_message,
        thinking=kind in THINKING_TYPES,
    )


def _content(kind: str, block: dict[str, object]) -> object:
    # Members in one order whatever the envelope's; what is inside `input` keeps its own.
    if kind == "text" and not block.get("citations"):
        return block.get("text")
    if kind == "tool_use":
        return [block.get("id"), block.get("name"), block.get("input")]
    if kind == "tool_result":
        inner = [_plain(part) for part in content_blocks(block.get("content"))]
        return [block.get("tool_use_id"), bool(block.get("is_error")), inner]
    return _plain(block)


def _plain(block: dict[str, object]) -> dict[str, object]:
    return {
        key: block[key]
        for key in sorted(block)
        if key != "cache_control" and block[key] is not None
    }


def _marker(block: dict[str, object]) -> float | None:
    own = marker_ttl(block.get("cache_control"))
    if own is not None or block.get("type") != "tool_result":
        return own
    inner = [marker_ttl(as_dict(p).get("cache_control")) for p in as_list(block.get("content"))]
    return next((ttl for ttl in inner if ttl is not None), None)


def render(request: dict[str, object], headers: Mapping[str, str], options: Options) -> Rendered:
    """Render a request in the order tools, system, messages.

    Raises:
        ApiError: a replayed thinking block is refused (``check_thinking``).
    """
    model = as_str(request.get("model"))
    blocks = [*_tools(request), *_system(request)]
    guard = _ThinkingGuard(model, request, headers, options)
    for head in blocks:
        guard.passed(head)
    turns = list(_message_blocks(request))
    last_user_text = _last_user_text(turns) if _strips(model, options) else -1
    for place, (path, role, block, ends) in enumerate(turns):
        made = message_block(role, block, ends_message=ends)
        if made.thinking:
            if guard.keeps(path, block) and place > last_user_text:
                blocks.append(made)
        else:
            guard.passed(made)
            blocks.append(made)
    automatic = marker_ttl(request.get("cache_control"))
    if automatic is not None:
        _mark_last(blocks, automatic)
    prompt = Prompt(model, tuple(blocks), _seeds(request, headers, turns))
    return Rendered(prompt, guard.state, guard.previous, guard.report())


def _tools(request: dict[str, object]) -> Iterator[Block]:
    for tool in map(as_dict, as_list(request.get("tools"))):
        # A deferred tool is loaded where it is referenced, not in the head.
        if tool.get("defer_loading") is not True:
            marker = marker_ttl(tool.get("cache_control"))
            yield make_block("tools", b"tool " + dumps(_plain(tool)) + b"\n", marker=marker)


def _system(request: dict[str, object]) -> Iterator[Block]:
    for block in content_blocks(request.get("system")):
        marker = marker_ttl(block.get("cache_control"))
        yield make_block("system", b"system " + dumps(_plain(block)) + b"\n", marker=marker)


def _message_blocks(
    request: dict[str, object],
) -> Iterator[tuple[str, str, dict[str, object], bool]]:
    for number, message in enumerate(map(as_dict, as_list(request.get("messages")))):
        content = content_blocks(message.get("content"))
        role = as_str(message.get("role"))
        if effort := as_dict(message.get("output_config")).get("effort"):
            # How it is rendered is not documented; here it is a block that the cache goes by.
            content = [*content, {"type": "effort", "effort": effort}]
        for place, block in enumerate(content):
            path = f"messages.{number}.content.{place}"
            yield path, role, block, place == len(content) - 1


def _strips(model: str, options: Options) -> bool:
    return model.startswith(options.profile.strips_thinking)


def _last_user_text(turns: list[tuple[str, str, dict[str, object], bool]]) -> int:
    places = [
        place
        for place, (_path, role, block, _ends) in enumerate(turns)
        if role == "user" and block.get("type") != "tool_result"
    ]
    return places[-1] if places else -1


def _mark_last(blocks: list[Block], ttl: float) -> None:
    """Put the automatic marker on the last block that can carry one."""
    for place in range(len(blocks) - 1, -1, -1):
        if not blocks[place].thinking:
            if blocks[place].marker is None:
                blocks[place] = attrs.evolve(blocks[place], marker=ttl)
            return


def _seeds(
    request: dict[str, object],
    headers: Mapping[str, str],
    turns: list[tuple[str, str, dict[str, object], bool]],
) -> tuple[bytes, bytes, bytes]:
    """What each section's entries depend on besides its text ("What a change invalidates")."""
    thinking_mode = as_dict(request.get("thinking"))
    mode = thinking_mode.get("type")
    choice = as_dict(request.get("tool_choice"))
    output = as_dict(request.get("output_config"))
    effort = output.get("effort")
    messages = {
        # A default written out is the same as leaving it away.
        "thinking": None
        if mode in (None, "disabled")
        else [mode, thinking_mode.get("budget_tokens")],
        "tool_choice": None if choice in ({}, {"type": "auto"}) else _plain(choice),
        "effort": None if effort == "high" else effort,
        "format": output.get("format"),
        "context_management": request.get("context_management"),
        "betas": sorted(filter(None, _betas(headers))),
        "images": any(_has_image(block) for _path, _role, block, _ends in turns),
    }
    speed = request.get("speed")
    return b"", dumps(None if speed == "standard" else speed), dumps(messages)


def _betas(headers: Mapping[str, str]) -> list[str]:
    return [name.strip() for name in headers.get("anthropic-beta", "").split(",")]


def _has_image(block: dict[str, object]) -> bool:
    if block.get("type") == "image":
        return True
    inner = block.get("content") if block.get("type") == "tool_result" else None
    return any(as_dict(part).get("type") == "image" for part in as_list(inner))


class _ThinkingGuard:
    """Follows a request's blocks and judges each replayed thinking block."""

    def __init__(
        self,
        model: str,
        request: dict[str, object],
        headers: Mapping[str, str],
        options: Options,
    ) -> None:
        self.state = b""
        self.previous: str | None = None
        self._model = model
        self._check = options.check_thinking
        binding = as_dict(as_dict(request.get("thinking")).get("block_binding"))
        controlled = bool(binding) and BINDING_BETA in _betas(headers)
        self._broken = False
        self._drops = controlled and binding.get("prefix_mismatch_behavior") == "drop_block"
        self._transformations: list[dict[str, object]] | None = [] if controlled else None

    def passed(self, block: Block) -> None:
        """A block that is not thinking goes by."""
        self.state = thinking.advance(self.state, block.digest)

    def report(self) -> tuple[dict[str, object], ...] | None:
        """The blocks left out, or None when the request did not ask."""
        return None if self._transformations is None else tuple(self._transformations)

    def keeps(self, path: str, block: dict[str, object]) -> bool:
        """Whether the block stays in the prompt.

        Raises:
            ApiError: it is foreign, or its prefix changed and the request does not say drop.
        """
        kind = as_str(block.get("type"))
        signature = as_str(block.get("data" if kind == "redacted_thinking" else "signature"))
        if not self._check:
            self.previous = signature
            return True
        text = as_str(block.get("thinking"))
        verdict = thinking.verify(self._model, self.state, self.previous, text, signature)
        if verdict == "foreign":
            what = "data" if kind == "redacted_thinking" else "signature"
            raise ApiError(400, f"{path}: Invalid `{what}` in `{kind}` block")
        self.previous = signature
        if verdict == "valid" and self._broken:
            verdict = "moved"
        # A gap makes every later block invalid, not just the next.
        self._broken = self._broken or verdict == "moved"
        if verdict == "moved" and not self._drops:
            raise ApiError(
                400,
                f"{path}: Invalid `signature` in `{kind}` block. The block is bound to a "
                "different conversation. Remove the block, or set "
                '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".',
            )
        if verdict == "valid":
            return True
        reason = "model" if verdict == "other_model" else "prefix"
        dropped: dict[str, object] = {
            "type": "thinking_dropped",
            "path": path,
            "reason": f"{reason}_binding_mismatch",
        }
        if self._transformations is not None:
            self._transformations.append(dropped)
        return False
