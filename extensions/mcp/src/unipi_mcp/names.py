"""Names of tools, as every provider takes them: `mcp__server__tool`.

Providers accept 1 to 64 characters of `A-Za-z0-9_-` and refuse a whole request for one bad name. A
name is a function of its server and its tool alone, so that neither the order in which servers
answer nor another server's arrival renames anything.
"""

from __future__ import annotations

import re
from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

LIMIT: Final = 64
_PREFIX: Final = "mcp__"
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]+")
_ROOM: Final = LIMIT - len(_PREFIX) - len("__") - len("_12345678")
_LEAST_SERVER: Final = 16


def final_names(
    tools: Iterable[tuple[str, str]], taken: Collection[str] = ()
) -> dict[tuple[str, str], str]:
    """The final name of each `(server, tool)`; those left out have none that is free.

    `taken` are names of other tools of the session. A name that is taken, or that two tools would
    have, gives way to its marked form, which ends in a digest of server and tool. Left out are a
    tool or a server without a name and, of two that are alike in their marked form too, both.
    """
    pairs = sorted({pair for pair in tools if all(pair)}, key=lambda pair: pair[0] + "\0" + pair[1])
    plain = {pair: _plain(*pair) for pair in pairs}
    wanted = Counter(name or _marked(*pair) for pair, name in plain.items())
    found = {
        pair: name if name and wanted[name] == 1 and name not in taken else _marked(*pair)
        for pair, name in plain.items()
    }
    counts = Counter(found.values())
    return {pair: name for pair, name in found.items() if counts[name] == 1 and name not in taken}


def _plain(server: str, tool: str) -> str:
    """The name as it stands, or "" where it is too long, has other characters or is ambiguous.

    Behind the prefix the first `__` ends the server, as long as no server holds one or ends in `_`:
    `a__b` with `c` must not read as `a` with `b__c` does.
    """
    name = f"{_PREFIX}{server}__{tool}"
    ambiguous = "__" in server or server.endswith("_")
    return "" if ambiguous or len(name) > LIMIT or _FOREIGN.search(name) else name


def _marked(server: str, tool: str) -> str:
    """A readable stem and eight digits of a digest over server and tool."""
    left, right = _readable(server), _readable(tool)
    left = left[: max(_LEAST_SERVER, _ROOM - len(right))].rstrip("_")
    right = right[: _ROOM - len(left)].rstrip("_")
    source = f"{len(server)}:{server}{tool}".encode("utf-8", "surrogatepass")
    mark = sha256(source).hexdigest()[:8]
    return f"{_PREFIX}{left}__{right}_{mark}" if right else f"{_PREFIX}{left}__{mark}"


def _readable(text: str) -> str:
    return _FOREIGN.sub("_", text).strip("_")
