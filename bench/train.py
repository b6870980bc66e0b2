"""Compares two ranks with the limit of the machine: two independent processes of one rank, at the same time.

For each model, three sides take turns: both independent processes together, Hora's two ranks, and bare Horovod with
Keras as its documentation shows it. The figure is samples/s. A rank has one thread, so two ranks use two whole cores.
"""

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import truediv
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from bench.ranks import Json, Run, bare_horovodrun
from jobs.model.launch import launch_file_name
from jobs.model.records import StepEnded

RANKS, THREADS = 2, 1
_WARM_UP_STEPS = 20


@dataclass(frozen=True)
class Load:
    """A model, the batch of one rank, and the number of steps."""

    model: str
    batch: int
    steps: int

    @property
    def spec(self) -> Json:
        """As a spec: one epoch, and next to no validation."""
        return {
            "dataset": {"source": "fashion-mnist", "validation": 0.01}, "model": self.model, "batch_size": self.batch,
            "learning_rate": 0.001, "epochs": 1, "steps_per_epoch": self.steps, "early_stopping": None,
        }  # fmt: skip


LOADS = (Load("convnet7", 64, 150), Load("lenet5", 256, 300), Load("lenet5", 32, 600))


def main(*, rounds: int) -> None:
    """Measure in turns and print the table."""
    console = Console()
    table = Table(
        "model, batch of a rank", "step alone", "two processes", "Hora, 2 ranks", "bare Horovod, 2 ranks",
        "Hora / limit", "bare / limit", title=f"Training on {RANKS} ranks of {THREADS} thread: samples/s, medians",
    )  # fmt: skip
    sides: dict[str, Callable[[Path, Load], float]] = {"limit": _independent, "hora": _ranks, "bare": _bare}
    with tempfile.TemporaryDirectory(prefix="hora-bench-") as name:
        for load in LOADS:
            rates: dict[str, list[float]] = {side: [] for side in sides}
            for number in range(rounds):
                for side, rate in sides.items():
                    console.print(f"train: {load.model} {load.batch}, round {number + 1}, {side}", style="dim")
                    rates[side].append(rate(Path(name, f"{load.model}-{load.batch}-{side}-{number}"), load))
            limit, hora, bare = (median(rates[side]) for side in sides)
            shares = [median(map(truediv, rates[side], rates["limit"])) for side in ("hora", "bare")]
            step_ms = 1000 * RANKS * load.batch / limit
            table.add_row(
                f"{load.model}, {load.batch}", f"{step_ms:.1f} ms", f"{limit:.0f}", f"{hora:.0f}", f"{bare:.0f}",
                *(f"{share:.2f}" for share in shares),
            )  # fmt: skip
    console.print(table)


def _independent(folder: Path, load: Load) -> float:
    """Run both processes at once. Returns their rate over the time in which both train."""
    runs = [Run(folder / str(number), load.spec, ranks=1, threads=THREADS) for number in range(RANKS)]
    for run, process in [(run, run.start()) for run in runs]:
        run.wait(process)
    return _rate([_ended_at(run, 0) for run in runs], load.batch)


def _ranks(folder: Path, load: Load) -> float:
    run = Run(folder, load.spec, ranks=RANKS, threads=THREADS)
    run.wait(run.start())
    return _rate([_ended_at(run, rank) for rank in range(RANKS)], load.batch)


def _bare(folder: Path, load: Load) -> float:
    run = Run(folder, load.spec, ranks=RANKS, threads=THREADS)
    program = [sys.executable, "-m", "bench.bare", str(run.paths.launch_dir / launch_file_name())]
    run.wait(run.start_program([*bare_horovodrun(RANKS), *program]))
    return float((run.paths.artifacts / "samples_per_s").read_text())


def _ended_at(run: Run, rank: int) -> list[float]:
    return [record.at for record in run.records(rank) if isinstance(record, StepEnded)][_WARM_UP_STEPS:]


def _rate(ended_at: Sequence[Sequence[float]], batch: int) -> float:
    """Samples/s of all processes together, over the time in which all of them train."""
    since, until = max(times[0] for times in ended_at), min(times[-1] for times in ended_at)
    rate = 0.0
    for times in ended_at:
        inside = [at for at in times if since <= at <= until]
        rate += (len(inside) - 1) * batch / (inside[-1] - inside[0])
    return rate
