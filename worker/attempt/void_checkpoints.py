"""Removes checkpoints from which a job must not continue any more. Called by the launcher."""

import logging
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from jobs.runtime.checkpoint_folders import complete_below

_log = logging.getLogger(__name__)

_HIDDEN = ".unfinished-void-"  # `trainer.script.checkpoints` removes all that begins with `.unfinished-`


def remove_void(root: Path, last_valid_steps: Mapping[int, int | None], *, of_script: bool) -> None:
    """Remove checkpoints of steps that a later attempt trained again, on another host.

    The records of these steps are void. To continue there would leave a gap in the curve. `last_valid_steps` has for
    each attempt the last step that stayed; None: all of them. Raises `OSError` if one of them would stay.
    """
    for found in complete_below(root, of_script=of_script):
        last_step = last_valid_steps.get(found.attempt)
        if last_step is None or found.step <= last_step:
            continue
        _log.info("the checkpoint of step %d is removed: attempt %d went back before it", found.step, found.attempt)
        with suppress(FileNotFoundError):  # another process was faster
            if of_script:
                _hide(found.path)
            else:
                found.path.unlink()


def _hide(folder: Path) -> None:
    """Take the folder's name away. Rank 0 removes the folder before it starts the script.

    A script may have left many or deep folders. To remove them here would take long, or fail in the middle, with half a
    checkpoint under its complete name.
    """
    # A script may have used any name that can be known before.
    folder.rename(folder.with_name(f"{_HIDDEN}{folder.name}-{secrets.token_hex(8)}"))
