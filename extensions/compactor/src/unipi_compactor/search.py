"""Asking the index: which entries match, and in which order.

Ranking, in this order of steps:

1. Entries that hold every word of the query come first; if they are few, entries with some of the
   words follow. A word that more than 1,500 pieces hold counts in step 2 alone. If there are only such
   words, those of this session and those that were indexed last (200,000 pieces) are looked at.
2. Within both, BM25 as SQLite has it (k1 1.2, b 0.75), where a word in the title (tool, path,
   command) counts twice. The best 120 pieces are weighed again: times 0.5 to 1.5 by the share of the
   words that they hold, a rare word counting more; 1.25 for the user's words, 1.1 for answers and
   summaries; 1.15 for this session; 1.3 for the query word for word; and 0.8 for each better hit
   about the same file or command, so that ten readings of one file do not fill a page.
3. An entry counts once, with its best piece, and so does the same piece in a fork of the session.
   Equals stand with the newest first, then by id.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from .tokens import expression, parts, stem, terms

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from .store import Store

MOST: Final = 600
"""Pieces that are looked at; a total that reaches it is told as "at least"."""
_WEIGHED: Final = 120
_COMMON: Final = 1_500
_NEWEST: Final = 200_000
_LAST: Final = 2**62
_LEAST: Final = 1e-9
_FEW: Final = 60
_WEIGHTS: Final = {"user": 1.25, "assistant": 1.1, "summary": 1.1}
_OWN: Final = 1.15
_PHRASE: Final = 1.3
_AGAIN: Final = 0.8


@frozen
class Scope:
    """Where to search: this session, and with `project` the others of its folder and `cwd` too.

    `source` is the session's own row of the index (another file of the same id is an older copy of
    it). `live` are the entries that the model has before it anyway.
    """

    session: str
    source: str
    cwd: str
    live: Container[str] = frozenset()
    project: bool = True


@frozen
class Hit:
    """A piece of an entry; `file` and `id` are rows of the index."""

    id: int
    file: int
    entry: str
    kind: str
    stamp: str
    title: str
    text: str
    own: bool


@frozen
class Found:
    """All hits of a query in their order, by row; `more` says that there are others beyond these."""

    rows: tuple[int, ...]
    more: bool = False


def search(store: Store, query: str, scope: Scope) -> Found:
    """The rows that match, best first. An empty query, or one of signs alone, finds nothing."""
    words = terms(query)
    if not words:
        return Found(())
    found = [_group(store, word) for word in words]
    weights = _telling(store, words, [count for _, count in found])
    rare = _rarest(found)
    groups = [group for group, count in found if count]
    if not groups:
        return Found(())
    some: dict[int, float] = {}
    if rare:
        every = _ranked(store, " AND ".join(rare), scope)
        if len(every) < _FEW and len(rare) > 1:
            some = _ranked(store, " OR ".join(rare), scope)
    else:
        every = _newest(store, " AND ".join(groups), scope, _NEWEST)
        if len(every) < _FEW:
            some = _of_session(store, " OR ".join(groups), scope)
            some |= _newest(store, " OR ".join(groups), scope, _NEWEST // 10)
    some = {row: score for row, score in some.items() if row not in every}
    more = len(every) >= MOST or len(some) >= MOST
    known = _entries(store, [*every, *some])
    ranked: list[int] = []
    for rows in (every, some):
        wanted = {row: score for row, score in rows.items() if known[row][0] not in scope.live}
        ranked += _weighed(store, wanted, weights, query, scope, _WEIGHED if rare else MOST * 2)
    return Found(tuple(_once(ranked, known)), more=more)


def _group(store: Store, word: str) -> tuple[str, int]:
    """What to match for a word, and how many pieces do; `_COMMON` for many, or for what is slow.

    A name that nobody wrote so is looked for by its parts.
    """
    whole = expression(word)
    count = _count(store, whole)
    names = parts(word)
    if count or not names:
        return whole, count
    several = f"({' AND '.join(names)})"
    if any(_count(store, part) >= _COMMON for part in names):
        return several, _COMMON
    return several, _count(store, several)


def _rarest(groups: Sequence[tuple[str, int]]) -> list[str]:
    """The words that tell most, as many as can be ranked in a few milliseconds.

    SQLite reads all places of each word for its BM25, so that one common word would cost more than
    all rare ones together. A word that nothing holds tells nothing.
    """
    chosen: list[str] = []
    room = _COMMON
    for count, group in sorted((count, group) for group, count in groups if count):
        room -= count
        if room < 0 or count >= _COMMON:
            break
        chosen.append(group)
    return chosen


_WHERE: Final = (
    "(file.path = :source OR (:project AND file.cwd IN (:cwd, '') AND file.session <> :session))"
)


def _values(scope: Scope, **more: object) -> dict[str, object]:
    place = {"source": scope.source, "session": scope.session, "cwd": scope.cwd}
    return {**place, "project": scope.project, **more}


_SELECT: Final = (
    "SELECT words.rowid{score} FROM words JOIN chunk ON chunk.id = words.rowid JOIN file "  # noqa: S608 - a text of ours
    f"ON file.id = chunk.file WHERE words MATCH :match AND {_WHERE} "
)


def _ranked(store: Store, match: str, scope: Scope) -> dict[int, float]:
    """The rows that match and their BM25, best first."""
    select = _SELECT.format(score=", -words.rank")
    rows = store.db.execute(
        f"{select} ORDER BY words.rank LIMIT :most", _values(scope, match=match, most=MOST)
    )
    return {row: max(score, _LEAST) for row, score in rows}


def _newest(store: Store, match: str, scope: Scope, within: int) -> dict[int, float]:
    """The rows that match among the pieces that were indexed last, all alike."""
    (last,) = store.db.execute("SELECT max(id) FROM chunk").fetchone()
    return _between(store, match, scope, (int(last or 0) - within, _LAST))


def _of_session(store: Store, match: str, scope: Scope) -> dict[int, float]:
    """The same among the session's own."""
    first, last = store.db.execute(
        "SELECT min(chunk.id), max(chunk.id) FROM chunk JOIN file ON file.id = chunk.file "
        "WHERE file.path = ?",
        (scope.source,),
    ).fetchone()
    return {} if first is None else _between(store, match, scope, (first, last))


