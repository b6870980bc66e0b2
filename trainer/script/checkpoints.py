"""The checkpoints of a script, as its rank 0 sees them: which one is the newest, and which are removed.

The script makes the folders (`hora.run.checkpoint`): `checkpoints/attempt-N/step-0000000123`, complete when they have
that name. What the rank knows of the run at each of them is in a file beside them, which the script cannot write.
"""

import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jobs.runtime.checkpoint_folders import (
    SCRIPT_STATES,
    attempt_folder,
    attempt_folders,
    checkpoint_folder,
    complete_below,
)
from jobs.runtime.files import bytes_below, unless_full

_UNFINISHED = ".unfinished-"
_MEASURING_PAUSE = 10


@dataclass(frozen=True)
class RunState:
    """How far the run was when a checkpoint was saved, over all attempts. Early stopping continues from it too."""

    epochs: int = 0  # that ended
    steps: int = 0  # with a measured time
    steps_s: float = 0.0
    rates: int = 0  # samples/s that the script measured itself: how many, and their sum
    rates_sum: float = 0.0
    wall_s: float = 0.0  # since the first report, without the set-up of later attempts
    best: float | None = None
    waited: int = 0  # epochs since the best one


class Checkpoints:
    """The complete checkpoints of a job on this host, in one of its attempts.

    The ranks of a script do not wait for each other: one may begin when rank 0 has saved several times. So all begin
    with the same checkpoint, which is of an earlier attempt, and it stays as long as the attempt lasts.
    """

    def __init__(self, folder: Path, *, attempt: int, keep: int) -> None:
        self._folder = folder
        self.own = attempt_folder(folder, attempt)
        self._keep = keep
        self._begun_with: Path | None = None
        self._measure_at = 0.0
        self._measured_bytes = 0

    def begin(self) -> Path | None:
        """The checkpoint that the attempt begins with: the newest one of earlier attempts; None if there is none.

        It is complete, and its rank was told of it. A script that was killed in the moment before it told may have
        reported steps that nobody stored. To continue after them would leave a gap in its curves.
        """
        found = self._complete()
        states = self._states()
        noted = [folder for folder in found if folder.parent != self.own and str(step_of(folder)) in states]
        self._begun_with = noted[-1] if noted else None
        return self._begun_with

    def own_of(self, step: int) -> Path:
        """The folder of this attempt's checkpoint of the step. It is there if the checkpoint is complete."""
        return checkpoint_folder(self.own, step)

    def state_at(self, step: int) -> RunState:
        """What was known of the run at the checkpoint of this step."""
        states = self._states()
        return states.get(str(step), RunState())

    def saved(self, step: int, state: RunState) -> tuple[int, int]:
        """Note that the checkpoint of a step is complete, and remove the oldest ones beyond the number to keep.

        The one that the attempt began with stays. Returns how many are left, and their bytes.
        """
        complete = self._complete()
        removed = [folder for folder in complete[: -self._keep] if folder != self._begun_with]
        _remove(removed)
        kept = [folder for folder in complete if folder not in removed]
        known = {str(step_of(folder)) for folder in kept}
        states = {**self._states(), str(step): state}
        with unless_full():
            self._write({number: asdict(state) for number, state in states.items() if number in known})
        return len(kept), self._stored_bytes()

    def _stored_bytes(self) -> int:
        """What all checkpoints take. Measured again only after ten times as long as that took."""
        now = time.monotonic()
        if now >= self._measure_at:
            self._measured_bytes = bytes_below(self._folder)
            self._measure_at = time.monotonic() + _MEASURING_PAUSE * (time.monotonic() - now)
        return self._measured_bytes

    def remove_unfinished(self) -> None:
        """Remove what attempts left that ended while they saved. The own one may save at any time."""
        for _, folder in attempt_folders(self._folder):
            if folder != self.own:
                _remove(list(folder.glob(f"{_UNFINISHED}*")))

    def _complete(self) -> list[Path]:
        """All complete ones, sorted by step, then by attempt."""
        return [checkpoint.path for checkpoint in reversed(complete_below(self._folder, of_script=True))]

    def _states(self) -> dict[str, RunState]:
        try:
            stored = json.loads((self._folder / SCRIPT_STATES).read_bytes())
            return {step: RunState(**values) for step, values in stored.items()}
        except (OSError, ValueError, TypeError):
            return {}

    def _write(self, states: dict[str, dict[str, Any]]) -> None:
        unfinished = self._folder / f".{SCRIPT_STATES}"
        unfinished.write_text(json.dumps(states), "utf-8")
        unfinished.replace(self._folder / SCRIPT_STATES)


def _remove(folders: Sequence[Path]) -> None:
    """Remove folders that a script has made, while it may still change them: `rm` follows no links, at any depth."""
    if folders:
        argv = ["rm", "-rf", "--", *map(str, folders)]
        subprocess.run(argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def step_of(checkpoint: Path) -> int:
    """The step of a checkpoint, from the name of its folder."""
    return int(checkpoint.name.rpartition("-")[2])
