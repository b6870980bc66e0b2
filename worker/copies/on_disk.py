"""The checkpoints of a job on the disk of this host: the newest whole one, and what a script's rank knew at each."""

import json
import logging
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobs.runtime.checkpoint_folders import SCRIPT_STATES, LocalCheckpoint, complete_below

_log = logging.getLogger(__name__)


def newest_whole(root: Path, *, of_script: bool) -> LocalCheckpoint | None:
    """The newest checkpoint on this host. A damaged file of Hora's own loop is passed over."""
    for checkpoint in complete_below(root, of_script=of_script):
        if of_script or is_whole(checkpoint.path):
            return checkpoint
        _log.warning("%s is damaged and passed over", checkpoint.path.name)
    return None


def is_whole(path: Path) -> bool:
    """Whether a file of Hora's own loop can be read to its end."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (OSError, zipfile.BadZipFile, EOFError, ValueError):
        return False


def note_script_state(root: Path, step: int, state: Mapping[str, Any]) -> None:
    """Let the rank of a script know of a checkpoint what it knew when that was saved."""
    path, states = root / SCRIPT_STATES, script_states(root)
    states[str(step)] = dict(state)
    unfinished = path.with_name(f".{SCRIPT_STATES}")
    unfinished.write_text(json.dumps(states), "utf-8")
    unfinished.replace(path)


def script_states(root: Path) -> dict[str, dict[str, Any]]:
    """What the rank of a script knew of the run at each of its checkpoints, by step. Empty if nothing can be read."""
    try:
        states: dict[str, dict[str, Any]] = json.loads((root / SCRIPT_STATES).read_bytes())
        return states
    except (OSError, ValueError):
        return {}
