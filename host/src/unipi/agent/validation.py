"""Tool arguments against their schema, with an answer that the model can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .fast_check import plainly_valid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jsonschema.protocols import Validator

    from unipi_hookspecs import JSON, Tool

_MAX_PROBLEMS = 5
_MAX_TEXT = 300


class Validators:
    """One validator a tool, built at its first call: building costs 60 times what using does."""

    def __init__(self) -> None:
        self._built: dict[str, Validator] = {}

    def problems(self, tool: Tool, arguments: Mapping[str, JSON]) -> str | None:
        """Why `arguments` do not fit `tool`, in a few lines, or None when they do."""
        if plainly_valid(tool.parameters, arguments):
            return None
        validator = self._built.get(tool.name)
        if validator is None:
            validator = self._built[tool.name] = _build(tool)
        if validator.is_valid(arguments):
            return None
        errors = sorted(validator.iter_errors(arguments), key=lambda e: [str(p) for p in e.path])
        lines = [f"The arguments of {tool.name} are not valid:"]
        for error in errors[:_MAX_PROBLEMS]:
            where = "/".join(str(part) for part in error.path) or "(the whole object)"
            lines.append(f"- {where}: {error.message[:_MAX_TEXT]}")
        if len(errors) > _MAX_PROBLEMS:
            lines.append(f"- and {len(errors) - _MAX_PROBLEMS} more")
        lines.append("Call it again with corrected arguments.")
        return "\n".join(lines)


def _build(tool: Tool) -> Validator:
    from jsonschema import Draft202012Validator, SchemaError, validators

    schema = dict(tool.parameters)
    cls = validators.validator_for(schema, default=Draft202012Validator)
    try:
        cls.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"tool {tool.name!r} has an invalid schema: {error.message}") from error
    built: Validator = cls(schema)
    return built
