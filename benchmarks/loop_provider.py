"""A loopback provider for the loop benchmark: a script, and a clock at both ends of a turn.

`/s/NAME/TURNS/v1/chat/completions`, `.../messages` and `.../responses` answer a request with a call of
`lookup` for the first TURNS requests and then with "done", streamed if the request asks for it.
`POST /take/NAME` gives what was seen: for each request the monotonic nanoseconds at which its body
was complete and at which the answer's last byte was written, its size, and how many bytes of the
request before it are not its prefix.
"""

import asyncio
import gc
import json
import re
import socket
import sys
from collections.abc import Callable
from time import monotonic_ns

from attrs import define, field

from benchmarks.loop_responses import responses

_PATH = re.compile(r"/s/([\w.-]+)/(\d+)/v1/(chat/completions|messages|responses)\Z")
_STREAM = re.compile(rb'"stream": ?true')
_PIECES = 3
_USAGE = 20
_Object = dict[str, object]


@define
class Seen:
    """One request."""

    body: bytes
    complete: int
    answered: int = 0


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _pieces(text: str) -> list[str]:
    step = -(-len(text) // _PIECES)
    return [text[at : at + step] for at in range(0, len(text), step)]


def chat(turn: int, arguments: str | None, tokens: int, stream: bool) -> list[bytes]:
    """An answer of Chat Completions: one JSON body, or the chunks of a stream."""
    usage = {
        "prompt_tokens": tokens,
        "completion_tokens": _USAGE,
        "total_tokens": tokens + _USAGE,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    base = {"id": f"chatcmpl-{turn:04d}", "created": 1_700_000_000, "model": "bench-model"}
    call: _Object = {"id": f"call_{turn:04d}", "type": "function"}
    reason = "stop" if arguments is None else "tool_calls"
    if not stream:
        message: _Object = {"role": "assistant", "content": "done"}
        if arguments is not None:
            function = {"name": "lookup", "arguments": arguments}
            message |= {"content": None, "tool_calls": [{**call, "function": function}]}
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return [_json({**base, "object": "chat.completion", "choices": [choice], "usage": usage})]
    deltas: list[_Object] = [{"role": "assistant", "content": ""}, {"content": "done"}]
    if arguments is not None:
        function = {"name": "lookup", "arguments": ""}
        deltas = [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"index": 0, **call, "function": function}],
            }
        ]
        deltas += [
            {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}
            for piece in _pieces(arguments)
        ]
    chunk = {**base, "object": "chat.completion.chunk"}
    choices: list[_Object] = [
        {"index": 0, "delta": delta, "finish_reason": None} for delta in deltas
    ]
    choices.append({"index": 0, "delta": {}, "finish_reason": reason})
    events: list[_Object] = [{**chunk, "choices": [choice]} for choice in choices]
    events.append({**chunk, "choices": [], "usage": usage})
    return [b"data: %b\n\n" % _json(event) for event in events] + [b"data: [DONE]\n\n"]


def messages(turn: int, arguments: str | None, tokens: int, stream: bool) -> list[bytes]:
    """An answer of Anthropic's Messages: one JSON body, or the events of a stream."""
    usage = {
        "input_tokens": tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": _USAGE,
    }
    reason = "end_turn" if arguments is None else "tool_use"
    base = {"id": f"msg_{turn:04d}", "type": "message", "role": "assistant", "model": "bench-model"}
    block: _Object = {"type": "text", "text": "done"}
    opened: _Object = {"type": "text", "text": ""}
    deltas: list[_Object] = [{"type": "text_delta", "text": "done"}]
    if arguments is not None:
        block = {"type": "tool_use", "id": f"toolu_{turn:04d}", "name": "lookup"}
        opened = {**block, "input": {}}
        block["input"] = json.loads(arguments)
        deltas = [
            {"type": "input_json_delta", "partial_json": piece} for piece in _pieces(arguments)
        ]
    end = {"stop_reason": reason, "stop_sequence": None}
    if not stream:
        return [_json({**base, "content": [block], **end, "usage": usage})]
    start: _Object = {
        **base,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    events: list[_Object] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": opened},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": usage},
        {"type": "message_stop"},
    ]
    return [b"event: %b\ndata: %b\n\n" % (str(e["type"]).encode(), _json(e)) for e in events]


_ENDPOINTS: dict[str, Callable[[int, str | None, int, bool], list[bytes]]] = {
    "chat/completions": chat,
    "messages": messages,
    "responses": responses,
}


@define
class Provider:
    """The sessions seen so far, by name."""

    sessions: dict[str, list[Seen]] = field(factory=dict)

    def take(self, name: str) -> bytes:
        """What a session saw, as JSON; it is forgotten."""
        rows: list[dict[str, int]] = []
        before = b""
        for seen in self.sessions.pop(name, []):
            rows.append(
                {
                    "complete": seen.complete,
                    "answered": seen.answered,
                    "size": len(seen.body),
                    "lost": len(before) - _common(before, seen.body),
                }
            )
            before = seen.body
        return _json(rows)


def _common(before: bytes, after: bytes) -> int:
    """The length of the longest common prefix."""
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before[:middle] == after[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class Connection(asyncio.Protocol):
    """One client's HTTP/1.1 connection; it understands what benchmark clients send."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._buffer = bytearray()
        self._head: tuple[str, int] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Answers go out at once, as a provider's do."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        link = transport.get_extra_info("socket")
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        """Collect a request; answer it when its body is whole."""
        self._buffer += data
        if self._head is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
            del self._buffer[: end + 4]
            lengths = [v for k, _, v in (x.partition(":") for x in lines) if k.lower() == _LENGTH]
            self._head = lines[0].split(" ")[1], int(lengths[0]) if lengths else 0
        path, length = self._head
        if len(self._buffer) < length:
            return
        body = bytes(self._buffer)
        complete = monotonic_ns()
        self._buffer.clear()
        self._head = None
        self._answer(path, body, complete)

    def _answer(self, path: str, body: bytes, complete: int) -> None:
        if path.startswith("/take/"):
            return self._whole(self._provider.take(path[6:]))
        match = _PATH.match(path.partition("?")[0])
        if match is None:
            return self._whole(b'{"error":{"message":"no such path"}}', "404 Not Found")
        name, turns, endpoint = match.groups()
        session = self._provider.sessions.setdefault(name, [])
        turn, stream = len(session), _STREAM.search(body) is not None
        seen = Seen(body, complete)
        session.append(seen)
        arguments = f'{{"key": "k{turn:04d}"}}' if turn < int(turns) else None
        parts = _ENDPOINTS[endpoint](turn, arguments, len(body) // 4, stream)
        if stream:
            self._stream(parts)
        else:
            self._whole(parts[0])
        seen.answered = monotonic_ns()
        return None

    def _whole(self, body: bytes, status: str = "200 OK") -> None:
        head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n"
        self._transport.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)

    def _stream(self, parts: list[bytes]) -> None:
        """One write an event, as a provider's answer comes."""
        self._transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        for part in parts:
            self._transport.write(b"%x\r\n%b\r\n" % (len(part), part))
        self._transport.write(b"0\r\n\r\n")


_LENGTH = "content-length"


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    provider = Provider()
    server = await loop.create_server(lambda: Connection(provider), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    # Ends with whoever started it: its standard input is their pipe.
    await loop.run_in_executor(None, sys.stdin.buffer.read)
    server.close()


if __name__ == "__main__":
    gc.disable()
    asyncio.run(_serve())
