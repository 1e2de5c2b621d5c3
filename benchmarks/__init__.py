"""Measured claims, each a module with `run(quick) -> list[Claim]`; `python -m benchmarks` runs all."""
