"""Makes the pictures of docs/cache.md: `python docs/make_screens.py [FOLDER]`.

Tables are drawn by rich as SVG. Pictures of the page need Chromium (Debian: `apt install chromium`)
and are left as they are where there is none. The session that is shown is made here. With a FOLDER
they go there, and the page is taken at both widths, light and dark, to be looked at.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

IMAGES = Path(__file__).resolve().parent / "images"
NOON = 1_795_953_600_000
HEIGHTS = {390: 1_150, 1280: 800}
SHOWN = ((1280, "light"), (390, "dark"))
ALL = tuple((width, mode) for width in HEIGHTS for mode in ("light", "dark"))


def session(path: Path) -> Path:
    """A session of two hours with one of each: ledger, plugin, pause, compaction, riddle."""
    lines: list[dict[str, object]] = [
        {"type": "session", "version": 3, "id": "01993c5e", "cwd": "/home/ann/shop"}
    ]
    prompt, cached, now = 0, 0, NOON

    def add(kind: str, **fields: object) -> None:
        lines.append({"type": kind, "id": f"{len(lines):08x}", "parentId": None, **fields})

    def boundary(number: int, cause: str, owner: str = "host", detail: str = "") -> None:
        data: dict[str, object] = {"number": number, "cause": cause, "owner": owner}
        data |= {"avoidable": owner not in ("host", "user"), "tokensLost": prompt, "detail": detail}
        add("custom", customType="unipi.epoch", data=data)

    def turn(answers: int, new: int, hit: int | None = None) -> None:
        nonlocal prompt, cached, now
        add("message", message={"role": "user", "content": "…"})
        for _ in range(answers):
            now += 9_000
            prompt += new
            read = cached if hit is None else hit
            hit = None
            usage = {"input": 4, "output": 220, "cacheRead": read, "cacheWrite": prompt - read}
            message = {"role": "assistant", "content": [], "provider": "anthropic", "usage": usage}
            message |= {"api": "anthropic-messages", "model": "claude-sonnet-5"}
            add("message", message={**message, "stopReason": "stop", "timestamp": now})
            cached = prompt

    boundary(1, "first")
    prompt = 14_000
    turn(32, 1_450)
    boundary(2, "tools", "weather", "tools: get_forecast came")
    turn(26, 1_300, hit=0)
    now += 431_000
    turn(20, 1_200, hit=0)
    boundary(3, "compaction")
    prompt, cached = 12_000, 0
    turn(36, 1_700, hit=5_200)
    turn(18, 1_300, hit=0)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def unipi(folder: Path, *arguments: str) -> str:
    """What `unipi …` prints in `folder`."""
    done = subprocess.run(
        [sys.executable, "-m", "unipi", *arguments],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "UNIPI_HOME": str(folder / "home"), "COLUMNS": "96"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def terminal(path: Path, line: str, output: str) -> None:
    """Draw a command and what it printed."""
    from rich.console import Console
    from rich.text import Text

    name = path.stem
    console = Console(record=True, width=96, file=StringIO())
    console.print(Text(f"$ {line}", style="bold"))
    console.print(Text(output.rstrip("\n")))
    drawn = console.export_svg(title="unipi", unique_id=name)
    # Fonts are the reader's own: the picture fetches nothing.
    start, end = drawn.index("@font-face"), drawn.rindex("}", 0, drawn.index(f".{name}-matrix")) + 1
    drawn = drawn[:start] + drawn[end:].lstrip()
    text = "\n".join(row.rstrip() for row in drawn.splitlines())
    path.write_text(text + "\n", encoding="utf-8")


def page(folder: Path, html: Path, out: Path, pictures: tuple[tuple[int, str], ...]) -> None:
    """Take pictures of the page in widths (in pixels) and modes."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("no chromium: the pictures of the page stay as they are", file=sys.stderr)
        return
    for width, mode in pictures:
        subprocess.run(
            [
                *(chromium, "--headless=new", "--no-sandbox", "--disable-gpu"),
                *("--hide-scrollbars", f"--user-data-dir={folder / 'chromium'}"),
                f"--blink-settings=preferredColorScheme={int(mode == 'light')}",
                f"--window-size={width},{HEIGHTS[width]}",
                f"--screenshot={out / f'cache-page-{width}-{mode}.png'}",
                html.as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=60,
        )


def main(arguments: list[str]) -> None:
    out = Path(arguments[0]).resolve() if arguments else IMAGES
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        session(folder / "session.jsonl")
        line = "unipi cache report session.jsonl"
        terminal(out / "cache-report.svg", line, unipi(folder, *line.split()[1:]))
        unipi(folder, "cache", "report", "session.jsonl", "--html", "report.html")
        page(folder, folder / "report.html", out, ALL if arguments else SHOWN)


if __name__ == "__main__":
    main(sys.argv[1:])
