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
        """Why `arguments` do not fit `tool`, in a few lines, or None when they do.

        Where the schema itself is at fault the text says so: no call of that tool can run.
        """
        if plainly_valid(tool.parameters, arguments):
            return None
        try:
            validator = self._built.get(tool.name)
            if validator is None:
                validator = self._built[tool.name] = _build(tool)
            errors = list(validator.iter_errors(arguments))
        except Exception as fault:  # noqa: BLE001 - a foreign schema breaks its validator in any way
            reason = f"{type(fault).__name__}: {fault}".partition("\n")[0][:_MAX_TEXT]
            return f"{tool.name} cannot be called: its schema is of no use ({reason})"
        if not errors:
            return None
        errors.sort(key=lambda e: [str(p) for p in e.path])
        lines = [f"The arguments of {tool.name} are not valid:"]
        for error in errors[:_MAX_PROBLEMS]:
            where = "/".join(str(part) for part in error.path) or "(the whole object)"
            lines.append(f"- {where}: {error.message[:_MAX_TEXT]}")
        if len(errors) > _MAX_PROBLEMS:
            lines.append(f"- and {len(errors) - _MAX_PROBLEMS} more")
        lines.append("Call it again with corrected arguments.")
        return "\n".join(lines)


def _build(tool: Tool) -> Validator:
    from jsonschema import Draft202012Validator, validators
    from referencing import Registry

    schema = dict(tool.parameters)
    cls = validators.validator_for(schema, default=Draft202012Validator)
    cls.check_schema(schema)
    # An empty registry: the default one fetches what a schema refers to from the network.
    built: Validator = cls(schema, registry=Registry())
    return built
