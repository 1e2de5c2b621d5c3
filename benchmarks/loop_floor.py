"""The least a tool loop can do: standard library, a raw socket, a body that only grows.

asyncio is loaded and not used: the peer bench from which the bounds come measured a process that
had it loaded (0.07 s to the first request, 22 MB); bare, this one takes half of both.

It sends model, tools and messages of Chat Completions, adds what came back and what the tool said,
and sends again. No streaming, no log, no checks. Arguments: host, port, path.
The checkout must be on `PYTHONPATH`.
"""

import asyncio  # noqa: F401 - see above
import json
import socket
import sys

from benchmarks import loop_tools


def _encode(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _tools() -> list[object]:
    return [
        {
            "type": "function",
            "function": {"name": name, "description": about, "parameters": schema},
        }
        for name, about, schema in loop_tools.schemas()
    ]


def main(host: str, port: int, path: str) -> str:
    """Run the loop until an answer calls no tool; returns its text."""
    link = socket.create_connection((host, port))
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    answers = link.makefile("rb")
    body = bytearray(b'{"model":"bench-model","tools":' + _encode(_tools()) + b',"messages":[')
    body += _encode({"role": "system", "content": loop_tools.SYSTEM})
    body += b"," + _encode({"role": "user", "content": loop_tools.PROMPT})
    while True:
        link.sendall(
            f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body) + 2}\r\n\r\n".encode()
        )
        link.sendall(body)
        link.sendall(b"]}")
        length = 0
        while (header := answers.readline()) != b"\r\n":
            if header.lower().startswith(b"content-length:"):
                length = int(header[15:])
        message = json.loads(answers.read(length))["choices"][0]["message"]
        if not message.get("tool_calls"):
            return str(message["content"])
        body += b"," + _encode(message)
        for call in message["tool_calls"]:
            said = loop_tools.lookup(**json.loads(call["function"]["arguments"]))
            body += b"," + _encode({"role": "tool", "tool_call_id": call["id"], "content": said})


if __name__ == "__main__":
    assert main(sys.argv[1], int(sys.argv[2]), sys.argv[3]) == "done"
