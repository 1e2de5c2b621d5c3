"""`unipi cache watch`: a line for each answer, as the session's file grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
from attrs import define, field

from .audit import Auditor
from .audit_money import Sums
from .audit_records import Answer, Mark, iso
from .cli_text import money, pause, plain, share
from .readers import NotASessionError, decode, kind_of, make_reader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from unipi_hookspecs import CliHost

    from .audit import Judged
    from .audit_rates import PriceBook
    from .audit_records import Record
    from .readers import Reader

INTERVAL: Final = 0.4
"""Seconds between two looks at the file."""

_CHUNK: Final = 1 << 20
_LONGEST_LINE: Final = 64 << 20


@define
class Follower:
    """Reads what was appended to a session file since the last look.

    Only whole lines are read; the rest waits. A file that became shorter, or another one in its
    place, is read from its beginning.
    """

    path: Path
    prices: PriceBook
    ttl: float | None = None
    sums: Sums = field(factory=Sums)
    auditor: Auditor = field(init=False)
    _reader: Reader | None = None
    _identity: tuple[int, int] = (0, 0)
    _offset: int = 0
    _rest: bytes = b""

    def __attrs_post_init__(self) -> None:
        self.auditor = Auditor(self.ttl)

    def look(self) -> list[Judged | Mark]:
        """The answers, and the boundaries that the host recorded, since the last look.

        Raises OSError when the file cannot be read.
        """
        found: list[Judged | Mark] = []
        with self.path.open("rb") as file:
            import os

            state = os.fstat(file.fileno())
            identity = (state.st_dev, state.st_ino)
            if identity != self._identity or state.st_size < self._offset:
                self._begin(identity)
            file.seek(self._offset)
            while chunk := file.read(_CHUNK):
                self._offset += len(chunk)
                found.extend(self._chunk(chunk))
        return found

    def _begin(self, identity: tuple[int, int]) -> None:
        self._identity, self._offset, self._rest, self._reader = identity, 0, b"", None
        self.auditor, self.sums = Auditor(self.ttl), Sums()

    def _chunk(self, chunk: bytes) -> Iterator[Judged | Mark]:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            self._rest = b""  # no session has such a line; it is not kept in memory
        for line in lines:
            fields = decode(line)
            if fields is None:
                continue
            if self._reader is None and (kind := kind_of(fields)):
                self._reader = make_reader(kind)
            if self._reader is not None:
                for record in self._reader.take(fields):
                    yield from self._record(record)

    def _record(self, record: Record) -> Iterator[Judged | Mark]:
        judged = self.auditor.take(record)
        if isinstance(record, Answer):
            self.prices.learn(record)
            self.sums.answer(record, self.prices.cost(record))
        if isinstance(record, Mark) and record.recorded:
            yield record
        if judged is not None:
            if judged.missed:
                self.sums.miss(judged, self.prices.loss(judged))
            yield judged

    @property
    def known(self) -> bool:
        """Whether the file has shown what it is."""
        return self._reader is not None


def watch(
    host: CliHost, path: Path, prices: PriceBook, ttl: float | None, seconds: float | None
) -> None:
    """Follow a session until Ctrl-C, or for so many seconds; then say what it came to."""
    import anyio

    follower = Follower(path, prices, ttl)
    try:
        follower.look()
        if not follower.known and path.stat().st_size:
            raise NotASessionError(f"{path} is not a session of UniPi, Pi, Claude Code or Codex")
        click.echo(f"watching {plain(path.name)}: {total(follower)}; Ctrl-C ends it")
        anyio.run(_follow, follower, seconds)
    except NotASessionError as error:
        host.fail(plain(str(error), 1_000), 2)
    except OSError as error:
        host.fail(f"{plain(str(path), 1_000)}: {error.strerror or 'cannot be read'}")
    except KeyboardInterrupt:
        click.echo("")  # the terminal has written ^C
    click.echo(total(follower))


async def _follow(follower: Follower, seconds: float | None) -> None:
    import anyio

    with anyio.move_on_after(seconds):
        while True:
            await anyio.sleep(INTERVAL)
            for found in follower.look():
                click.echo(told(found, follower.prices))


def told(found: Judged | Mark, prices: PriceBook) -> str:
    """A line about an answer or a boundary."""
    if isinstance(found, Mark):
        kind = "an avoidable boundary" if found.avoidable else "a boundary"
        detail = f" ({plain(found.detail)})" if found.detail else ""
        return f"  {kind}: {plain(found.cause)}, by {plain(found.owner)}{detail}"
    answer = found.answer
    clock = iso(answer.time)[11:19]
    if answer.read is None or not answer.reported:
        read = "cache not reported"
    else:
        read = f"{share(answer.read, answer.prompt)} read"
    line = f"{clock} #{found.index} {plain(answer.model)}: {answer.prompt:,} prompt tokens, {read}"
    if found.missed:
        line += (
            f"; MISSED {found.lost:,} tokens, {money(prices.loss(found))}: {plain(found.cause)}"
            f" after {pause(found.seconds)}"
        )
    return line


def total(follower: Follower) -> str:
    """What the session came to so far, in one line."""
    sums = follower.sums
    return (
        f"{sums.requests:,} requests, {share(sums.read, sums.told)} of prompt tokens read, "
        f"{sums.misses:,} misses, {money(sums.loss)} lost of {money(sums.cost)}"
    )
