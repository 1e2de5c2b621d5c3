"""What a call brought back, as text and pictures for the model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from unipi_hookspecs import Image, Text, ToolOutput

if TYPE_CHECKING:
    from mcp.types import CallToolResult

    from unipi_hookspecs import Context, UserContent

_PICTURES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")


def output(result: CallToolResult, ctx: Context, label: str) -> ToolOutput:
    """The result of a call; its text is bounded, and the whole of it kept beside.

    Structured content is shown where there is no text: the protocol asks servers to send the same
    in both. Sound and other bytes are named with their type and size.
    """
    texts: list[str] = []
    pictures: list[UserContent] = []
    for block in result.content:
        picture = _picture(block)
        if picture is not None:
            pictures.append(picture)
        else:
            texts.append(_text(block))
    structured = result.structured_content
    if structured is not None and not any(text.strip() for text in texts):
        texts.append(json.dumps(structured, ensure_ascii=False, sort_keys=True))
    whole = "\n".join(text for text in texts if text)
    bounded = ctx.bound_output(whole, label=label).text
    content = [Text(bounded)] if bounded.strip() else []
    if not content and not pictures:
        content = [Text("(no output)")]
    return ToolOutput((*content, *pictures), is_error=result.is_error is True)


def _picture(block: Any) -> Image | None:
    if block.type == "image" and block.mime_type in _PICTURES:
        return Image(block.data, block.mime_type)
    return None


def _text(block: Any) -> str:
    """A block in words. The kinds are the protocol's; one that is new is shown as JSON."""
    if block.type == "text":
        return str(block.text)
    if block.type in ("image", "audio"):
        return f"[{block.type} {block.mime_type}, {_bytes(block.data):,} bytes: not shown]"
    if block.type == "resource_link":
        about = f": {block.description}" if block.description else ""
        return f"[resource {block.name} at {block.uri}{about}]"
    if block.type == "resource":
        resource = block.resource
        text = getattr(resource, "text", None)
        if text is not None:
            return f"[resource {resource.uri}]\n{text}"
        kind = resource.mime_type or "bytes"
        return f"[resource {resource.uri}, {kind}, {_bytes(resource.blob):,} bytes: not shown]"
    return json.dumps(block.model_dump(mode="json"), ensure_ascii=False, sort_keys=True)


def _bytes(base64: str) -> int:
    return len(base64) * 3 // 4
