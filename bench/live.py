"""Measures the cost of two thousand listeners of one job: the api's memory and processor time, and the events' delay.

The server and its sockets are real. The listeners are tasks of this process. The job changes ten times a second.
"""

import asyncio
import os
import resource
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from urllib.parse import urlsplit

import psutil
from rich.console import Console
from rich.table import Table

from hora.service import Service
from hora.stack.control import Stack
from jobs.db.engine import Sessions, engine_for, sessions_for
from jobs.lifecycle.store import add_event, touch
from jobs.model.states import EventKind

LISTENERS, CHANGES_EVERY_S = 2000, 0.1
SPEC = {"dataset": "digits", "batch_size": 64, "learning_rate": 0.001, "gpus": 1}
_SETTLE_S, _AT_ONCE = 5.0, 50


def main(*, rounds: int) -> None:
    """Measure and print; a round is two seconds of changes."""
    _allow_files(3 * LISTENERS)
    os.environ["HORA_MAX_STREAMS"] = str(2 * LISTENERS)  # they all belong to one user
    table = Table("", "measured", "target", title="Live streams")
    with tempfile.TemporaryDirectory(prefix="hora-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with Stack(folder / "home", port=0, parts=("database", "broker", "migrations", "api")) as stack:
            for row in asyncio.run(_measure(stack, changing_s=2.0 * rounds)):
                table.add_row(*row)
    Console().print(table)


async def _measure(stack: Stack, *, changing_s: float) -> list[tuple[str, str, str]]:
    api = psutil.Process(stack.pid_of("api"))
    sessions = sessions_for(engine_for(stack.database_url))
    with Service(stack.url, stack.token) as service:
        job_id = service.submit(SPEC)["id"]
    before = api.memory_info().rss / 1e6
    delays_s: list[float] = []
    gate = asyncio.Semaphore(_AT_ONCE)
    listeners = [asyncio.create_task(_listen(stack, job_id, delays_s, gate)) for _ in range(LISTENERS)]
    with Service(stack.url, stack.token) as service:
        await asyncio.to_thread(_wait_for_all, service)
    await asyncio.sleep(_SETTLE_S)
    idle = await _spent(api, 3.0)
    delays_s.clear()
    with _changes(sessions, job_id):
        busy = await _spent(api, changing_s)
    after = api.memory_info().rss / 1e6
    for listener in listeners:
        listener.cancel()
    await asyncio.gather(*listeners, return_exceptions=True)
    events_each = len(delays_s) / LISTENERS
    p99 = quantiles(delays_s, n=100)[98]
    return [
        (f"memory of the api with {LISTENERS:,} listeners", f"{after:.0f} MB; without: {before:.0f} MB", "<= 300 MB"),
        ("processor time while nothing changes", f"{idle:.0%} of a core", ""),
        (f"the same while the job changes each {CHANGES_EVERY_S:g} s", f"{busy:.0%} of a core", ""),
        ("from the commit to a listener, median and 99 %", f"{median(delays_s):.3f} s, {p99:.3f} s", ""),
        ("events per second that a listener gets", f"{events_each / changing_s:.1f}", f"{1 / CHANGES_EVERY_S:g}"),
    ]


async def _listen(stack: Stack, job_id: str, delays_s: list[float], gate: asyncio.Semaphore) -> None:
    """Read a job's stream, and record the delay of each line of history."""
    address = urlsplit(stack.url)
    async with gate:  # the server accepts a limited number of connections at once
        reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=1 << 12)
        writer.write(
            f"GET /v1/jobs/{job_id}/events?include=event,progress HTTP/1.1\r\nHost: bench\r\n"
            f"Accept: text/event-stream\r\nAuthorization: Bearer {stack.token}\r\n\r\n".encode()
        )
        await reader.readuntil(b"retry:")
    while line := await reader.readline():
        _, marker, sent_at = line.partition(b'"sent":')
        if marker:
            delays_s.append(time.time() - float(sent_at.rstrip(b"}\n")))
    writer.close()


@contextmanager
def _changes(sessions: Sessions, job_id: str) -> Iterator[None]:
    """A job that writes a line of history and its progress, again and again."""
    stop = threading.Event()

    def change() -> None:
        step = 0
        while not stop.wait(CHANGES_EVERY_S):
            step += 1
            with sessions.begin() as session:
                touch(session, job_id, progress={"step": step})
                add_event(session, job_id, EventKind.CHECKPOINT_SAVED, data={"sent": time.time()})

    thread = threading.Thread(target=change, name="a job")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _wait_for_all(service: Service) -> None:
    while _listening(service) < LISTENERS:
        time.sleep(0.2)


def _listening(service: Service) -> float:
    text = service._wire.send("GET", "/metrics").text
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith("hora_live_listeners "))


async def _spent(process: psutil.Process, seconds: float) -> float:
    """The share of a core that a process uses during this time."""
    before, started_at = sum(process.cpu_times()[:2]), time.perf_counter()
    await asyncio.sleep(seconds)
    return float(sum(process.cpu_times()[:2]) - before) / (time.perf_counter() - started_at)


def _allow_files(count: int) -> None:
    """Allow this process and its children to open so many sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(count, hard)), hard))
