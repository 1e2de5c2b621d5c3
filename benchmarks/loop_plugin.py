"""The tools of the loop benchmark as a plugin file, for `unipi run -e`; the checkout must be on `PYTHONPATH`."""

from typing import TYPE_CHECKING, cast

from benchmarks import loop_tools
from unipi_hookspecs import Call, Context, LoadContext, Manifest, Tool, hookimpl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unipi_hookspecs import JSON

manifest = Manifest(name="bench-tools")


@hookimpl
def register_tools(ctx: LoadContext) -> list[Tool]:
    """One tool that is called and the fillers."""
    return [
        Tool(
            name,
            about,
            parameters=cast("Mapping[str, JSON]", schema),
            run=_lookup if name == "lookup" else _filler,
        )
        for name, about, schema in loop_tools.schemas()
    ]


async def _lookup(call: Call, ctx: Context) -> str:
    return loop_tools.lookup(str(call.input["key"]))


def _filler(call: Call, ctx: Context) -> str:
    return "never called"