def _between(store: Store, match: str, scope: Scope, rows: tuple[int, int]) -> dict[int, float]:
    found = store.db.execute(
        f"{_SELECT.format(score='')} AND words.rowid BETWEEN :first AND :last "
        "ORDER BY words.rowid DESC LIMIT :most",
        _values(scope, match=match, most=MOST, first=rows[0], last=rows[1]),
    )
    return {row: 1.0 for (row,) in found}


def _count(store: Store, group: str) -> int:
    """How many pieces hold a word, counted as far as it matters."""
    query = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
    (count,) = store.db.execute(query, (group, _COMMON)).fetchone()
    return int(count)


def _hit(row: Sequence[Any], session: str) -> Hit:
    number, file, entry, kind, stamp, title, text, of = row
    return Hit(number, file, entry, kind, stamp, title, text, of == session)


def load(store: Store, rows: Sequence[int], session: str) -> list[Hit]:
    """The pieces behind rows, in the same order; those that are gone meanwhile are left out."""
    marks = ",".join("?" * len(rows))
    found = store.db.execute(
        "SELECT chunk.id, file, entry, kind, stamp, title, text, session FROM chunk JOIN body USING (id) "  # noqa: S608
        f"JOIN file ON file.id = chunk.file WHERE chunk.id IN ({marks})",  # question marks alone
        list(rows),
    )
    by_row = {row[0]: _hit(row, session) for row in found}
    return [by_row[row] for row in rows if row in by_row]


