"""Plugins that are files: given by `-e`, in the project, or in the user's folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .candidates import Candidate, Origin, PathTarget, stem
from .order import utf16_key
from .values import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .values import LoadOptions

PROJECT_PLUGINS = Path(".unipi", "plugins")
USER_PLUGINS = Path("plugins")


def by_path(paths: Sequence[Path]) -> list[Candidate]:
    """The plugins given by hand, each file once however often and by whatever name it is given."""
    found: dict[Path, Candidate] = {}
    for given in paths:
        absolute = given.expanduser().absolute()
        candidate = _check(_candidate(absolute, absolute.resolve(), "-e"))
        found.setdefault(absolute.resolve(), candidate)
    return list(found.values())


def in_project(options: LoadOptions) -> tuple[list[Candidate], list[Problem]]:
    """The plugins in the project's folder; unless it is trusted, only what is there."""
    project = options.project_dir
    if project is None:
        return [], []
    root = project.resolve()
    candidates = [
        _contained(_candidate(path, path.resolve(), "project"), path.resolve(), root)
        for path in _listed(project / PROJECT_PLUGINS)
    ]
    if options.project_trusted or not candidates:
        return candidates, []
    why = f"the project {project} is not trusted"
    skipped = [item.ended("skipped", why) if item.target else item for item in candidates]
    names = tuple(item.name for item in skipped)
    text = (
        f"plugins of the project {project} were not loaded, because it is not trusted:"
        f" {', '.join(names)}. Read them in {project / PROJECT_PLUGINS}, then trust the project."
    )
    return skipped, [Problem("untrusted", text, names)]


def in_user_dir(options: LoadOptions) -> list[Candidate]:
    """The plugins in the user's own folder."""
    if options.user_dir is None:
        return []
    found = _listed(options.user_dir / USER_PLUGINS)
    return [_candidate(path, path.resolve(), "user") for path in found]


def _listed(folder: Path) -> list[Path]:
    """The plugin files and packages of a folder, by name; `.name` and `_name` are not plugins."""
    try:
        paths = list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
    kept = [
        path
        for path in paths
        if not path.name.startswith((".", "_"))
        and (path.suffix == ".py" or (path / "__init__.py").is_file())
    ]
    return sorted(kept, key=lambda path: utf16_key(stem(path)))


def _candidate(shown: Path, resolved: Path, origin: Origin) -> Candidate:
    return Candidate(stem(shown), origin, str(shown), PathTarget(resolved))


def _contained(item: Candidate, resolved: Path, root: Path) -> Candidate:
    # A project may be somebody else's: a link out of it would make a file run that the trust
    # given to the project says nothing about.
    if resolved.is_relative_to(root):
        return item
    return item.ended("skipped", f"it leads out of the project, to {resolved}", "metadata")


def _check(item: Candidate) -> Candidate:
    path = item.target.path if isinstance(item.target, PathTarget) else Path()
    if path.is_file() and path.suffix == ".py":
        return item
    if (path / "__init__.py").is_file():
        return item
    if not path.exists():
        reason = "there is no such file or folder"
    elif path.is_dir() and (path / "pyproject.toml").is_file():
        reason = (
            "it is a project, not a package folder: install it with"
            f" `python -m pip install -e {path}`, or give the folder with its __init__.py"
        )
    elif path.is_dir():
        reason = "the folder has no __init__.py, so it is not a package"
    else:
        reason = "it is not a .py file"
    return item.ended("failed", reason, "import")
