"""Measures the cost of polling and paging through the api, compared with a bare route of FastAPI in the same run.

The api and the bare route take turns on one processor. The client and the database have others. The processor time is
that of the server's process alone.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import httpx2
import psutil
from rich.console import Console
from rich.table import Table

from bench.databases import analyze
from bench.many_jobs import store_jobs
from hora.stack.control import Stack

POLLED, LISTED = 100, 1_000_000
BROWSERS = 20
_SECONDS = 5.0
_LATE_PAGE = 1000
_PAGE = 50
_BARE_PORT = 18_471
_QUERIES = ("", "status=succeeded", "status=succeeded,failed", "owner=user-7", "name=name-7", "project=default",
            "label=team:team-7", "sort=created_at", "sort=-ended_at", "sort=name", "sort=-priority", "sort=-duration",
            "sort=-gpus", "sort=-batch_size", "sort=learning_rate", "sort=-val_accuracy", "sort=val_loss",
            "search=digits", "search=team-7", "search=name-777", "search=nobody")  # fmt: skip


@dataclass
class Server:
    """A server process, and how to reach it."""

    pid: int
    port: int
    headers: Mapping[str, str] = field(default_factory=dict)

    def put(self, *paths: str, connections: int = 16, **more: Any) -> dict[str, Any]:
        """Put a load on the server. Returns figures, with the processor microseconds of a request and their share."""
        load = {"port": self.port, "paths": paths, "headers": dict(self.headers), "connections": connections}
        before = self._spent_s()
        command = (sys.executable, "-m", "bench.polling", json.dumps({"seconds": _SECONDS, **load, **more}))
        client = subprocess.run(command, capture_output=True, text=True, check=True)
        spent_s = self._spent_s() - before
        figures: dict[str, Any] = json.loads(client.stdout)
        return figures | {"us": 1e6 * spent_s / max(1, figures["requests"]), "share": spent_s / _SECONDS}

    def _spent_s(self) -> float:
        times = psutil.Process(self.pid).cpu_times()
        return times.user + times.system


def main(*, rounds: int) -> None:
    """Measure and print."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="hora-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with (
            Stack(folder / "home", port=0, parts=("database", "broker", "migrations", "api")) as stack,
            _bare() as bare,
        ):
            headers = {"Authorization": f"Bearer {stack.token}"}
            api = Server(stack.pid_of("api"), int(stack.url.rpartition(":")[2]), headers)
            _keep_apart([api, bare])
            store_jobs(stack.database_url, prefix="r", status="running", count=POLLED)
            store_jobs(stack.database_url, prefix="q", status="queued", count=POLLED)
            console.print("api: polls", style="dim")
            console.print(_polls(api, bare, rounds))
            console.print(_browsers(api))
            console.print(f"api: {LISTED:,} jobs", style="dim")
            store_jobs(stack.database_url, prefix="e", status="succeeded", count=LISTED)
            analyze(stack.database_url)
            console.print(_pages(stack, rounds))


def _polls(api: Server, bare: Server, rounds: int) -> Table:
    running = [f"/v1/jobs/r{number:010}" for number in range(1, POLLED + 1)]
    queued = [path.replace("/r", "/q") for path in running]
    loads: dict[str, tuple[Server, Sequence[str], bool]] = {
        "a bare route of FastAPI": (bare, ["/bare/job"], False),
        "a running job, unchanged: 304": (api, running, True),
        "a running job, in full": (api, running, False),
        "a queued job, unchanged: 304": (api, queued, True),
        "50 running jobs listed, unchanged: 304": (api, ["/v1/jobs?status=running"], True),
        "50 running jobs listed, in full": (api, ["/v1/jobs?status=running"], False),
    }
    measured: dict[str, list[dict[str, Any]]] = {label: [] for label in loads}
    for _ in range(rounds):
        for label, (server, paths, tagged) in loads.items():
            measured[label].append(server.put(*paths, tagged=tagged))
    table = Table("", "per second", "p50", "p99", "processor time", "status", title="Polls, 16 connections")
    for label, runs in measured.items():
        per_s, p50, p99, us = (median(run[figure] for run in runs) for figure in ("per_s", "p50_ms", "p99_ms", "us"))
        statuses = ", ".join(sorted({status for run in runs for status in run["statuses"]}))
        table.add_row(label, f"{per_s:,.0f}", f"{p50:.1f} ms", f"{p99:.1f} ms", f"{us:.0f} us", statuses)
    return table


