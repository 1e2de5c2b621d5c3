"""Compaction: when, where to cut, and what stands for what was cut off."""
