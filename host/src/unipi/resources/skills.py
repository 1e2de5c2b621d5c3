"""Skills: folders with a `SKILL.md` whose name and description the model sees, and whose text it
reads when it needs it (agentskills.io; Claude Code's docs).
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

from attrs import field, frozen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FOLDERS: Final = (".unipi/skills", ".agents/skills", ".claude/skills")
"""Where a project keeps its skills, the first of a name counts."""

MOST: Final = 100
DESCRIPTION_LIMIT: Final = 400
"""Skills, and characters of a description, that enter the prompt."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_FRONT: Final = re.compile(r"---\n(.*?)\n---\n?", re.DOTALL)
_HEAD_BYTES: Final = 16 * 1024
_BODY_LIMIT: Final = 256 * 1024


@frozen
class Skill:
    """A skill: its name, what it is for, and the file with its text."""

    name: str
    description: str
    path: Path


@frozen
class Skills:
    """Those that were found, in UTF-16 order of their names, and what is wrong with others."""

    found: Sequence[Skill] = ()
    problems: Sequence[str] = field(default=(), repr=False)

    @property
    def listing(self) -> str:
        """What the prompt says of them; empty when there are none."""
        if not self.found:
            return ""
        lines = ["# Skills", "", "Read a skill's file before you do what it is for."]
        lines += [f"- {each.name}: {each.description} ({each.path})" for each in self.found]
        return "\n".join(lines)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.listing.encode("utf-8", "surrogatepass")).hexdigest()


def find_skills(cwd: Path, user_folder: Path) -> Skills:
    """The skills of a project and of its user; the project's goes before one of the same name."""
    found: dict[str, Skill] = {}
    problems: list[str] = []
    for folder in (*(cwd / name for name in FOLDERS), user_folder / "skills"):
        for path in sorted(folder.glob("*/SKILL.md")):
            try:
                skill = _read(path)
            except (OSError, ValueError) as error:
                problems.append(f"{path}: {error}; the skill is left out")
                continue
            found.setdefault(skill.name, skill)
    ordered = sorted(found.values(), key=lambda each: each.name.encode("utf-16-be"))
    if len(ordered) > MOST:
        problems.append(f"{len(ordered)} skills are too many; the first {MOST} by name are listed")
    return Skills(tuple(ordered[:MOST]), tuple(problems))


def skill_text(skill: Skill) -> str:
    """The text of a skill, without what stands at its front. Raises OSError."""
    with skill.path.open("rb") as stream:
        text = stream.read(_BODY_LIMIT).decode("utf-8", "replace").replace("\r\n", "\n")
    return _FRONT.sub("", text, count=1).strip()


def _read(path: Path) -> Skill:
    with path.open("rb") as stream:
        head = stream.read(_HEAD_BYTES).decode("utf-8", "replace").replace("\r\n", "\n")
    match = _FRONT.match(head)
    if match is None:
        raise ValueError("it does not begin with --- and a name and a description")
    stated = _stated(match[1])
    name, description = stated.get("name") or path.parent.name, stated.get("description")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError("its name must be small letters, digits and hyphens, at most 64")
    if not isinstance(description, str) or not description.strip():
        raise ValueError("it has no description")
    return Skill(name, " ".join(description.split())[:DESCRIPTION_LIMIT], path)


def _stated(front: str) -> Mapping[str, object]:
    import yaml

    try:
        value = yaml.safe_load(front)
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f" in line {where.line + 2}" if where is not None else ""
        raise ValueError(f"its front is no YAML{line}") from None
    if not isinstance(value, dict):
        raise ValueError("its front is no list of names and values")  # noqa: TRY004 - of a file
    return value