def _browsers(api: Server) -> Table:
    """Each browser polls the same 100 jobs once a second: as one list, or one by one."""
    table = Table("", "per second", "p99", "share of a core", title=f"{BROWSERS} browsers, {POLLED} running jobs")
    one_by_one = [f"/v1/jobs/r{number:010}" for number in range(1, POLLED + 1)]
    for label, paths, per_s in (
        ("as one list, unchanged", [f"/v1/jobs?status=running&limit={POLLED}"], 1),
        ("one by one, unchanged", one_by_one, POLLED),
    ):
        figures = api.put(*paths, tagged=True, connections=BROWSERS, per_s=per_s)
        table.add_row(label, f"{figures['per_s']:,.0f}", f"{figures['p99_ms']:.1f} ms", f"{figures['share']:.2f}")
    return table


def _pages(stack: Stack, rounds: int) -> Table:
    """The first page and a late one, of the whole list and of each filter and sort."""
    table = Table("list", "page 1", f"page {_LATE_PAGE:,}", "ratio", title=f"Pages of {_PAGE}, of {LISTED:,} jobs")
    headers = {"Authorization": f"Bearer {stack.token}"}
    with httpx2.Client(base_url=stack.url, headers=headers, timeout=60) as client:
        for query in _QUERIES:
            path = f"/v1/jobs?{query}&limit={_PAGE}".replace("?&", "?")
            late_path, number = _late_page(client, path)
            times = [(_request_s(client, path), _request_s(client, late_path)) for _ in range(5 * rounds)]
            first_s, late_s = (median(column) for column in zip(*times, strict=True))
            ratio = f"{late_s / first_s:.2f}"
            late_ms = f"{1e3 * late_s:.1f} ms" + ("" if number == _LATE_PAGE else f" (page {number})")
            table.add_row(query or "all", f"{1e3 * first_s:.1f} ms", late_ms, ratio)
    return table


def _late_page(client: httpx2.Client, path: str) -> tuple[str, int]:
    """The address and number of the late page, or of the last page. Pages ten times as long lead to it."""
    ten_pages = path.replace(f"limit={_PAGE}", f"limit={10 * _PAGE}")
    late_path, number, cursor = path, 1, None
    for step in range((_LATE_PAGE - 1) // 10):
        document = client.get(ten_pages if cursor is None else f"{ten_pages}&cursor={cursor}").raise_for_status().json()
        cursor = document["next_cursor"]
        if cursor is None:
            break
        late_path, number = f"{path}&cursor={cursor}", 10 * (step + 1) + 1
    return late_path, _LATE_PAGE if number > _LATE_PAGE - 10 else number


def _request_s(client: httpx2.Client, path: str) -> float:
    sent_at = time.perf_counter()
    client.get(path).raise_for_status()
    return time.perf_counter() - sent_at


@contextmanager
def _bare() -> Iterator[Server]:
    command = (sys.executable, "-m", "uvicorn", "--factory", "bench.polling:bare", "--port", str(_BARE_PORT))
    with subprocess.Popen((*command, "--log-level", "warning"), stdout=subprocess.DEVNULL) as process:
        try:
            _wait_for(_BARE_PORT)
            yield Server(process.pid, _BARE_PORT)
        finally:
            process.terminate()


def _wait_for(port: int) -> None:
    give_up_at = time.monotonic() + 20
    while time.monotonic() < give_up_at:
        try:
            httpx2.get(f"http://127.0.0.1:{port}/bare/job")
        except httpx2.ConnectError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("the bare route did not come up")


def _keep_apart(servers: Sequence[Server]) -> None:
    """Give the servers the first processor, and this process and those it starts another one."""
    server_cpu, *client_cpus = sorted(os.sched_getaffinity(0))
    if not client_cpus:
        return
    for server in servers:
        for thread in psutil.Process(server.pid).threads():
            os.sched_setaffinity(thread.id, {server_cpu})
    os.sched_setaffinity(0, client_cpus)
