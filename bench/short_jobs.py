"""Measures what warm ranks save where jobs are short: a study of twenty jobs that each train for about a second.

Two stacks take turns with the same study, one with `HORA_WARM_RANKS=1` and one with 0. The time counts from POST to
the end of the study. Beside it is the time that its jobs trained, on the same slots: no launcher can be faster.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from hora.service import Service
from hora.stack.control import Stack

SLOTS, JOBS = 2, 20
BASE = {"dataset": "digits", "model": "lenet5", "batch_size": 64, "gpus": 1, "epochs": 6, "early_stopping": None}
GRID = {"learning_rate": [round(0.0005 * number, 4) for number in range(1, JOBS + 1)]}
_SWITCH = "HORA_WARM_RANKS"


@dataclass(frozen=True)
class Spent:
    """Seconds of a study, and those in which its jobs trained, by slot."""

    study_s: float
    training_s: float


def main(*, rounds: int) -> None:
    """Measure in turns and print the table."""
    console = Console()
    sides = {"cold": "0", "warm": "1"}
    spent: dict[str, list[Spent]] = {side: [] for side in sides}
    with tempfile.TemporaryDirectory(prefix="hora-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for number in range(rounds):
            for side, switch in sides.items():
                console.print(f"short_jobs: round {number + 1} of {rounds}, {side}", style="dim")
                with _set(switch), Stack(folder / side, port=0, slots=SLOTS) as stack:
                    spent[side].append(_study(Service(stack.url, stack.token)))
    table = Table("", *sides, "warm / cold", title=f"A study of {JOBS} short jobs on {SLOTS} slots: median seconds")
    for title, field in (("POST to its end", "study_s"), ("of that training", "training_s")):
        medians = [median(getattr(one, field) for one in spent[side]) for side in sides]
        table.add_row(title, *(f"{value:.1f}" for value in medians), f"{medians[1] / medians[0]:.2f}")
    console.print(table)


@contextmanager
def _set(switch: str) -> Iterator[None]:
    before = os.environ.get(_SWITCH)
    os.environ[_SWITCH] = switch
    try:
        yield
    finally:
        os.environ.pop(_SWITCH)
        if before is not None:
            os.environ[_SWITCH] = before


def _study(client: Service) -> Spent:
    """Run a first job, so that all caches and the template are warm, and then the study."""
    with client:
        client.wait(client.submit({**BASE, "learning_rate": 0.001})["id"])
        begun = time.monotonic()
        study = client.wait_study(client.submit_study({"base": BASE, "grid": GRID})["id"], period_s=0.1)
        study_s = time.monotonic() - begun
        jobs = list(client.jobs(study=study["id"]))
    assert [job["status"] for job in jobs] == ["succeeded"] * JOBS, jobs
    return Spent(study_s, sum(job["summary"]["wall_s"] for job in jobs) / SLOTS)
