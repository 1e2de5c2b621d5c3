"""An environment as a user has it: the packages and what they need, and nothing of development.

A development environment also holds trio, which the HTTP client imports wherever it finds it, and
hypothesis, pytest and mypy beside it. What is measured is what people run.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_PLACE = _ROOT / "benchmarks" / ".venvs" / "user"
_MEMBERS = ("hookspecs", "host", "extensions/compactor", "extensions/diagnostics", "extensions/mcp")
_INSTALL_SECONDS = 300


def python() -> tuple[str, str]:
    """The interpreter to measure with, and a note that says which environment it is."""
    made = _PLACE / ("Scripts" if os.name == "nt" else "bin") / "python"
    stamp = _PLACE / "stamp"
    wanted = _digest()
    if made.exists() and stamp.exists() and stamp.read_text() == wanted:
        return str(made), "user environment"
    try:
        venv.create(_PLACE, with_pip=True, clear=True)
        members = [part for member in _MEMBERS for part in ("-e", str(_ROOT / member))]
        subprocess.run(
            [str(made), "-m", "pip", "install", "--quiet", *members],
            capture_output=True,
            timeout=_INSTALL_SECONDS,
            check=True,
        )
        subprocess.run([str(made), "-m", "compileall", "-q", str(_PLACE)], check=False)
    except (OSError, subprocess.SubprocessError) as problem:
        return sys.executable, f"this environment, trio and all ({type(problem).__name__})"
    stamp.write_text(wanted)
    return str(made), "user environment"


def _digest() -> str:
    files = [_ROOT / member / "pyproject.toml" for member in _MEMBERS]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
