"""The built-in tools, and what bounds the output of any tool.

The search child imports this package without site-packages: nothing may be imported here.
"""
