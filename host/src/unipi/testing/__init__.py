"""What plugin authors use in their tests: a whole agent against the simulator, no key, no network."""

from .lab import Lab, host, lab, model, prefix_breaks

__all__ = ["Lab", "host", "lab", "model", "prefix_breaks"]
