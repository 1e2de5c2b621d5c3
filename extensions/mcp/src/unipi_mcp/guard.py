"""The command line by which a server ends with the host, however the host ends.

A host that is killed cannot close anything. A server that reads its input sees that it is over; one
that does not would live on. On Linux the kernel is asked to end it when the process that started it
is gone (prctl(2), PR_SET_PDEATHSIG); the request survives the `exec` into the server itself.
"""

from __future__ import annotations

import os
import sys
from typing import Final

_GUARDED: Final = (
    "import ctypes, os, sys\n"
    "ctypes.CDLL(None).prctl(1, 9)\n"
    "if os.getppid() != int(sys.argv[1]): os._exit(1)\n"
    "try: os.execvp(sys.argv[2], sys.argv[2:])\n"
    "except OSError as e: sys.exit(f'{sys.argv[2]}: {e.strerror}')\n"
)


def guarded(command: str, args: tuple[str, ...]) -> tuple[str, list[str]]:
    """The command and arguments to start instead of these."""
    if sys.platform != "linux" or not sys.executable:
        return command, list(args)
    return sys.executable, ["-I", "-S", "-c", _GUARDED, str(os.getpid()), command, *args]
