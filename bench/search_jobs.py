"""Measures what a search saves through the service: leased slot-seconds with `prune: asha`, and without it.

Every trial is a real job on Fashion-MNIST, so it costs its start as well as its epochs. Each seed has two searches: the
same values drawn by chance, with and without pruning. The searches of all seeds run at once and take turns on two
slots. So all have the same share of whatever else the machine does.
"""

import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.datasets import fashion_mnist
from hora.service import Service
from hora.stack.control import Stack

Json = dict[str, Any]

TRIALS, EPOCHS, SEEDS = 24, 27, 3
BASE = {
    "dataset": {"source": "fashion-mnist", "fraction": 0.4, "validation": 0.03},
    "model": "lenet5", "epochs": EPOCHS, "early_stopping": None, "gpus": 1, "checkpoint": {"keep": 1},
}  # fmt: skip
SPACE = {
    "learning_rate": {"log": [1e-5, 0.1]},
    "model.dropout": {"uniform": [0, 0.5]},
    "batch_size": [32, 64, 128],
}


@dataclass(frozen=True)
class Cost:
    """What the trials of a search cost. Slot-seconds are those of their attempts, from placement to end."""

    best: float  # of the objective
    epochs: int
    slot_s: float
    training_slot_s: float  # of the epochs alone

    @property
    def start_slot_s(self) -> float:
        """The rest: the starts of the jobs, and their ends."""
        return self.slot_s - self.training_slot_s


def main(*, rounds: int) -> None:
    """Search with so many seeds, at most 3, and print the table."""
    console = Console()
    if fashion_mnist() is None:
        console.print("search_jobs: skipped, install the Debian package dataset-fashion-mnist")
        return
    sides = ("whole trials", "asha")
    columns = [f"{side}: best, epochs, slot-s, of that starts" for side in sides]
    table = Table("seed", *columns, "epochs", "slot-s", title=f"{TRIALS} trials of {EPOCHS} epochs, as jobs")
    with tempfile.TemporaryDirectory(prefix="hora-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with Stack(folder / "home", port=0, slots=2) as stack, Service(stack.url, stack.token) as client:
            seeds = range(1, min(rounds, SEEDS) + 1)
            begun = {seed: _begin(client, seed) for seed in seeds}
            for seed, studies in begun.items():
                whole, pruned = _costs(client, seed, studies)
                texts = [f"{c.best:.4f}, {c.epochs}, {c.slot_s:.0f}, {c.start_slot_s:.0f}" for c in (whole, pruned)]
                ratios = [pruned.epochs / whole.epochs, pruned.slot_s / whole.slot_s]
                table.add_row(str(seed), *texts, *(f"{ratio:.2f}" for ratio in ratios))
                console.print(f"search_jobs: seed {seed}: {' | '.join(texts)}", style="dim")
    console.print(table)


def _begin(client: Service, seed: int) -> tuple[Json, Json]:
    """Two searches for the same values, without pruning and with it."""
    search = {"method": "random", "trials": TRIALS, "parallel": 1, "space": SPACE}
    whole, pruned = (
        client.submit_study({"base": {**BASE, "seed": seed}, "search": search | pruning})
        for pruning in ({}, {"prune": "asha"})
    )
    return whole, pruned


def _costs(client: Service, seed: int, studies: tuple[Json, Json]) -> tuple[Cost, Cost]:
    """Wait for the two searches of a seed. What they cost."""
    trials = []
    for study in studies:
        client.wait_study(study["id"])
        trials.append(client.report(study["id"])["trials"])
    values = [[trial["values"] for trial in side] for side in trials]
    if values[0] != values[1]:
        raise RuntimeError(f"seed {seed}: the two searches drew different values")
    return _cost(client, trials[0]), _cost(client, trials[1])


def _cost(client: Service, trials: list[Json]) -> Cost:
    jobs = [client.job(trial["job_id"]) for trial in trials]
    attempts = [attempt for job in jobs for attempt in client.attempts(job["id"])]
    return Cost(
        best=max(trial["objective"] for trial in trials),
        epochs=sum(trial["epochs"] for trial in trials),
        slot_s=sum(attempt["gpus"] * _lasted_s(attempt) for attempt in attempts),
        training_slot_s=sum(job["gpus"] * job["summary"]["wall_s"] for job in jobs),
    )


def _lasted_s(attempt: Json) -> float:
    begun, ended = (datetime.fromisoformat(attempt[name]) for name in ("created_at", "ended_at"))
    return (ended - begun).total_seconds()
