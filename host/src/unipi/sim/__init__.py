"""A model provider on loopback, with scripted answers and each provider's documented cache rules.

It is a real HTTP server: `Simulator.serve` runs it in the current event loop, `run_simulator` in a
thread. Cached tokens are computed, so that a change's effect on them is a number in a test.
"""

from unipi.sim.clock import Clock, RealClock
from unipi.sim.prompt import tokens_of
from unipi.sim.rules import PROFILES, Profile
from unipi.sim.script import Answer, Call, Fault, Part, Say, Script, Step, Think
from unipi.sim.simulator import Recorded, Simulator, run_simulator
from unipi.sim.tokens import Tokenizer

__all__ = [
    "PROFILES",
    "Answer",
    "Call",
    "Clock",
    "Fault",
    "Part",
    "Profile",
    "RealClock",
    "Recorded",
    "Say",
    "Script",
    "Simulator",
    "Step",
    "Think",
    "Tokenizer",
    "run_simulator",
    "tokens_of",
]
