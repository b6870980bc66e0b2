"""Measures how soon a job on two hosts trains when the rank of the second host starts warm, and when it starts cold.

Two hosts on this machine, in namespaces (`tests.acceptance.hosts`), so only root can measure it. Both sides take turns
on the same hosts, whose lead starts its own rank warm. For the cold side the socket of the templates is moved away.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from bench.launch import timings
from jobs.model.records import RankStarted, parse_record, rank_records_name
from tests.acceptance.hosts import Hosts, reason_to_skip
from tests.waiting import until
from worker.attempt.paths import paths_of
from worker.nursery.parent import socket_of

SPEC = {
    "dataset": "digits", "model": "lenet5", "batch_size": 64, "learning_rate": 0.001, "gpus": 2, "epochs": 1,
    "early_stopping": None,
}  # fmt: skip
WARM, COLD = "warm", "cold"


def main(*, rounds: int) -> None:
    """Measure in turns and print the table."""
    console = Console()
    if reason := reason_to_skip():
        console.print(f"members: {reason}")
        return
    seconds: dict[str, list[tuple[float, float]]] = {WARM: [], COLD: []}
    with tempfile.TemporaryDirectory(prefix="hora-") as name:
        Path(name).chmod(0o755)
        with Hosts(Path(name) / "m", ("ha", "hb"), {"HORA_LEASE_S": "150"}) as hosts:
            until(lambda: all(host["info"].get("warm_ranks_bytes") for host in hosts.client.hosts()), what="templates")
            _seconds(hosts)  # warms the disk's caches for both
            for number in range(rounds):
                console.print(f"members: round {number + 1} of {rounds}", style="dim")
                seconds[WARM].append(_seconds(hosts))
                with _without_sockets(hosts):
                    seconds[COLD].append(_seconds(hosts))
    table = Table("", WARM, COLD, "ratio", title="Two hosts, a rank on each: median (fastest to slowest)")
    for place, title in enumerate(("POST to the first line of the second host", "POST to the first training step")):
        sides = [sorted(values[place] for values in side) for side in seconds.values()]
        cells = [f"{median(side):.2f} s ({side[0]:.2f} to {side[-1]:.2f})" for side in sides]
        table.add_row(title, *cells, f"{median(sides[0]) / median(sides[1]):.2f}")
    console.print(table)


def _seconds(hosts: Hosts) -> tuple[float, float]:
    """From POST to the first line of the rank that the lead does not run, and to the first step."""
    started_at = time.time()
    job = hosts.client.submit(SPEC)
    ended = hosts.client.wait(job["id"])
    assert ended["status"] == "succeeded", ended
    lead = hosts[hosts.client.attempts(job["id"])[0]["shares"][0]["host"]]
    paths = paths_of(lead.folder / "runs", job["id"], 1)
    records = map(parse_record, (paths.records / rank_records_name(1)).read_bytes().splitlines())
    first_line = next(record for record in records if isinstance(record, RankStarted))
    return first_line.at - started_at, timings(paths, started_at).first_step_s


@contextmanager
def _without_sockets(hosts: Hosts) -> Iterator[None]:
    sockets = [socket_of(host.folder, host.name) for host in hosts]
    for path in sockets:
        path.rename(path.with_name(f"{path.name}.away"))
    yield
    for path in sockets:
        path.with_name(f"{path.name}.away").rename(path)
