"""Rows of reports from the field that are decided before any server is started."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time

import jsonschema
import pytest
from attrs import evolve
from click.testing import CliRunner

from unipi.cli.extend import Host
from unipi_mcp import definitions
from unipi_mcp.cli import mcp
from unipi_mcp.config import ServerConfig, load
from unipi_mcp.definitions import Catalogue, Definition
from unipi_mcp.names import LIMIT, final_names
from unipi_mcp.pins import changes, compare
from unipi_mcp.refs import problem
from unipi_mcp.schema import canonical, parameters, utf16

SERVER = ServerConfig("s", "stdio", command="x")


def text(value):
    return json.dumps(value, ensure_ascii=False)


def scrambled(value, rng, key=""):
    if key == "const":
        return value
    if isinstance(value, dict):
        return {k: scrambled(value[k], rng, k) for k in rng.sample(list(value), len(value))}
    if isinstance(value, list):
        return rng.sample(value, len(value)) if key == "required" else value
    return value


def test_f08_names_and_their_order_are_the_same_for_every_order_of_answers():
    tools = [
        (server, f"{tool}{n}")
        for server in ("git", "Files", "ärger")
        for tool in "bA"
        for n in (1, 2)
    ]
    orders = set()
    for seed in range(20):
        random.Random(seed).shuffle(tools)
        orders.add(tuple(sorted(final_names(tools).values(), key=utf16)))
    assert len(orders) == 1
    assert len(orders.pop()) == 12


@pytest.mark.slow
def test_f08_the_bytes_are_the_same_under_any_hash_seed_and_locale():
    program = (
        "import json\n"
        "from unipi_mcp.names import final_names\n"
        "from unipi_mcp.schema import canonical\n"
        "tools = {(s, t) for s in ('x.y', 'b', 'ä') for t in ('t', 'T', '名')}\n"
        "schema = {'required': list({'b', 'a', 'ä', 'Z'}), 'type': list({'null', 'object'})}\n"
        "print(json.dumps([sorted(final_names(tools).values()), canonical(schema)]))\n"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": locale},
            capture_output=True,
            check=True,
        ).stdout
        for seed, locale in (("0", "C"), ("1", "C.UTF-8"), ("2", "tr_TR.UTF-8"), ("3", "C"))
    }
    assert len(said) == 1


F10 = {
    "type": "object",
    "properties": {
        "period": {"type": "string", "enum": ["week", "day", "month"], "default": "week"},
        "where": {"type": "object", "examples": [{"lat": 1, "lon": 2, "alt": [3, 1, 2]}]},
        "pair": {"prefixItems": [{"type": "string"}, {"type": "number"}]},
        "unit": {"const": {"required": ["b", "a"]}},
        "limit": {"type": "integer"},
        "query": {"type": "string"},
    },
    "required": ["where", "period", "query"],
}


def test_f10_every_shuffle_of_keys_and_required_gives_the_same_bytes():
    said = {text(canonical(scrambled(F10, random.Random(seed)))) for seed in range(100)}
    assert len(said) == 1
    made = json.loads(said.pop())
    assert made["required"] == ["period", "query", "where"]
    assert made["properties"]["period"]["enum"] == ["week", "day", "month"]
    assert made["properties"]["where"]["examples"][0]["alt"] == [3, 1, 2]
    assert made["properties"]["unit"]["const"]["required"] == ["b", "a"]
    assert made["properties"]["pair"] == F10["properties"]["pair"]


F11 = {
    "properties": {
        "day": {"enum": ["Monday", "Tuesday", "Friday", "Sunday"]},
        "required": {"type": "array", "items": {"type": "string"}},
        "enum": {"type": "object", "required": ["b", "a"]},
        "pair": {"items": [{"type": "string"}, {"type": "integer"}]},
    },
    "dependentRequired": {"day": ["required", "enum"]},
}


def test_f11_only_what_is_a_set_is_sorted_and_a_property_may_bear_any_name():
    made = canonical(F11)
    assert made["properties"]["day"]["enum"] == ["Monday", "Tuesday", "Friday", "Sunday"]
    assert made["properties"]["required"] == {"items": {"type": "string"}, "type": "array"}
    assert made["properties"]["enum"]["required"] == ["a", "b"]
    assert made["properties"]["pair"] == F11["properties"]["pair"]
    assert made["dependentRequired"] == {"day": ["enum", "required"]}
    assert canonical(made) == made


def test_f11_a_thousand_instances_are_judged_as_before():
    rng = random.Random(11)
    choices = {
        "day": ["Monday", "Sonntag", 1],
        "required": [["a"], [1], "a"],
        "enum": [{"a": 1, "b": 2}, {"a": 1}, {}],
        "pair": [["a", 1], [1, "a"], []],
    }
    before, after = (jsonschema.Draft7Validator(s) for s in (F11, canonical(F11)))
    verdicts = set()
    for _ in range(1_000):
        instance = {k: rng.choice(v) for k, v in choices.items() if rng.random() < 0.6}
        verdict = before.is_valid(instance)
        assert after.is_valid(instance) == verdict
        verdicts.add(verdict)
    assert verdicts == {True, False}


def test_f12_a_counter_in_a_description_waits_for_approval_and_is_called_volatile(tmp_path):
    def listing(n):
        return Catalogue((Definition("s", "find", f"Searches {n} nodes.", {"type": "object"}),))

    definitions.write(tmp_path, SERVER, listing(10))
    first = definitions.write_pending(tmp_path, SERVER, listing(11))
    assert definitions.read(tmp_path, SERVER) == listing(10)
    (change,) = changes(listing(10), listing(11))
    assert (change.tool, change.field) == ("find", "description")
    assert (change.old, change.new) == ("Searches 10 nodes.", "Searches 11 nodes.")
    assert first.volatile == ()
    definitions.accept(tmp_path, SERVER)
    again = definitions.write_pending(tmp_path, SERVER, listing(12))
    assert again.volatile == ("find",)
    assert definitions.read_pending(tmp_path, SERVER) == again
    other = Catalogue((evolve(listing(12).definitions[0], description="Finds."),))
    assert definitions.write_pending(tmp_path, SERVER, other).volatile == ()


def test_f69_long_names_fit_stay_apart_and_a_nameless_tool_alone_is_left_out():
    server = "acme-issue-tracker-production-eu"
    long = [(server, f"getProjectIssueTypesMetadat{end}") for end in "ab"]
    exact, over = ("s", "t" * (LIMIT - len("mcp__s__"))), ("s", "t" * (LIMIT - len("mcp__s__") + 1))
    pairs = [*long, exact, over, ("s", "")]
    names = final_names(pairs)
    assert names == final_names(reversed(pairs))
    assert names.keys() == {*long, exact, over}
    assert len(set(names.values())) == 4
    assert max(map(len, names.values())) == LIMIT
    assert names[exact] == f"mcp__s__{exact[1]}"
    assert "getProjectIssueTypesMetadat" in names[long[0]]


def test_f70_what_providers_refuse_is_mapped_and_leads_back():
    tools = ["calendar.respondToEvent", "a/b", "Create Share", "größe", "名前", "x\n", "fine"]
    names = final_names([("s", tool) for tool in tools])
    assert len(set(names.values())) == len(tools)
    assert all(name.isascii() and name.replace("_", "").isalnum() for name in names.values())
    assert names[("s", "fine")] == "mcp__s__fine"
    assert names[("s", "x\n")] != "mcp__s__x"
    assert names[("s", "calendar.respondToEvent")].startswith("mcp__s__calendar_respondToEvent_")
    assert {name: pair for pair, name in names.items()}[names[("s", "名前")]] == ("s", "名前")


def test_f71_the_same_tool_on_two_servers_has_two_names_that_a_third_leaves_alone():
    two = [("north", "read_node"), ("south", "read_node")]
    third = ("north__read", "node")
    names = final_names([*two, third])
    assert len(set(names.values())) == 3
    assert final_names(two) == {pair: names[pair] for pair in two}
    assert names[third] == final_names([third])[third]


def test_f71_a_built_in_of_the_same_name_keeps_it():
    pair = ("north", "read_node")
    (name,) = final_names([pair], {"mcp__north__read_node"}).values()
    assert name not in {"mcp__north__read_node"}
    assert final_names([pair], {"mcp__north__read_node", name}) == {}


F72 = {
    "type": "object",
    "title": "Query",
    "properties": {"q": {"$ref": "#/$defs/Q", "description": "what to ask"}},
    "required": ["q"],
    "additionalProperties": False,
    "$defs": {
        "Q": {
            "type": "object",
            "properties": {
                "ids": {
                    "anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}],
                    "default": None,
                },
                "limit": {"type": "integer", "default": 20},
            },
        }
    },
}


@pytest.mark.parametrize("old", [False, True])
def test_f72_nothing_is_lost_and_references_resolve(old):
    schema = json.loads(text(F72).replace("$defs", "definitions")) if old else F72
    made = parameters(schema)
    assert made == schema
    assert problem(made) is None
    judge = jsonschema.Draft202012Validator(made)
    assert judge.is_valid({"q": {"ids": [1], "limit": 3}})
    (error,) = judge.iter_errors({"q": "as text"})
    assert list(error.path) == ["q"]
    assert not judge.is_valid({"q": {}, "more": 1})


def test_f73_a_tree_keeps_its_references_and_takes_fifty_levels():
    tree = {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/node"}},
        "$defs": {
            "node": {
                "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}
            }
        },
    }
    made = parameters(tree)
    assert problem(tree) is None
    assert made["$defs"] == tree["$defs"]
    for leaf, verdict in ([], True), ("wrong", False):
        node = {"children": leaf}
        for _ in range(50):
            node = {"children": [node]}
        assert jsonschema.Draft202012Validator(made).is_valid({"root": node}) is verdict


def nested(levels):
    schema = {}
    for _ in range(levels):
        schema = {"properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        {
            "$defs": {
                "a": {"allOf": [{"$ref": "#/$defs/b"}]},
                "b": {"allOf": [{"$ref": "#/$defs/a"}]},
            }
        },
        nested(2_000),
        {"properties": {"a": {"$ref": "#/$defs/missing"}}},
        {"properties": {"a": {"$ref": "https://example.org/schema.json"}}},
        {"allOf": [{"properties": {str(n): {} for n in range(30_000)}}]},
    ],
)
def test_f73_what_never_ends_or_leads_nowhere_is_named_at_once(schema):
    began = time.perf_counter()
    assert problem(schema)
    assert time.perf_counter() - began < 1


def test_f77_one_tool_told_twice_has_one_name():
    assert final_names([("s", "t"), ("s", "t"), ("s", "u")]).keys() == {("s", "t"), ("s", "u")}


@pytest.mark.parametrize("env", [None, {}, {"A": "1"}])
def test_f83_an_entry_names_all_that_its_server_gets_of_the_environment(tmp_path, env):
    entry = {"command": "x"} | ({} if env is None else {"env": env})
    found = load(
        tmp_path,
        tmp_path,
        trusted=False,
        settings={"servers": {"s": entry}},
        environ={"PLANTED_SECRET": "hunter2"},
    )
    assert found.servers[0].env == (env or {})


def test_f83_a_secret_in_an_argument_is_there_and_nowhere_else(tmp_path):
    entry = {"command": "x", "args": ["--key=${PLANTED}"]}
    found = load(
        tmp_path,
        tmp_path,
        trusted=False,
        settings={"servers": {"s": entry}},
        environ={"PLANTED": "hunter2"},
    )
    (server,) = found.servers
    assert server.args == ("--key=hunter2",)
    assert "hunter2" not in repr(found)
    assert server.digest() == evolve(server, args=("other",)).digest()


@pytest.fixture
def cloned(tmp_path, monkeypatch):
    """A repository whose entry makes a marker when it is started, and a user who does not know it."""
    monkeypatch.setenv("UNIPI_HOME", str(tmp_path / "home"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    (tmp_path / "home").mkdir()
    return work


def entry(work, more=""):
    server = {"command": "touch", "args": [str(work.parent / f"marker{more}")]}
    (work / ".mcp.json").write_text(json.dumps({"mcpServers": {"evil": server}}))


def run(*args):
    return CliRunner().invoke(mcp, args, obj=Host())


def trust(work):
    settings = {"trusted_projects": [str(work)]}
    (work.parent / "home" / "settings.json").write_text(json.dumps(settings))


def test_f84_a_clone_starts_nothing_and_is_listed_with_its_command_line(cloned):
    entry(cloned)
    for command in (("list",), ("--help",), ("approve",), ("approve", "--yes"), ("test",)):
        run(*command)
    listed = json.loads(run("list", "--json").stdout)
    assert listed["servers"] == []
    assert listed["refused"] == [{"name": "evil", "starts": f"touch {cloned.parent / 'marker'}"}]
    assert not (cloned.parent / "marker").exists()


def test_f84_after_one_byte_changed_it_is_asked_again_and_approval_lies_outside(cloned):
    entry(cloned)
    trust(cloned)
    assert [s["name"] for s in json.loads(run("list", "--json").stdout)["servers"]] == ["evil"]
    entry(cloned, "2")
    changed = json.loads(run("list", "--json").stdout)
    assert changed["servers"] == []
    assert changed["refused"][0]["starts"].endswith("marker2")
    assert "changed since" in changed["problems"][0]["text"]
    asked = run("approve", "evil")
    assert asked.exit_code == 1
    assert "marker2" in asked.output
    assert json.loads(run("list", "--json").stdout)["servers"] == []
    assert run("approve", "evil", "--yes").exit_code == 0
    assert [s["name"] for s in json.loads(run("list", "--json").stdout)["servers"]] == ["evil"]
    assert [path.name for path in cloned.iterdir()] == [".mcp.json"]
    assert not list(cloned.parent.glob("marker*"))


def test_f84_an_entry_that_a_pull_brings_waits_too(cloned):
    (cloned / ".mcp.json").write_text(json.dumps({"mcpServers": {}}))
    trust(cloned)
    run("list")
    entry(cloned)
    waiting = json.loads(run("list", "--json").stdout)
    assert waiting["servers"] == []
    assert "is new" in waiting["problems"][0]["text"]


def test_weakness_27_no_two_loads_share_an_object(tmp_path):
    given = {"servers": {"s": {"command": "x", "env": {"A": "1"}}}}
    one, two = (
        load(tmp_path, tmp_path, trusted=False, settings=given, environ={}) for _ in range(2)
    )
    assert one.servers[0].env is not two.servers[0].env
    assert compare(Catalogue(), Catalogue()) is None
