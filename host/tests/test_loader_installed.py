"""Installed plugins: found by metadata, each once, and a bad one costs only itself."""

from __future__ import annotations

import subprocess
import sys
import threading
import zipfile
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import pytest

from unipi.loader import LoadedPlugin, LoadError, LoadOptions, LoadResult, load_plugins

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OURS = frozenset(point.name for point in entry_points(group="unipi.plugins"))
"""What this workspace has installed, which these tests are not about."""

GOOD = "from unipi_hookspecs import hookimpl\n@hookimpl\ndef turn_end(event, ctx): ...\n"


def install(
    site: Path,
    distribution: str,
    entries: dict[str, str],
    modules: dict[str, str],
    *,
    version: str = "1.0",
) -> Path:
    """What installing a bundle leaves in a site folder; returns its metadata's folder."""
    info = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
    )
    lines = "".join(f"{name} = {value}\n" for name, value in entries.items())
    (info / "entry_points.txt").write_text(
        f"[console_scripts]\nx = y:z\n\n[unipi.plugins]\n{lines}"
    )
    for name, source in modules.items():
        (site / f"{name}.py").write_text(source)
    return info


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty site folder in front of the path; what was imported from it is forgotten after."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def load(**options: object) -> LoadResult:
    deny = OURS | options.pop("deny", frozenset())  # type: ignore[operator]  # test shorthand
    return load_plugins(LoadOptions(deny=deny, **options))  # type: ignore[arg-type]  # test shorthand


def one(result: LoadResult, name: str) -> LoadedPlugin:
    [found] = [item for item in result.plugins if item.name == name]
    return found


def told(result: LoadResult, kind: str) -> str:
    [problem] = [item for item in result.problems if item.kind == kind]
    return problem.message


def test_an_entry_point_may_name_a_module_an_object_or_a_class(site: Path) -> None:
    source = (
        "from unipi_hookspecs import hookimpl\n"
        "class Plugin:\n    @hookimpl\n    def turn_end(self, event, ctx): ...\n"
        "ready = Plugin()\n@hookimpl\ndef turn_start(event, ctx): ...\n"
    )
    entries = {"m": "kinds_mod", "o": "kinds_mod:ready", "c": "kinds_mod:Plugin"}
    install(site, "kinds", entries, {"kinds_mod": source})
    result = load()
    assert [(i.name, i.hooks, i.position) for i in result.active] == [
        ("c", ("turn_end",), 1),
        ("m", ("turn_start",), 2),
        ("o", ("turn_end",), 3),
    ]
    assert [name for name, _ in result.manager.list_name_plugin()] == ["c", "m", "o"]
    assert not result.problems


def test_what_is_disabled_or_not_allowed_is_never_imported(site: Path) -> None:
    for name in ("off_a", "off_b"):
        install(site, name, {name: name}, {name: "raise RuntimeError"})
    install(site, "on-c", {"on_c": "on_c"}, {"on_c": GOOD})
    result = load(deny=frozenset({"off_a"}), allow=frozenset({"on_c", "off_a"}))
    assert [one(result, n).state for n in ("off_a", "off_b", "on_c")] == [
        "disabled",
        "disabled",
        "active",
    ]
    assert not {"off_a", "off_b"} & sys.modules.keys()


F56 = {
    "dep": ("import missing_dependency_xyz", "import", "needs the module 'missing_dependency_xyz'"),
    "syntax": ("def broken(:\n", "import", "SyntaxError: "),
    "exits": ("raise SystemExit(3)", "import", "it ended the process with SystemExit: 3"),
    "hookless": ("def tool_call(event, ctx): ...", "validate", "lacks the @hookimpl mark"),
    "cancels": (
        "import asyncio\nraise asyncio.CancelledError('mine')",
        "import",
        "CancelledError: mine",
    ),
}


def broken_bundle(site: Path) -> None:
    for name, (source, _, _) in F56.items():
        install(site, f"acme-{name}", {name: f"acme_{name}"}, {f"acme_{name}": source})
    install(site, "acme-good", {"good": "acme_good"}, {"acme_good": GOOD})


