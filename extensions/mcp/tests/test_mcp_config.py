"""Which servers there are: files, variables, who overrules whom, and what is said of mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from unipi_mcp import jsontext
from unipi_mcp.config import ServerConfig, load

SECRET = "hunter2-is-a-secret"


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


class Place:
    """A project and a user's folder, and what is configured there."""

    def __init__(self, root):
        self.cwd, self.user = root / "work", root / "user"
        self.cwd.mkdir()
        self.user.mkdir()

    def project(self, entries, **more):
        (self.cwd / ".mcp.json").write_text(json.dumps({"mcpServers": entries, **more}, indent=1))

    def users(self, entries):
        (self.user / "mcp.json").write_text(json.dumps({"mcpServers": entries}, indent=1))

    def load(self, *, trusted=True, settings=(), **environ):
        servers = {"servers": settings} if settings else {}
        return load(self.cwd, self.user, trusted=trusted, settings=servers, environ=environ)

    def one(self, entry, **environ):
        self.users({"s": entry})
        found = self.load(**environ)
        assert found.problems == ()
        return found.servers[0]

    def problem(self, entry, **environ):
        self.users({"good": {"command": "x"}, "bad": entry})
        found = self.load(**environ)
        assert [server.name for server in found.servers] == ["good"]
        (problem,) = found.problems
        return problem


def test_nothing_configured_is_nothing_wrong(place):
    assert place.load() == load(place.cwd, place.user, trusted=False, settings={}, environ={})
    assert place.load().servers == place.load().problems == ()


def test_a_stdio_server_with_everything(place):
    server = place.one(
        {
            "command": "python",
            "args": ["-m", "srv"],
            "env": {"A": "1"},
            "cwd": str(place.cwd),
            "startSeconds": 5,
            "callSeconds": 90.5,
            "enabledTools": ["read_*"],
            "disabledTools": ["read_secret"],
            "mode": "on_demand",
        }
    )
    assert server.transport == "stdio"
    assert (server.command, server.args, server.env) == ("python", ("-m", "srv"), {"A": "1"})
    assert (server.start_seconds, server.call_seconds, server.cwd) == (5.0, 90.5, place.cwd)
    assert server.mode == "on_demand"
    assert [t for t in ("read_a", "read_secret", "write") if server.allows(t)] == ["read_a"]


@pytest.mark.parametrize("spelling", ["http", "streamable-http", "streamableHttp", None])
def test_every_spelling_of_streamable_http_is_one(place, spelling):
    entry = {"url": "https://example.org/mcp", "headers": {"X-Key": "${KEY}"}}
    server = place.one(entry | ({"type": spelling} if spelling else {}), KEY="k")
    assert (server.transport, server.headers) == ("http", {"X-Key": "k"})


def test_sse_is_spoken_only_when_it_is_asked_for(place):
    assert place.one({"type": "sse", "url": "https://example.org/sse"}).transport == "sse"


@pytest.mark.parametrize("top", ["mcpServers", "servers", "mcp_servers"])
def test_each_hosts_top_key_is_read(place, top):
    (place.user / "mcp.json").write_text(json.dumps({top: {"a": {"command": "x"}}}))
    assert [server.name for server in place.load().servers] == ["a"]


def test_other_hosts_limits_and_switches_are_understood(place):
    server = place.one(
        {
            "command": "x",
            "startup_timeout_sec": 7,
            "timeout": 2_500,
            "tools": ["*"],
            "disabled": True,
        }
    )
    assert (server.start_seconds, server.call_seconds, server.enabled) == (7.0, 2.5, False)
    assert server.allows("anything")


def test_variables_are_replaced_once_in_every_place(place):
    server = place.one(
        {
            "command": "${BIN:-python}",
            "args": ["--root=${workspaceFolder}", "$HOME", "${env:TWICE}"],
            "env": {"T": "${TOKEN}", "E": "${EMPTY:-d}", "N": "${NONE:-}"},
        },
        TOKEN=SECRET,
        TWICE="${TOKEN}",
        EMPTY="",
    )
    assert server.command == "python"
    assert server.args == (f"--root={place.cwd}", "$HOME", "${TOKEN}")
    assert server.env == {"T": SECRET, "E": "d", "N": ""}


def test_a_variable_that_is_not_set_keeps_that_server_alone_from_starting(place):
    problem = place.problem({"command": "x", "env": {"T": "${MISSING}"}})
    assert "MISSING" in problem.text
    assert problem.key == "mcpServers.bad.env.T"


def test_a_server_that_is_not_in_use_needs_no_variables(place):
    assert not place.one({"command": "x", "args": ["${MISSING}"], "enabled": False}).enabled


def test_a_disabled_server_can_be_switched_on_above_as_long_as_it_can_be_started(place):
    below = {
        "whole": {"command": "x", "disabled": True},
        "half": {"command": "${NO}", "disabled": True},
    }
    place.users({name: {"enabled": True} for name in below})
    found = place.load(settings=below)
    assert [(s.name, s.command, s.enabled) for s in found.servers] == [
        ("half", "", False),
        ("whole", "x", True),
    ]
    assert [problem.key for problem in found.problems] == ["mcpServers.half.enabled"]


