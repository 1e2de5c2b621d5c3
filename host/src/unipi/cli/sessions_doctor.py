"""`unipi sessions doctor`: what is wrong with a session file, and a copy without it."""

from __future__ import annotations

from pathlib import Path

import click

from ._output import fail, print_json, print_table


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--mend",
    "out",
    type=click.Path(path_type=Path),
    metavar="OUT",
    help="Write a mended copy to this new file; FILE itself is never changed.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def doctor(*, file: Path, out: Path | None, as_json: bool) -> None:
    """Look through a session FILE (or session id) of ours, of Pi or of Claude Code.

    Found is what a provider would refuse for ever, what would be lost on the way, and what two
    programs that wrote at once have left.

    Exit codes: 0 nothing was found, 1 something was, 2 the file cannot be read or written.
    """
    from unipi.doctor.session_file import NoSession, examine, write_copy
    from unipi.session import SessionError, find_session

    try:
        path = file if file.exists() else find_session(str(file), Path.cwd())
        examined = examine(path)
        if out is not None:
            write_copy(examined, out)
    except FileExistsError:
        fail(f"{out} is there already; name a new file", 2)
    except (NoSession, SessionError) as error:
        fail(str(error), 2)
    except OSError as error:
        fail(f"{error.filename or file}: {error.strerror or error}", 2)
    findings = examined.findings
    if as_json:
        print_json(
            {
                "file": str(path),
                "format": examined.form.name,
                "findings": [
                    {
                        "line": each.line,
                        "entry": each.entry_id or None,
                        "kind": each.kind,
                        "what": each.what,
                        "cure": each.cure,
                    }
                    for each in findings
                ],
                "mended": str(out) if out is not None else None,
            }
        )
    elif findings:
        rows = [(f"{each.line:,}", each.kind, each.what, each.cure) for each in findings]
        print_table(str(path), ("line", "found", "what", "in a mended copy"), rows)
        hint = f"mended in {out}" if out else "--mend OUT writes a copy without them"
        click.echo(f"{len(findings):,} found; {hint}")
    else:
        click.echo(f"{path}: nothing was found" + (f"; copied to {out}" if out else ""))
    raise SystemExit(1 if findings else 0)
