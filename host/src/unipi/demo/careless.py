"""A careless plugin: an example of what breaks the prefix. Do not copy it.

Both of its faults are common, neither raises an error, and each makes the provider read again what
it had in its cache: a clock in the system prompt, and a tool list in another order each time.
"""

from __future__ import annotations

import random
from datetime import datetime
from itertools import count

from attrs import evolve

from unipi_hookspecs import (
    BeforeAgentStartEvent,
    BeforeProviderRequestEvent,
    Manifest,
    Payload,
    StartWith,
    hookimpl,
)

manifest = Manifest(name="careless", description="An example of what breaks the prefix.")
_reminders = count(1)


@hookimpl
def before_agent_start(event: BeforeAgentStartEvent) -> StartWith:
    """Put a clock into the system prompt, where everything stands behind it.

    What is right: `ctx.append_message`, which tells the model at the tail.
    """
    clock = f"It is {datetime.now().astimezone():%H:%M:%S} (reminder {next(_reminders)})."
    return StartWith(system_prompt=f"{event.system_prompt}\n\n{clock}")


@hookimpl
def before_provider_request(event: BeforeProviderRequestEvent) -> Payload:
    """Send the tools as a set would list them: in any order.

    What is right: leave the list alone; the host has sorted it.
    """
    tools = list(event.payload.tools)
    random.shuffle(tools)
    return evolve(event.payload, tools=tools)