def test_servers_stand_in_utf16_order_whatever_the_file_says(place):
    place.users({name: {"command": "x"} for name in ("\uff61", "b", "\U0001f600", "B")})
    assert [s.name for s in place.load().servers] == ["B", "b", "\U0001f600", "\uff61"]


def test_the_project_counts_before_the_user_and_the_user_before_the_settings(place):
    place.project({"a": {"command": "project"}})
    place.users({name: {"command": "user"} for name in "ab"})
    found = place.load(settings={name: {"command": "settings"} for name in "abc"})
    assert [(s.command, s.scope) for s in found.servers] == [
        ("project", "project"),
        ("user", "user"),
        ("settings", "settings"),
    ]


def test_a_project_does_not_switch_on_what_its_user_switched_off(place):
    place.users({"a": {"command": "x", "enabled": False}})
    for entry in ({"command": "y"}, {"command": "y", "enabled": True}, {"enabled": True}):
        place.project({"a": entry})
        (place.user / "mcp-projects.json").unlink(missing_ok=True)
        assert [server.enabled for server in place.load().servers] == [False]


def test_an_entry_without_a_command_adjusts_the_one_below_and_does_not_disable_it(place):
    place.users({"a": {"command": "x", "env": {"T": "1"}}})
    place.project({"a": {"mode": "listed", "disabledTools": ["rm"]}})
    (server,) = place.load().servers
    assert (server.command, server.env, server.enabled) == ("x", {"T": "1"}, True)
    assert (server.mode, server.scope, server.allows("rm")) == ("listed", "user", False)


def test_a_project_takes_tools_of_its_users_server_away_and_gives_none(place):
    place.users({"a": {"command": "x", "enabledTools": ["read"], "disabledTools": ["rm"]}})
    place.project({"a": {"enabledTools": ["*"], "disabledTools": ["mv"]}})
    (server,) = place.load().servers
    assert (server.enabled_tools, server.disabled_tools) == (("read",), ("rm", "mv"))


def test_a_project_cannot_adjust_what_a_users_server_runs(place):
    place.users({"a": {"command": "x"}})
    place.project({"a": {"env": {"PYTHONSTARTUP": "evil.py"}}})
    found = place.load()
    assert found.servers[0].env == {}
    assert [problem.key for problem in found.problems] == ["mcpServers.a.env"]


@pytest.mark.parametrize(
    ("entry", "key", "said"),
    [
        ("text", "bad", "object"),
        ({}, "bad", "command"),
        ({"command": ""}, "bad.command", "program"),
        ({"command": 3}, "bad.command", "string"),
        ({"command": "x", "args": "a b"}, "bad.args", "list"),
        ({"command": "x", "args": ["a", 1]}, "bad.args.1", "string"),
        ({"command": "x", "env": {"A": 1}}, "bad.env.A", "string"),
        ({"command": "x", "env": {"A=B": "1"}}, "bad.env.A=B", "variable"),
        ({"command": "x", "cwd": "here"}, "bad.cwd", "absolute"),
        ({"command": "x", "envFile": ".env"}, "bad.envFile", "env"),
        ({"command": "x", "mode": "lazy"}, "bad.mode", "listed"),
        ({"command": "x", "enabled": "yes"}, "bad.enabled", "true or false"),
        ({"command": "x", "startSeconds": 0}, "bad.startSeconds", "above 0"),
        ({"command": "x", "callSeconds": "9"}, "bad.callSeconds", "seconds"),
        ({"command": "x", "timeout": -1}, "bad.timeout", "milliseconds"),
        ({"command": "x", "type": "pigeon"}, "bad.type", "stdio, http or sse"),
        ({"url": "https://x.org", "type": "stdio"}, "bad.type", "command"),
        ({"command": "x", "type": "http"}, "bad.type", "url"),
        ({"url": "http://example.org/mcp"}, "bad.url", "https"),
        ({"url": "ftp://example.org"}, "bad.url", "https://"),
        ({"url": "https://[::1"}, "bad.url", "address"),
        ({"url": "https://u:p@example.org"}, "bad.url", "headers"),
        ({"url": "https://x.org", "headers": {"A b": "c"}}, "bad.headers.A b", "header"),
        ({"url": "https://x.org", "headers": {"A": "c\r\nX: y"}}, "bad.headers.A", "header"),
    ],
)
def test_one_bad_entry_is_told_with_file_line_and_key_and_the_others_stay(place, entry, key, said):
    problem = place.problem(entry)
    assert said in problem.text
    assert problem.key == f"mcpServers.{key}"
    assert problem.file == place.user / "mcp.json"
    line = problem.file.read_text().splitlines()[problem.line - 1]
    assert json.dumps(key.split(".")[-1]).strip('"') in line or key == "bad.args.1"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "a.localhost"])