@pytest.mark.parametrize("name", F56)
def test_a_broken_plugin_is_named_once_with_the_way_out_and_the_others_load(
    site: Path, name: str
) -> None:
    broken_bundle(site)
    result = load()
    item = one(result, name)
    _, stage, text = F56[name]
    assert (item.state, item.stage) == ("failed", stage)
    [problem] = [p for p in result.problems if name in p.plugins]
    assert text in problem.message
    for part in (f"acme-{name} 1.0", f"{name} = acme_{name}", f"unipi plugins disable {name}"):
        assert part in problem.message
    assert problem.distributions == (f"acme-{name} 1.0",)
    assert [i.name for i in result.active] == ["good"]


def test_strict_fails_with_the_same_text(site: Path) -> None:
    broken_bundle(site)
    messages = [problem.message for problem in load().problems]
    with pytest.raises(LoadError) as caught:
        load(strict=True)
    assert str(caught.value).splitlines() == messages


def test_of_a_plugin_with_one_bad_hook_no_hook_is_registered(site: Path) -> None:
    source = GOOD + "@hookimpl\ndef tool_call(evnt, ctx): ...\n"
    install(site, "half", {"half": "half_mod"}, {"half_mod": source})
    result = load()
    assert one(result, "half").state == "failed"
    assert "tool_call(evnt, ctx) asks for 'evnt'" in told(result, "validate")
    assert "write tool_call(event, ctx)" in told(result, "validate")
    assert not result.manager.hook.turn_end.get_hookimpls()


STALE = {
    "module gone": ("gone_mod", {}, "there is no module 'gone_mod'"),
    "attribute missing": ("attr_mod:plugin", {"attr_mod": GOOD}, "attr_mod has no 'plugin'"),
    "malformed line": ("a b c:::", {}, "is not `name = module`"),
}


@pytest.mark.parametrize("case", STALE)
def test_stale_metadata_names_the_distribution_and_where_it_lies(site: Path, case: str) -> None:
    value, modules, text = STALE[case]
    info = install(site, "old-one", {"old": value}, modules, version="0.9")
    install(site, "fine", {"fine": "fine_mod"}, {"fine_mod": GOOD})
    result = load()
    assert one(result, "old").state == "failed"
    [problem] = [p for p in result.problems if "old" in p.plugins]
    for part in (text, "old-one 0.9", str(info), "reinstall old-one", "uninstall old"):
        assert part in problem.message
    assert [i.name for i in result.active] == ["fine"]


def test_a_half_removed_wheel_is_named_by_its_folder(site: Path) -> None:
    info = install(site, "half-gone", {"hg": "hg_mod"}, {}, version="2.0")
    (info / "METADATA").unlink()
    result = load()
    assert (one(result, "hg").distribution, one(result, "hg").version) == ("half_gone", "2.0")
    assert str(info) in told(result, "import")


def test_metadata_that_is_no_text_is_named_and_left_out(site: Path) -> None:
    info = install(site, "binary", {"binary": "binary_mod"}, {})
    (info / "entry_points.txt").write_bytes(b"[unipi.plugins]\n\xff = x\n")
    install(site, "fine2", {"fine2": "fine2_mod"}, {"fine2_mod": GOOD})
    result = load()
    assert str(info) in told(result, "metadata")
    assert [i.name for i in result.active] == ["fine2"]


