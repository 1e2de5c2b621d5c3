"""UniPi: an agent extension host whose provider prefix holds, byte for byte."""

__version__ = "0.1.0"