def test_plain_http_is_for_this_machine(place, host):
    assert place.one({"url": f"http://{host}:8080/mcp"}).url == f"http://{host}:8080/mcp"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"mcpServers": {"a": }}', 1),
        ('{\n"mcpServers": {\n"a": {"command": "x"}\n', 4),
        ('{"mcpServers": [],\n}', 1),
        ("[]", 1),
        ('{"mcpServers": {"a": {}, \n"a": {}}}', 2),
        ('{"a": "' + SECRET + "\n}", 1),
    ],
)
def test_a_file_that_is_no_json_is_told_with_its_line_and_the_other_file_counts(place, text, line):
    place.project({"p": {"command": "x"}})
    (place.user / "mcp.json").write_text(text)
    found = place.load()
    assert [server.name for server in found.servers] == ["p"]
    (problem,) = found.problems
    assert (problem.file, problem.line) == (place.user / "mcp.json", line)
    assert SECRET not in str(problem)


def test_comments_trailing_commas_and_a_byte_order_mark_are_read(place):
    text = '\ufeff{ // mine\n "mcpServers": {"a": {"command": "x", /* why */ "args": ["//x",],},},}'
    (place.user / "mcp.json").write_text(text, encoding="utf-8")
    assert place.load().servers[0].args == ("//x",)


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        ),
    )
)
def test_what_the_standard_parser_reads_is_read_alike(value):
    for text in (json.dumps(value), json.dumps(value, indent=2, ensure_ascii=False)):
        assert jsontext.parse(text).value == value


def test_numbers_and_texts_that_are_hard_to_write_break_nothing(place):
    text = '{"mcpServers": {"a": {"command": "x", "env": {"N": 1e999}, "args": [%s]}, "b": {"command": "\\ud800"}}}'
    (place.user / "mcp.json").write_text(text % 2**80)
    found = place.load()
    assert [problem.key for problem in found.problems] == ["mcpServers.a.args.0"]
    assert found.servers[0].digest()


def test_the_settings_may_be_wrong_too(place):
    found = place.load(settings="nonsense")
    assert "settings of the plugin mcp" in str(found.problems[0])
    found = place.load(settings={"a": {"command": 1}, "b": {"command": "x"}})
    assert [s.name for s in found.servers] == ["b"]
    assert found.problems[0].key == "servers.a.command"


def test_no_problem_and_no_repr_holds_a_value(place):
    place.users(
        {
            "a": {"command": "x", "env": {"TOKEN": SECRET}, "args": [SECRET]},
            "b": {"url": f"https://u:{SECRET}@x.org", "headers": {"Authorization": SECRET}},
            "c": {"url": "https://x.org", "headers": {"A": f"{SECRET}\n"}},
            "d": {"command": "x", "env": {"T": [SECRET]}},
        }
    )
    found = place.load()
    assert len(found.problems) == 3
    assert SECRET not in repr(found)
    assert SECRET not in "".join(map(str, found.problems))


def test_the_digest_names_what_is_started_and_no_value_of_a_variable(place):
    entry = {"command": "x", "env": {"T": "${TOKEN}"}}
    first = place.one(entry, TOKEN="one").digest()
    assert place.one(entry, TOKEN="two").digest() == first
    same = [{"mode": "listed"}, {"enabled": False}, {"disabledTools": ["a"]}, {"callSeconds": 1}]
    assert {place.one(entry | more, TOKEN="x").digest() for more in same} == {first}
    other = [{"args": ["a"]}, {"command": "y"}, {"env": {"T": "u"}}, {"cwd": "/tmp"}]
    assert first not in {place.one(entry | more, TOKEN="x").digest() for more in other}


def test_two_projects_with_the_same_entry_have_definitions_of_their_own(tmp_path):
    digests = set()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        place = Place(tmp_path / name)
        place.project({"a": {"command": "x"}})
        digests.add(place.load().servers[0].digest())
    assert len(digests) == 2


def test_a_config_made_by_hand_has_a_digest_too():
    one, two = (ServerConfig("a", "stdio", command=command) for command in ("x", "y"))
    assert one.digest() != two.digest()
    assert one.digest() == ServerConfig("a", "stdio", command="x", start_seconds=1).digest()


def test_a_relative_cwd_is_of_the_project(place):
    place.project({"a": {"command": "x", "cwd": "sub"}})
    assert place.load().servers[0].cwd == place.cwd / "sub"


def test_the_file_of_an_untrusted_project_is_not_opened(place):
    (place.cwd / ".mcp.json").write_text("not even JSON")
    found = place.load(trusted=False)
    assert found.servers == ()
    assert "not trusted" in found.problems[0].text
    assert not (place.user / "mcp-projects.json").exists()


def test_where_the_record_of_approved_projects_is_broken_no_project_server_starts(place):
    place.project({"a": {"command": "x"}})
    record = place.user / "mcp-projects.json"
    record.write_text("{")
    found = place.load()
    assert found.servers == ()
    assert str(record) in found.problems[0].text


def test_nothing_of_the_project_is_written_and_the_record_is_its_owners_alone(place):
    place.project({"a": {"command": "x"}})
    place.load()
    assert [path.name for path in place.cwd.iterdir()] == [".mcp.json"]
    record = Path(place.user / "mcp-projects.json")
    assert record.stat().st_mode & 0o777 == 0o600
