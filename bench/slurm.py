"""Measures how long a job of a Slurm pool takes from its submission to its first line, and to its first step.

Beside it, in turns: `sbatch` of the script that `hora export` prints for the same spec, which nobody supervises, and
`sbatch` of a script that only writes the time: no job can be faster. Slurm is a real one on this machine, with two
nodes; it looks for jobs to start every two seconds.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.launch import Timings, timings
from hora.render.slurm_script import slurm_script
from hora.service import Service
from hora.stack.control import Stack
from jobs.model.spec import spec_from
from tests.slurm import PARTITION, Slurm, slurm
from tests.waiting import until
from worker.attempt.paths import AttemptPaths, paths_of

POOL = f"slurm:{PARTITION}"
SPEC: dict[str, Any] = {
    "dataset": "digits", "model": "lenet5", "batch_size": 640, "learning_rate": 0.001, "gpus": 2, "device": "cpu",
    "placement": "spread", "pool": POOL, "epochs": 1, "steps_per_epoch": 20, "early_stopping": None,
}  # fmt: skip


def main(*, rounds: int) -> None:
    """Measure in turns and print the table."""
    console = Console()
    with slurm(nodes=2) as cluster, tempfile.TemporaryDirectory(prefix="hora-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        os.environ |= {"HORA_SLURM_PARTITION": PARTITION, **cluster.environment}
        with Stack(folder / "home", port=0, slots=0) as stack, Service(stack.url, stack.token) as client:
            until(lambda: POOL in {host["name"] for host in client.hosts()}, what="the pool")
            sides: dict[str, Callable[[str], Timings]] = {
                "pool": lambda _: _in_the_pool(client, stack.home),
                "exported script": lambda run: _exported(cluster, folder / run, run),
            }
            measured: dict[str, list[Timings]] = {side: [] for side in sides}
            empty_s = []
            for number in range(rounds + 1):  # the first round warms the disk's caches
                for side, run in sides.items():
                    console.print(f"slurm: round {number} of {rounds}, {side}", style="dim")
                    measured[side].append(run(f"{number:08x}"))
                    until(cluster.are_idle, what="idle nodes")
                empty_s.append(_empty_s(cluster, folder / f"empty-{number}"))
                until(cluster.are_idle, what="idle nodes")
    console.print(_table({side: of_side[1:] for side, of_side in measured.items()}, empty_s[1:]))


def _in_the_pool(client: Service, home: Path) -> Timings:
    started_at = time.time()
    job = client.wait(client.submit(SPEC)["id"])
    assert job["status"] == "succeeded", job
    return timings(paths_of(home / "runs", job["id"], 1), started_at)


def _exported(cluster: Slurm, folder: Path, run: str) -> Timings:
    script = slurm_script(spec_from(SPEC), nodes=2, python=sys.executable, run=run)
    started_at = time.time()
    _sbatch(cluster, script, "--wait", HORA_RUN_FOLDER=str(folder))
    return timings(AttemptPaths(folder, 1), started_at)


def _empty_s(cluster: Slurm, file: Path) -> float:
    started_at = time.time()
    _sbatch(cluster, f"#!/bin/sh\ndate +%s.%N > {file}\n", "--wait", "--nodes=2")
    return float(file.read_text()) - started_at


def _sbatch(cluster: Slurm, script: str, *options: str, **variables: str) -> None:
    subprocess.run(
        ["sbatch", "--output=/dev/null", "--chdir=/", *options], input=script, text=True, check=True,
        capture_output=True, env={**os.environ, **cluster.environment, **variables},
    )  # fmt: skip


def _table(measured: dict[str, list[Timings]], empty_s: list[float]) -> Table:
    table = Table("", *measured, "pool / exported script", "only the time", title="Slurm, 2 nodes x 1 rank: median")
    rows: tuple[tuple[str, Callable[[Timings], float]], ...] = (
        ("submission to first line of rank 0", lambda of: of.first_line_s),
        ("submission to first training step", lambda of: of.first_step_s),
    )
    for title, figure in rows:
        values = {side: sorted(map(figure, of_side)) for side, of_side in measured.items()}
        ratio = median(values["pool"]) / median(values["exported script"])
        cells = [f"{median(v):.2f} s ({v[0]:.2f} to {v[-1]:.2f})" for v in values.values()]
        table.add_row(title, *cells, f"{ratio:.2f}", f"{median(empty_s):.2f} s")
    return table
