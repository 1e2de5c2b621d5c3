"""An MCP server of a few lines (protocol 2025-11-25, over pipes), that does what it is told on its command line.

`scripted.py '{"tools": [...], "fault": ..., "delay": ...}'`: see the keys below. It needs nothing but Python's standard
library, so that it starts in the time of an interpreter.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

ABOUT = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
FAULT = ABOUT.get("fault", "")
LOCK = threading.Lock()
CANCELLED = set()


def say(message):
    with LOCK:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def note(text):
    """Leave a line in the file that the test named, with what was seen."""
    if "notes" in ABOUT:
        with Path(ABOUT["notes"]).open("a") as file:
            file.write(text + "\n")


def tool(name, description="A tool.", schema=None, **more):
    shape = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"name": name, "description": description, "inputSchema": schema or shape, **more}


def tools():
    if "many" in ABOUT:
        return [
            tool(f"tool_{n}", f"Does thing {n} of {ABOUT['many']}. " * 4)
            for n in range(ABOUT["many"])
        ]
    made = [tool(t) if isinstance(t, str) else tool(**t) for t in ABOUT.get("tools", ["echo"])]
    if FAULT == "volatile":
        made[0]["description"] = f"Knows {time.time_ns()} nodes."
    return made


def answer(request):
    method, params = request["method"], request.get("params", {})
    if method == "initialize":
        if FAULT == "hang":
            note("hanging")
            time.sleep(3_600)
        time.sleep(ABOUT.get("delay", 0))
        say(
            {
                "id": request["id"],
                "result": {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": "scripted", "version": "1"},
                    **({"instructions": ABOUT["instructions"]} if "instructions" in ABOUT else {}),
                },
            }
        )
    elif method == "tools/list":
        page = ABOUT.get("page", 0)
        every = tools()
        at = int(params.get("cursor") or 0)
        result = {"tools": every[at : at + page] if page else every}
        if page and at + page < len(every):
            result["nextCursor"] = str(at + page)
        say({"id": request["id"], "result": result})
    elif method == "tools/call":
        threading.Thread(target=call, args=(request,), daemon=True).start()
    elif method == "notifications/cancelled":
        CANCELLED.add(params.get("requestId"))
        note("cancelled")
    elif "id" in request:
        say({"id": request["id"], "error": {"code": -32601, "message": f"no {method}"}})


def call(request):
    params = request["params"]
    name, given = params["name"], params.get("arguments", {})
    note(f"call {name}")
    if name == "crash" or (name == "crash_once" and not Path(ABOUT["mark"]).exists()):
        if name == "crash_once":
            Path(ABOUT["mark"]).touch()
        sys.stderr.write("the sky fell\n")
        sys.stderr.flush()
        os._exit(3)
    if name == "slow":
        for step in range(1_000):
            token = params.get("_meta", {}).get("progressToken")
            if token is not None and step < 3:
                progress = {
                    "progressToken": token,
                    "progress": step + 1,
                    "total": 3,
                    "message": "on it",
                }
                say({"method": "notifications/progress", "params": progress})
            if step >= given.get("steps", 1_000):
                break
            time.sleep(0.01)
    if name == "garbage":
        sys.stdout.write("this is no JSON\n")
    say({"id": request["id"], "result": result_of(name, given)})


def result_of(name, given):
    if name == "kinds":
        return KINDS
    if name == "fails":
        return {"content": [{"type": "text", "text": "it went wrong"}], "isError": True}
    text = f"{name}: {given.get('text', '') or json.dumps(given, sort_keys=True)}"
    if name == "big":
        text = "x" * given.get("size", 100)
    if name == "pid":
        seen = [os.environ.get(key, "-") for key in ("SECRET", "ANTHROPIC_API_KEY")]
        text = " ".join([str(os.getpid()), *seen])
    return {"content": [{"type": "text", "text": text}]}


KINDS = {
    "content": [
        {"type": "text", "text": "words"},
        {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
        {"type": "image", "data": "aGVsbG8=", "mimeType": "image/tiff"},
        {"type": "audio", "data": "aGVsbG8=", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a.txt", "name": "a.txt", "description": "A file"},
        {"type": "resource", "resource": {"uri": "file:///b.txt", "text": "inside b"}},
        {
            "type": "resource",
            "resource": {"uri": "file:///c", "blob": "aGVsbG8=", "mimeType": "x/y"},
        },
    ],
    "structuredContent": {"n": 1},
}

if FAULT == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if FAULT == "dies":
    sys.stderr.write("cannot open the database\n")
    sys.exit(1)
if FAULT == "noise":
    print("Welcome to the server!", flush=True)
note(f"pid {os.getpid()}")
while True:
    line = sys.stdin.readline()
    if not line:
        while FAULT == "stubborn":
            time.sleep(1)
        break
    answer(json.loads(line))
