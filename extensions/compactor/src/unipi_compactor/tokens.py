"""Words for the index: what SQLite's tokenizer does not split, split here, for texts and queries.

SQLite's `unicode61` takes a camelCase name and a run of Chinese for one word each. So the parts of a
name are indexed beside it, and a run of a script that is written without blanks as pairs of characters.
"""

from __future__ import annotations

import re
from typing import Final

TOKENIZER: Final = "porter unicode61 remove_diacritics 2 tokenchars '_'"
"""English endings do not count, accents neither; an underscore belongs to a word."""

# Han, Kana, Hangul, Thai, Lao, Khmer, Myanmar.
_RUN: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_NAME: Final = re.compile(
    r"[A-Za-z0-9]*[a-z0-9][A-Z][A-Za-z0-9_]*|[A-Za-z0-9]+_\w+|_+[A-Za-z0-9]\w*"
)
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_WORD: Final = re.compile(r"\w+")
_JOINED: Final = re.compile(r"\w+(?:[-./:@#]+\w+)*")
_STOP: Final = frozenset(
    [
        "a",
        "about",
        "all",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "been",
        "but",
        "by",
        "can",
        "could",
        "did",
        "do",
        "does",
        "done",
        "exactly",
        "for",
        "from",
        "get",
        "had",
        "has",
        "have",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "many",
        "me",
        "much",
        "my",
        "of",
        "on",
        "or",
        "our",
        "should",
        "so",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "us",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
    ]
)
_MOST_WORDS: Final = 16
_STEM: Final = 4


def extras(text: str) -> str:
    """The words to index beside a text's own, in its order."""
    found: list[str] = []
    for name in dict.fromkeys(_NAME.findall(text)):
        found += _PART.findall(name)
    if not text.isascii():
        for run in _RUN.findall(text):
            found += pairs(run)
            found.append("|")  # no phrase reaches over the end of a run
    return " ".join(found)


def pairs(run: str) -> list[str]:
    """A run of characters as overlapping pairs; a single one stays alone."""
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


def terms(query: str) -> list[str]:
    """The words of a query, once each; the small words of English only when there are no others.

    Words that are joined by signs, as those of a file's name, are one: they are looked for as they stand.
    """
    words: list[str] = []
    for word in _JOINED.findall(query):
        if not _WORD.fullmatch(word):
            words.append(word)
            continue
        at = 0
        for run in _RUN.finditer(word):
            words += [word[at : run.start()], run[0]]
            at = run.end()
        words.append(word[at:])
    every = list(dict.fromkeys(word for word in words if word.strip("_")))
    telling = [word for word in every if word.lower() not in _STOP]
    return (telling or every)[:_MOST_WORDS]


def stem(word: str) -> str:
    """A word in small letters without its commonest English endings, to look for it in a text."""
    for ending in ("ing", "ies", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= _STEM:
            return word[: -len(ending)]
    return word


def expression(term: str) -> str:
    """A term in FTS5's query language, quoted, so that nothing of a query is syntax."""
    if _RUN.fullmatch(term):
        if len(term) == 1:
            return f'("{term}" OR "{term}"*)'
        return '"' + " ".join(pairs(term)) + '"'
    return f'"{term}"'


def parts(term: str) -> list[str]:
    """The same for the words that a name is made of; empty for one that is a single word."""
    found = _PART.findall(term) if _NAME.fullmatch(term) else []
    if not found and not _WORD.fullmatch(term):
        found = [word for word in _WORD.findall(term) if word.lower() not in _STOP]
    return [f'"{part}"' for part in found] if len(found) > 1 else []
