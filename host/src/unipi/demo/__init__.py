"""The demo: one scripted session three times, and what became of its prefix.

With plugins that behave; with one that does not, under `record`; with the same one, under `enforce`.
"""

from .driver import DemoError, run_demo
from .events import Answered, Asked, ProviderChosen, RunBegins, Told, Warned
from .plans import PLANS, Plan
from .provider import PRICED_AS, Provider
from .report import DemoReport, EpochGroup, Run

__all__ = [
    "PLANS",
    "PRICED_AS",
    "Answered",
    "Asked",
    "DemoError",
    "DemoReport",
    "EpochGroup",
    "Plan",
    "Provider",
    "ProviderChosen",
    "Run",
    "RunBegins",
    "Told",
    "Warned",
    "run_demo",
]
