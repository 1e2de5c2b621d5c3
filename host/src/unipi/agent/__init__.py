"""The agent: a session, its plugins and its tools, and the loop that runs turns in it."""

from .agent import Agent
from .compacting import CompactionOptions
from .host import Host, prepare_host
from .keep_warm import KeepWarm
from .loop import RunFailedError
from .notices import Compacted, Notice, Observer, Saved
from .opening import AgentOptions, open_agent
from .requests import RetryPolicy
from .saving import AgentError

__all__ = [
    "Agent",
    "AgentError",
    "AgentOptions",
    "Compacted",
    "CompactionOptions",
    "Host",
    "KeepWarm",
    "Notice",
    "Observer",
    "RetryPolicy",
    "RunFailedError",
    "Saved",
    "open_agent",
    "prepare_host",
]
