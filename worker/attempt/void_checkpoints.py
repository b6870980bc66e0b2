"""Removes checkpoints from which a job must not continue any more. Called by the launcher."""

import logging
import shutil
from collections.abc import Mapping
from pathlib import Path

from jobs.runtime.checkpoint_folders import complete_below

_log = logging.getLogger(__name__)


def remove_void(root: Path, last_valid_steps: Mapping[int, int | None], *, of_script: bool) -> None:
    """Remove checkpoints of steps that a later attempt trained again, on another host.

    The records of these steps are void. To continue there would leave a gap in the curve. `last_valid_steps` has for
    each attempt the last step that stayed; None: all of them.
    """
    for found in complete_below(root, of_script=of_script):
        last_step = last_valid_steps.get(found.attempt)
        if last_step is None or found.step <= last_step:
            continue
        _log.info("the checkpoint of step %d is removed: attempt %d went back before it", found.step, found.attempt)
        if of_script:
            shutil.rmtree(found.path, ignore_errors=True)
        else:
            found.path.unlink(missing_ok=True)
