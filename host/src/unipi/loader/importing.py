"""Running a plugin's import where it can do little harm.

Every import runs in a daemon thread of its own, so that one that never returns can be given up: it
holds the lock of its own module and no other (CPython locks imports by module since 3.3). While
it runs, standard output leads to standard error and standard input is empty, for the host's own
output may be read by a program.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import re
import sys
import threading
from time import perf_counter
from typing import TYPE_CHECKING, Generic, TypeVar

from attrs import define, frozen

from .candidates import EntryPointTarget, ObjectTarget, PathTarget, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import ModuleType

T = TypeVar("T")

_stuck: dict[str, threading.Thread] = {}
"""Top-level modules whose import was given up, by name: whoever imports them would wait too."""


class StuckError(Exception):
    """An import was given up."""


@frozen
class Outcome(Generic[T]):
    """What came of running a plugin's code: a value, or the exception that ended it.

    `running` is the thread of a run that was given up and would not end.
    """

    value: T | None
    error: BaseException | None
    elapsed_ms: float = 0.0
    running: threading.Thread | None = None


@define
class _Box(Generic[T]):
    value: T | None = None
    error: BaseException | None = None


def contained(run: Callable[[], T], *, limit: float, name: str) -> Outcome[T]:
    """Run a plugin's code for at most `limit` seconds; whatever it raises is in the outcome.

    A `KeyboardInterrupt` passes, wherever it was raised. A run that outlasts the limit ends as
    `StuckError`; its thread is asked to end and then left alone.
    """
    box: _Box[T] = _Box()

    def body() -> None:
        try:
            box.value = run()
        except BaseException as error:  # noqa: BLE001 - a plugin may raise SystemExit or its own kind
            box.error = error

    thread = threading.Thread(target=body, name=f"unipi-load-{name}", daemon=True)
    started = perf_counter()
    with _quiet():
        thread.start()
        thread.join(limit)
        if thread.is_alive():
            _interrupt(thread)
            box = _Box(error=StuckError(f"still not done after {limit:g} s; given up"))
    if isinstance(box.error, KeyboardInterrupt):
        raise box.error
    running = thread if thread.is_alive() else None
    return Outcome(box.value, box.error, (perf_counter() - started) * 1000, running)


def load(target: Target, *, limit: float, use: Callable[[object], T], name: str) -> Outcome[T]:
    """Import the target and hand the plugin object to `use`, both contained."""
    if isinstance(target, ObjectTarget):
        plugin = target.plugin
        return contained(lambda: use(plugin), limit=limit, name=name)
    if isinstance(target, PathTarget):
        return _load_path(target.path, limit=limit, use=use, name=name)
    return _load_entry_point(target, limit=limit, use=use, name=name)


def _load_entry_point(
    target: EntryPointTarget, *, limit: float, use: Callable[[object], T], name: str
) -> Outcome[T]:
    top = target.module.partition(".")[0]
    holder = _stuck.get(top)
    if holder is not None and holder.is_alive():
        error = StuckError(f"the import of {top!r} was given up and still holds its lock")
        return Outcome(None, error)

    def run() -> T:
        found: object = importlib.import_module(target.module)
        for part in filter(None, target.attribute.split(".")):
            found = getattr(found, part)
        return use(_instance(found))

    outcome = contained(run, limit=limit, name=name)
    if outcome.running is not None:
        _stuck[top] = outcome.running
    return outcome


def _load_path(path: Path, *, limit: float, use: Callable[[object], T], name: str) -> Outcome[T]:
    module_name = module_name_of(path)
    with _fresh(module_name) as keep:
        outcome = contained(lambda: use(_execute(path, module_name)), limit=limit, name=name)
        if outcome.error is None:
            keep()
    return outcome


def module_name_of(path: Path) -> str:
    """The module name of a plugin file: the same for the same path, unlike any other."""
    import hashlib  # loads a native library, which only plugin files need

    digest = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return f"unipi_plugin_{re.sub(r'[^A-Za-z0-9]', '_', path.stem)}_{digest}"


def _execute(path: Path, module_name: str) -> ModuleType:
    package = path.is_dir()
    spec = importlib.util.spec_from_file_location(
        module_name,
        path / "__init__.py" if package else path,
        submodule_search_locations=[str(path)] if package else None,
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _fresh(module_name: str) -> Iterator[Callable[[], None]]:
    """Let a plugin file be executed anew; unless kept, what was there before comes back.

    No byte code is written meanwhile: it is keyed by the second and the size of the source, and a
    reload may follow an edit within the second.
    """
    before = _taken(module_name)
    kept: list[bool] = []
    written = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    try:
        yield lambda: kept.append(True)
    finally:
        sys.dont_write_bytecode = written
        if not kept:
            _taken(module_name)
            sys.modules.update(before)


def _taken(module_name: str) -> dict[str, ModuleType]:
    names = [n for n in sys.modules if n == module_name or n.startswith(module_name + ".")]
    return {name: sys.modules.pop(name) for name in names}


def _instance(found: object) -> object:
    return found() if isinstance(found, type) else found


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    stdin = sys.stdin
    sys.stdin = io.StringIO()
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        sys.stdin = stdin


def _interrupt(thread: threading.Thread) -> None:
    """Ask a thread that runs Python code to end, so that it does not spin for the host's life.

    One that waits inside C code never hears of it; there is nothing more to be done about that.
    """
    import ctypes  # only when an import hangs

    ident = ctypes.c_ulong(thread.ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(SystemExit))
    thread.join(0.2)