def _weighed(
    store: Store,
    rows: Mapping[int, float],
    weights: Mapping[str, float],
    query: str,
    scope: Scope,
    most: int,
) -> list[int]:
    """Rows, the `most` best of them weighed again by what their texts really hold."""
    hits: list[tuple[float, Hit]] = []
    whole = sum(weights.values())
    phrase = query.strip().lower()
    listed = list(rows)
    for hit in load(store, listed[:most], scope.session):
        text = f"{hit.title}\n{hit.text}".lower()
        share = sum(weight for word, weight in weights.items() if word in text) / whole
        score = rows[hit.id] * (0.5 + share) * _WEIGHTS.get(hit.kind, 1.0)
        if hit.own:
            score *= _OWN
        if len(weights) > 1 and phrase in text:
            score *= _PHRASE
        hits.append((score, hit))
    return [*(hit.id for hit in _varied(hits)), *listed[most:]]


def _varied(hits: list[tuple[float, Hit]]) -> list[Hit]:
    """Best first, equals newest first; each further hit about the same thing counts less."""
    had: dict[str, int] = {}
    varied: list[tuple[float, Hit]] = []
    for score, hit in _sorted(hits):
        about = hit.title.partition(" ")[2]
        before = had.get(about, 0) if about else 0
        had[about] = before + 1
        varied.append((score * _AGAIN**before, hit))
    return [hit for _, hit in _sorted(varied)]


def _sorted(hits: list[tuple[float, Hit]]) -> list[tuple[float, Hit]]:
    newest_first = sorted(hits, key=lambda pair: (pair[1].stamp, pair[1].entry), reverse=True)
    return sorted(newest_first, key=lambda pair: -pair[0])


def _telling(store: Store, words: Sequence[str], counts: Sequence[int]) -> dict[str, float]:
    """How much each word tells: the rarer, the more (the logarithm of pieces a hit)."""
    (pieces,) = store.db.execute("SELECT max(id) FROM chunk").fetchone()
    known = max(int(pieces or 1), _COMMON if max(counts) >= _COMMON else 1)
    return {
        stem(word.lower()): math.log(1 + known / (1 + count))
        for word, count in zip(words, counts, strict=True)
    }


def _entries(store: Store, rows: Sequence[int]) -> dict[int, tuple[str, int]]:
    """The entry of each row, and the digest of its text."""
    marks = ",".join("?" * len(rows))
    found = store.db.execute(
        f"SELECT id, entry, digest FROM chunk WHERE id IN ({marks})",  # noqa: S608 - question marks alone
        list(rows),
    )
    return {row: (entry, digest) for row, entry, digest in found}


def _once(ranked: Sequence[int], known: Mapping[int, tuple[str, int]]) -> list[int]:
    """Each entry once, and each text."""
    had: set[str | int] = set()
    kept: list[int] = []
    for row in ranked:
        entry, digest = known[row]
        if entry not in had and digest not in had:
            kept.append(row)
        had |= {entry, digest}
    return kept


def whole(store: Store, file: int, entry: str) -> str:
    """All that is indexed of one entry."""
    rows = store.db.execute(
        "SELECT text FROM chunk JOIN body USING (id) WHERE file=? AND entry=? ORDER BY part",
        (file, entry),
    )
    return "".join(text for (text,) in rows)


def find_entry(store: Store, entry: str, scope: Scope) -> Hit | None:
    """The entry of this id, of this session first; None when no session of the scope has it."""
    rows = store.db.execute(
        "SELECT chunk.id FROM chunk JOIN file ON file.id = chunk.file WHERE entry = :entry "  # noqa: S608 - a text of ours
        f"AND part = 0 AND {_WHERE} ORDER BY file.path <> :source, path LIMIT 1",
        _values(scope, entry=entry),
    ).fetchall()
    hits = load(store, [row for (row,) in rows], scope.session)
    return hits[0] if hits else None


def following(store: Store, hit: Hit) -> Hit | None:
    """The entry that stands behind a hit's in its file: the result of a call, the answer to a request."""
    row = store.db.execute(
        "SELECT id FROM chunk WHERE id > ? AND file = ? AND entry <> ? ORDER BY id LIMIT 1",
        (hit.id, hit.file, hit.entry),
    ).fetchone()
    return load(store, row, "")[0] if row else None
