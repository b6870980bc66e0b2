"""The library inside a script: what Hora gives it, and what it tells Hora.

    from hora import run

    for step in range(steps):
        ...
        run.report(step=step, loss=loss)

Standard library only, for Python 3.9 and newer, so that it works in every environment. Outside Hora it does no harm:
reports are printed, and checkpoints and artifacts go to folders beside the script.

`spec`, `plan` and `params` are dictionaries, as the API shows them; `rank`, `size` and `local_rank` are those of this
process; `dataset.train` and `dataset.validation` are paths or URLs, or None; `artifacts` is the folder for files to
keep.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hora.hooks.weights import compare_weights
from hora.run.checkpoints import checkpoint, latest_checkpoint
from hora.run.given import artifacts_folder, dataset, local_rank, params, plan, rank, size, spec
from hora.run.media import audio, confusion_matrix, curve, histogram, image, pr, roc, table
from hora.run.phases import phase
from hora.run.reports import alert, progress, report
from hora.run.stopping import should_stop

__all__ = [
    "alert", "artifacts", "audio", "checkpoint", "compare_weights", "confusion_matrix", "curve", "dataset", "histogram",
    "image", "latest_checkpoint", "local_rank", "params", "phase", "plan", "pr", "progress", "rank", "report", "roc",
    "should_stop", "size", "spec", "table",
]  # fmt: skip

artifacts: Path  # made when it is first used


def __getattr__(name: str) -> Any:
    if name == "artifacts":
        return artifacts_folder()
    raise AttributeError(f"hora.run has no {name!r}; there are: {', '.join(__all__)}")
