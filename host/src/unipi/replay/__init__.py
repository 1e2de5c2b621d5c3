"""Recorded sessions sent again through the host's own request path, to a simulated provider."""

from .driver import APIS, ReplayError, replay
from .report import Epoch, Miss, ReplayReport

__all__ = ["APIS", "Epoch", "Miss", "ReplayError", "ReplayReport", "replay"]
