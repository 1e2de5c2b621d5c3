"""Where the user's files of UniPi live."""

from __future__ import annotations

import os
from pathlib import Path


def user_dir() -> Path:
    """The folder of the user's settings and own plugins.

    `UNIPI_HOME` when it is set, else the platform's place for configuration.
    """
    home = os.environ.get("UNIPI_HOME")
    if home:
        return Path(home).expanduser()
    from platformdirs import user_config_path

    return user_config_path("unipi", appauthor=False)


def state_dir() -> Path:
    """The folder of sessions, indexes and artifacts: `UNIPI_HOME/state`, or the platform's."""
    home = os.environ.get("UNIPI_HOME")
    if home:
        return Path(home).expanduser() / "state"
    from platformdirs import user_state_path

    return user_state_path("unipi", appauthor=False)
