"""`hora doctor`: what this machine and its stack need, checked one by one. Each check says what to do.

hora.doctor.machine     what can be seen without a service
hora.doctor.cluster     what the service says of its hosts and jobs
"""

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from hora.connection import connect, home_path
from hora.doctor import cluster, machine
from hora.render.jobs import Finding
from hora.render.text import duration
from hora.service import HoraError, NotFound, ProblemError, Service

_MOST_JOBS = 1000  # looked at in each status


def examine() -> Iterator[Finding]:
    """Run every check, the quick ones first."""
    home = home_path()
    yield machine.python()
    yield machine.versions()
    yield machine.writable(home)
    yield machine.disk_space(home)
    yield machine.data_roots()
    yield from machine.ssh_keys()
    yield from service(home)
    yield machine.training()


def service(home: Path) -> Iterator[Finding]:
    """The service, and what it says of what it needs, of its hosts and of its jobs."""
    try:
        with connect() as client:
            yield from _of_the_api(client)
            yield from _guarded("hosts", lambda: cluster.of_hosts(client.hosts()))
            yield from _guarded("jobs", lambda: _jobs(client))
            yield from _guarded("clock", lambda: [clock(client)])
            yield from _guarded("processes", lambda: [machine.leftovers(home, _is_live(client))])
    except HoraError as error:
        yield Finding("api", "fail", str(error), "Start a stack with `hora up -d`, or set HORA_URL and HORA_TOKEN.")
        yield from machine.parts(home)


def _of_the_api(client: Service) -> Iterator[Finding]:
    """Whether the api is ready, and what it needs. Raises `ServiceUnavailable`."""
    try:
        ready = client.readiness()
    except ProblemError as error:
        yield Finding(
            "api", "fail", f"{client.url} is not ready: {error.detail or error.title}", cluster.advice_on(error)
        )
        return
    yield Finding("api", "ok", f"{client.url} is ready")
    yield from cluster.of_needs(ready)


def _jobs(client: Service) -> Iterator[Finding]:
    waiting = list(islice(client.jobs(status="queued", sort="created_at"), _MOST_JOBS))
    placed = list(islice(client.jobs(status="launching,running"), _MOST_JOBS))
    yield cluster.stuck(waiting, client.hosts())
    yield cluster.restarted([*waiting, *placed])


def _is_live(client: Service) -> Callable[[str, int], bool]:
    def is_live(job_id: str, number: int) -> bool:
        try:
            job = client.job(job_id)
        except NotFound:
            return False
        return job["status"] in ("launching", "running") and job["attempt"] == number

    return is_live


def clock(client: Service) -> Finding:
    """This clock and the service's agree: times are compared across machines."""
    before = time.time()
    there = client.clock()
    apart_s = abs(there - datetime.fromtimestamp((before + time.time()) / 2, UTC)).total_seconds()
    told = f"{duration(max(apart_s - 1, 0))} apart"  # the service tells whole seconds
    if apart_s > 6:
        return Finding("clock", "warn", told, cluster.TIME_SERVER)
    return Finding("clock", "ok", told)


def _guarded(check: str, run: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    try:
        yield from run()
    except ProblemError as error:
        yield Finding(check, "fail", str(error), cluster.advice_on(error))