def test_one_distribution_seen_through_a_link_registers_once_in_silence(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(site, "twice", {"twice": "twice_mod"}, {"twice_mod": GOOD})
    (tmp_path / "lib64").symlink_to(site)
    monkeypatch.syspath_prepend(str(tmp_path / "lib64"))
    result = load()
    assert [i.name for i in result.active] == ["twice"]
    assert not result.problems


def test_a_regular_and_an_editable_install_of_one_version_register_once(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(site, "both-ways", {"both": "both_mod"}, {"both_mod": GOOD})
    source = tmp_path / "src"
    info = install(source, "Both_Ways", {"both": "both_mod"}, {"both_mod": GOOD})
    info.rename(source / "both_ways.egg-info")
    monkeypatch.setattr(sys, "path", [*sys.path, str(source)])
    result = load()
    assert [i.name for i in result.active] == ["both"]
    assert not result.problems


def test_two_versions_are_one_message_with_both_places_and_the_first_on_the_path_wins(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info_new = install(site, "dup", {"dup": "dup_mod"}, {"dup_mod": GOOD}, version="2.0")
    other = tmp_path / "other"
    info_old = install(other, "dup", {"dup": "dup_mod"}, {"dup_mod": GOOD}, version="3.0")
    monkeypatch.setattr(sys, "path", [*sys.path, str(other)])
    result = load()
    assert [(i.name, i.version) for i in result.active] == [("dup", "2.0")]
    message = told(result, "duplicate_distribution")
    for part in (f"2.0 at {info_new}", f"3.0 at {info_old}", "first on the path"):
        assert part in message


def test_a_plugin_in_a_zip_on_the_path_loads(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    install(tree, "zipped", {"zipped": "zipped_mod"}, {"zipped_mod": GOOD})
    archive = tmp_path / "plugins.zip"
    with zipfile.ZipFile(archive, "w") as target:
        for file in tree.rglob("*"):
            target.write(file, file.relative_to(tree))
    monkeypatch.syspath_prepend(str(archive))
    assert [i.name for i in load().active] == ["zipped"]


def test_a_hanging_import_is_given_up_at_the_limit_and_others_still_import(
    site: Path,
) -> None:
    gate = "import threading\nthreading.Event().wait(30)\n"
    install(site, "hang", {"hang": "hang_pkg", "hang2": "hang_pkg"}, {"hang_pkg": gate})
    install(site, "later", {"later": "later_mod"}, {"later_mod": "import colorsys\n" + GOOD})
    result = load(import_limit=0.15)
    assert "still not done after 0.15 s" in str(one(result, "hang").reason)
    # The second asks for the same module: it is not waited for again.
    assert one(result, "hang2").load_ms < 100
    assert [i.name for i in result.active] == ["later"]


def test_an_import_that_spins_is_ended(site: Path) -> None:
    install(site, "spin", {"spin": "spin_mod"}, {"spin_mod": "while True: pass\n"})
    result = load(import_limit=0.15)
    assert one(result, "spin").state == "failed"
    assert "unipi-load-spin" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.slow
def test_a_slow_plugin_is_named_with_its_time_and_is_active(site: Path) -> None:
    install(
        site, "slow", {"slow": "slow_mod"}, {"slow_mod": f"import time\ntime.sleep(1.01)\n{GOOD}"}
    )
    result = load(strict=True)  # told, never fatal
    assert one(result, "slow").load_ms > 1000
    assert "took 1.0 s to load" in told(result, "slow")


def test_what_an_import_prints_or_reads_does_not_touch_the_host(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(site, "noisy", {"noisy": "noisy_mod"}, {"noisy_mod": f"print('hello')\n{GOOD}"})
    install(site, "asks", {"asks": "asks_mod"}, {"asks_mod": f"input('name? ')\n{GOOD}"})
    result = load()
    captured = capsys.readouterr()
    assert (captured.out, "hello" in captured.err) == ("", True)
    assert "EOFError" in str(one(result, "asks").reason)


def test_a_keyboard_interrupt_passes(site: Path) -> None:
    install(site, "ctrlc", {"ctrlc": "ctrlc_mod"}, {"ctrlc_mod": "raise KeyboardInterrupt\n"})
    with pytest.raises(KeyboardInterrupt):
        load()


MANIFESTS = {
    "a dict": ("manifest = {'name': 'x'}", "failed", "`manifest` is a dict"),
    "a function": ("def manifest(): ...", "failed", "`manifest` is a function"),
    "newer api": ("manifest = Manifest('x', api=2)", "incompatible", "needs hook API 2"),
    "api text": ("manifest = Manifest('x', api='1')", "failed", "`api` is '1'"),
    "newer host": ("manifest = Manifest('x', host='>=99')", "incompatible", "needs unipi >=99"),
    "no range": ("manifest = Manifest('x', host='new')", "failed", "no version range"),
    "required": ("manifest = Manifest('x', requires=['y'])", "blocked", "'y' (not installed)"),
    "schema": (
        "manifest = Manifest('x', settings_schema={'properties': {'n': {'type': 'integer'}}})",
        "failed",
        "`plugins.x.n` is wrong: 'many' is not of type 'integer'",
    ),
}


@pytest.mark.parametrize("case", MANIFESTS)
def test_a_manifest_that_does_not_fit_is_refused_in_words(site: Path, case: str) -> None:
    line, state, text = MANIFESTS[case]
    source = f"from unipi_hookspecs import Manifest\n{line}\n{GOOD}"
    install(site, "x-dist", {"x": "x_mod"}, {"x_mod": source})
    install(site, "z", {"z": "z_mod"}, {"z_mod": GOOD})
    result = load(settings={"x": {"n": "many"}})
    assert one(result, "x").state == state
    [problem] = result.problems
    assert text in problem.message
    assert "x-dist 1.0" in problem.message
    assert [i.name for i in result.active] == ["z"]


HOOKS = {
    "wrapper": ("@hookimpl(wrapper=True)\ndef turn_end(event, ctx): yield", "hook wrapper"),
    "generator": ("@hookimpl\ndef turn_end(event, ctx): yield", "has a `yield` in it"),
    "keyword": ("@hookimpl\ndef turn_end(event, *, ctx): ...", "by keyword only"),
    "async": ("@hookimpl\nasync def register_tools(ctx): ...", "not async"),
    "typo": ("@hookimpl\ndef tool_cal(event): ...", "did you mean tool_call?"),
    "none": ("", "no function in it carries the @hookimpl mark"),
}


@pytest.mark.parametrize("case", HOOKS)
def test_hooks_that_do_not_fit_their_spec_are_refused_in_words(site: Path, case: str) -> None:
    source, text = HOOKS[case]
    install(
        site, "h", {"h": "h_mod"}, {"h_mod": f"from unipi_hookspecs import hookimpl\n{source}\n"}
    )
    result = load()
    assert (one(result, "h").state, one(result, "h").stage) == ("failed", "validate")
    assert text in told(result, "validate")


def test_an_unknown_hook_beside_known_ones_is_a_warning(site: Path) -> None:
    source = GOOD + "@hookimpl\ndef tool_resullt(event): ...\n"
    install(site, "u", {"u": "u_mod"}, {"u_mod": source})
    result = load(strict=True)
    assert "tool_resullt (did you mean tool_result?)" in told(result, "unknown_hook")
    assert one(result, "u").hooks == ("turn_end",)


def test_what_requires_a_broken_plugin_is_blocked_to_the_end_of_the_chain(site: Path) -> None:
    for name, needs in (("a", "b"), ("b", "c")):
        source = f"from unipi_hookspecs import Manifest\nmanifest = Manifest('{name}', requires=['{needs}'])\n{GOOD}"
        install(site, name, {name: f"chain_{name}"}, {f"chain_{name}": source})
    install(site, "c", {"c": "chain_c"}, {"chain_c": "1/0"})
    result = load()
    assert [one(result, n).state for n in "abc"] == ["blocked", "blocked", "failed"]
    assert "requires 'c' (failed)" in str(one(result, "b").reason)
    assert "requires 'b' (blocked)" in str(one(result, "a").reason)


def test_two_distributions_with_one_plugin_name_load_the_same_one_in_either_order(
    tmp_path: Path, site: Path
) -> None:
    for name in ("zebra", "apple"):
        install(site, name, {"same": f"same_{name}"}, {f"same_{name}": GOOD})
    result = load()
    [winner] = result.active
    assert winner.distribution == "apple"
    message = told(result, "duplicate_name")
    assert "apple 1.0" in message
    assert "zebra 1.0" in message
    assert "same_zebra" not in sys.modules


def test_one_name_in_two_manifests_blocks_the_second(site: Path) -> None:
    source = f"from unipi_hookspecs import Manifest\nmanifest = Manifest('shared')\n{GOOD}"
    install(site, "first", {"e1": "shared_1"}, {"shared_1": source})
    install(site, "second", {"e2": "shared_2"}, {"shared_2": source})
    result = load()
    assert [(i.distribution, i.state) for i in result.plugins if i.name == "shared"] == [
        ("first", "active"),
        ("second", "blocked"),
    ]
    assert "first 1.0" in told(result, "duplicate_name")


def test_two_entry_points_of_one_object_register_it_once(site: Path) -> None:
    install(site, "alias", {"one": "alias_mod", "two": "alias_mod"}, {"alias_mod": GOOD})
    result = load()
    assert [i.name for i in result.active] == ["one"]
    assert "two plugins are one object" in told(result, "duplicate_name")


def test_a_manifest_name_that_is_disabled_keeps_the_plugin_out(site: Path) -> None:
    source = f"from unipi_hookspecs import Manifest\nmanifest = Manifest('inner')\n{GOOD}"
    install(site, "outer", {"outer": "outer_mod"}, {"outer_mod": source})
    result = load(deny=frozenset({"inner"}))
    assert one(result, "inner").state == "disabled"
    assert "give both one name" in told(result, "name")


def test_a_required_plugin_that_is_not_active_is_reported_as_missing(site: Path) -> None:
    install(site, "guard", {"guard": "guard_mod"}, {"guard_mod": "import not_there_xyz"})
    install(site, "calm", {"calm": "calm_mod"}, {"calm_mod": GOOD})
    result = load(required=("guard", "calm", "absent"))
    assert [item.name for item in result.missing_required] == ["guard", "absent"]
    assert "is failed (it needs the module 'not_there_xyz'" in result.missing_required[0].reason
    assert "required_plugins" in result.missing_required[0].reason
    assert "is not installed" in result.missing_required[1].reason


def test_builtins_come_first_and_essential_ones_cannot_be_denied(site: Path) -> None:
    class Own:
        from unipi_hookspecs import hookimpl

        @hookimpl
        def turn_end(self, event: object) -> None: ...

    install(site, "aaa", {"aaa": "aaa_mod"}, {"aaa_mod": GOOD})
    own = (("zz-core", Own()), ("zz-extra", Own()))
    result = load(
        builtins=own, essential=frozenset({"zz-core"}), deny=frozenset({"zz-core", "zz-extra"})
    )
    assert [i.name for i in result.active] == ["zz-core", "aaa"]
    assert "is essential and stays" in told(result, "essential")


def test_loading_reads_no_module_of_a_disabled_bundle_in_a_fresh_process(
    site: Path,
) -> None:
    install(site, "heavy", {"heavy": "heavy_mod"}, {"heavy_mod": "raise SystemExit(9)"})
    program = (
        "from unipi.loader import LoadOptions, load_plugins\n"
        f"r = load_plugins(LoadOptions(deny=frozenset({['heavy', *OURS]!r})))\n"
        "print([i.state for i in r.plugins if i.name == 'heavy'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(site), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "['disabled']"


def test_of_two_versions_left_in_one_folder_the_higher_counts_whatever_the_folder_lists_first(
    site: Path,
) -> None:
    for version in ("1.9", "1.10"):
        install(site, "left", {"left": "left_mod"}, {"left_mod": GOOD}, version=version)
    result = load()
    assert [i.version for i in result.active] == ["1.10"]
    assert "1.9 at" in told(result, "duplicate_distribution")


def test_a_file_given_by_hand_takes_the_place_of_the_installed_plugin_of_its_name(
    site: Path, tmp_path: Path
) -> None:
    install(site, "dev-dist", {"dev": "dev_mod"}, {"dev_mod": GOOD})
    (tmp_path / "dev.py").write_text(GOOD)
    result = load(paths=(tmp_path / "dev.py",))
    assert [i.source for i in result.active] == [str(tmp_path / "dev.py")]
    assert "-e before installed" in told(result, "duplicate_name")
    assert "dev_mod" not in sys.modules


def test_text_from_metadata_cannot_steer_the_terminal(site: Path) -> None:
    info = install(site, "esc", {"x\x1b[31m": "gone_esc"}, {})
    (info / "METADATA").write_text("Name: e\x1b[2Jsc\nVersion: 1\n")
    result = load()
    [item] = [i for i in result.plugins if "gone_esc" in i.source]
    texts = [item.name, item.source, str(item.distribution), str(item.reason)]
    assert all(text.isprintable() for text in texts + [p.message for p in result.problems])
