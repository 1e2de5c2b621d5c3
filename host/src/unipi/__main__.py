"""The command `unipi`, started as cheaply as possible.

`unipi --version` answers before anything else is imported: it is what shells, editors and health
checks ask for, and the bar is three times the time of a bare interpreter.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from unipi import __version__

        sys.stdout.write(f"unipi {__version__}\n")
        return
    from unipi.cli.main import cli

    try:
        cli(prog_name="unipi")
    except Exception:  # noqa: BLE001 - a crash is told as Python tells it, but without a key
        import traceback

        from unipi.redaction import scrub

        sys.stderr.write(scrub(traceback.format_exc()))
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
