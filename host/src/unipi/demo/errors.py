"""What keeps the demo from running."""


class DemoError(Exception):
    """The demo cannot go on; the text says why and what to do."""
