"""What a plugin author may rely on: every hook is specified, every value is frozen and checked."""

from __future__ import annotations

import inspect
import re

import attrs
import pluggy
import pytest

import unipi_hookspecs as hooks
from unipi_hookspecs import (
    API_VERSION,
    POLICIES,
    Cost,
    Manifest,
    Model,
    PluginError,
    PrefixError,
    ResultPatch,
    StaleContextError,
    Text,
    Tool,
    ToolResultEvent,
    Usage,
    UserMessage,
    _specs,
)

CLASSES = [value for name in hooks.__all__ if attrs.has(value := getattr(hooks, name))]
EVENTS = [cls for cls in CLASSES if cls.__name__.endswith("Event")]
COMPARED_BY_IDENTITY = {*EVENTS, hooks.Payload, hooks.Boundary}


def specification(name):
    return getattr(_specs, name)


@pytest.mark.parametrize("name", POLICIES)
def test_a_hook_says_what_it_is(name):
    assert inspect.getdoc(specification(name)).endswith(".")
    assert POLICIES[name].name == name
    assert POLICIES[name].kind in ("collect", "observe", "chain", "first", "veto")
    assert 0 < POLICIES[name].budget <= 10
    assert POLICIES[name].cache_effect


@pytest.mark.parametrize("name", [n for n, policy in POLICIES.items() if not policy.registration])
def test_an_event_hook_takes_an_event_of_its_own_and_a_context(name):
    annotations = specification(name).__annotations__
    assert list(annotations) == ["event", "ctx", "return"]
    event = annotations["event"].removeprefix("ev.")
    assert event == "".join(word.title() for word in name.split("_")) + "Event"
    assert getattr(hooks, event) in EVENTS


@pytest.mark.parametrize("name", [n for n, policy in POLICIES.items() if policy.registration])
def test_a_registration_hook_takes_a_load_context(name):
    assert specification(name).__annotations__["ctx"] == "LoadContext"
    assert POLICIES[name].kind == "collect"


@pytest.mark.parametrize("name", POLICIES)
def test_what_a_hook_may_return_is_offered_by_name(name):
    answer = specification(name).__annotations__["return"]
    for part in re.findall(r"\b[A-Z]\w+", answer.replace("ev.", "")):
        assert part in {*hooks.__all__, "Sequence", "Mapping", "None"}
    assert (answer == "None") == (POLICIES[name].kind == "observe")


def test_only_a_policy_on_tool_calls_fails_closed():
    assert [n for n, policy in POLICIES.items() if policy.fail_closed] == ["tool_call"]


def test_what_ends_is_told_in_reverse():
    reversed_ = {n for n, policy in POLICIES.items() if policy.reverse}
    assert {"agent_end", "turn_end", "tool_execution_end", "session_shutdown"} <= reversed_
    assert all(POLICIES[n].kind == "observe" for n in reversed_)


def test_pluggy_takes_the_specifications_and_checks_arguments_against_them():
    class Wrong:
        @hooks.hookimpl
        def tool_call(self, evnt):
            return None

    manager = pluggy.PluginManager(hooks.PROJECT_NAME)
    manager.add_hookspecs(_specs)
    assert all(getattr(manager.hook, name).spec is not None for name in POLICIES)
    with pytest.raises(pluggy.PluginValidationError, match="evnt"):
        manager.register(Wrong())


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_value_is_frozen_and_has_no_room_for_more(cls):
    value = cls.__new__(cls)
    for name in [*(field.name for field in attrs.fields(cls)), "something_else"]:
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(value, name, None)
    assert not hasattr(value, "__dict__")


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_events_compare_by_identity_and_values_by_what_they_hold(cls):
    assert (cls.__eq__ is object.__eq__) == (cls in COMPARED_BY_IDENTITY)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_field_is_named_in_snake_case(cls):
    assert all(re.fullmatch("[a-z][a-z0-9_]*", field.name) for field in attrs.fields(cls))


def test_assigning_to_a_value_raises():
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Text("a").text = "b"


def run(call, ctx):
    return "done"


@pytest.mark.parametrize("name", ["a", "read_file", "mcp__x-1", "A" * 64])
def test_a_tool_name_that_every_provider_takes_is_taken(name):
    assert Tool(name, "Does it.", run=run).name == name


@pytest.mark.parametrize("name", ["", "A" * 65, "a b", "a.b", "naïve", "a\n", "a/b"])
def test_a_tool_name_that_some_provider_refuses_is_refused_at_once(name):
    with pytest.raises(ValueError, match="must be 1 to 64 of A-Z a-z 0-9 _ -"):
        Tool(name, "Does it.", run=run)


def test_a_tool_without_parameters_takes_an_empty_object():
    first, second = Tool("a", "x", run=run), Tool("b", "x", run=run)
    assert first.parameters == {"type": "object", "properties": {}}
    assert first.parameters is not second.parameters


@pytest.mark.parametrize("name", ["a", "acme.lint", "größe", "｡", "😀"])
def test_a_plugin_name_may_be_any_printable_word(name):
    assert Manifest(name).name == name


@pytest.mark.parametrize("name", ["", "a b", "a\tb", "a\n", "\x1b[31m", "\u200b", "x" * 129])
def test_a_plugin_name_that_cannot_be_printed_in_one_line_is_refused(name):
    with pytest.raises(ValueError, match="must be 1 to 128 printable characters"):
        Manifest(name)


@pytest.mark.parametrize("field", ["before", "after", "requires"])
def test_a_string_where_names_are_expected_is_refused(field):
    with pytest.raises(TypeError, match="expected a sequence of plugin names"):
        Manifest("a", **{field: "workflow"})


def test_names_are_kept_as_a_tuple():
    assert Manifest("a", before=["b", "c"]).before == ("b", "c")
    assert Manifest("a").api == API_VERSION


def test_a_patched_result_keeps_what_the_patch_does_not_name():
    event = ToolResultEvent("read", "t1", {}, [Text("old")], {"lines": 1}, is_error=False)
    patched = event.patched(ResultPatch(content=[Text("new")]))
    assert patched.content == [Text("new")]
    assert (patched.details, patched.is_error) == ({"lines": 1}, False)
    assert event.patched(ResultPatch(is_error=True)).is_error


def test_unreported_cache_tokens_are_unknown_and_add_nothing():
    usage = Usage(input=100, output=5)
    assert usage.cache_read is None
    assert (usage.prompt, usage.total_tokens) == (100, 105)
    assert Usage(3, 550, 0, 12_304).prompt == 12_307
    assert Cost(1.0, 2.0, 0.5, 0.25).total == 3.75


def test_a_string_and_a_list_of_blocks_are_different_contents():
    assert UserMessage("a") != UserMessage([Text("a")])


def test_a_models_headers_stay_out_of_its_repr():
    model = Model("acme", "m", "some-api", "http://x", headers={"x-key": "secret"})
    assert model.name == "acme/m"
    assert "secret" not in repr(model)


def test_errors_into_plugins_have_one_base():
    assert issubclass(StaleContextError, PluginError)
    assert issubclass(PrefixError, PluginError)
