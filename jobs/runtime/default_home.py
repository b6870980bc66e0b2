"""Where a stack keeps its state. A module of its own, so that the command line finds it without pydantic."""

import os
from pathlib import Path


def default_home() -> Path:
    """Where a stack keeps its state unless `HORA_HOME` says otherwise."""
    return Path("/var/lib/hora") if os.geteuid() == 0 else Path.home() / ".local/share/hora"
