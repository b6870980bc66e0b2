"""`hora doctor`: checks of this machine and of the service. Each says what to do.

hora.doctor.machine     checks that need no service
hora.doctor.store       checks of the store, as this machine reaches it
hora.doctor.slurm       checks of the Slurm pool, on a login node
hora.doctor.cluster     checks of what the service says about its hosts and jobs
"""

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from hora.connection import connect, home_path
from hora.doctor import cluster, machine
from hora.doctor.findings import Finding
from hora.doctor.slurm import slurm_findings
from hora.doctor.store import store_findings
from hora.extras import is_installed
from hora.render.text import duration
from hora.service import HoraError, NotFound, ProblemError, Service

_MOST_JOBS = 1000  # checked in each status


def examine() -> Iterator[Finding]:
    """Run every check, the quick ones first. A machine that runs no part of the service has fewer."""
    home = home_path()
    yield machine.python()
    yield machine.versions()
    if not is_installed("service"):
        yield machine.client_alone()
        yield from service()
        return
    yield machine.writable(home)
    yield from machine.disk_space(home)
    yield from machine.variables()
    yield machine.data_roots()
    yield from store_findings(home)
    yield from machine.ssh_keys()
    yield from service(home)
    yield from machine.scripts()
    yield machine.training()
    yield machine.gpus()
    yield from slurm_findings()


def service(home: Path | None = None) -> Iterator[Finding]:
    """The service, its database and broker, its hosts and its jobs. `home`: of the stack on this machine."""
    try:
        with connect() as client:
            yield from _api_findings(client)
            yield from _guarded("hosts", lambda: cluster.host_findings(client.hosts()))
            yield from _guarded("jobs", lambda: _jobs(client))
            yield from _guarded("clock", lambda: [clock(client)])
            if home is not None:
                yield from _guarded("processes", lambda: [machine.leftovers(home, _is_live(client))])
    except HoraError as error:
        if home is None:
            yield Finding("api", "fail", str(error), "Run `hora config set`, or set HORA_URL and HORA_TOKEN.")
            return
        yield Finding("api", "fail", str(error), "Start a stack with `hora up -d`, or set HORA_URL and HORA_TOKEN.")
        yield from machine.parts(home)


def _api_findings(client: Service) -> Iterator[Finding]:
    """The api, its database and its broker. Raises `ServiceUnavailable`."""
    try:
        ready = client.readiness()
    except ProblemError as error:
        yield Finding(
            "api", "fail", f"{client.url} is not ready: {error.detail or error.title}", cluster.advice_on(error)
        )
        return
    yield Finding("api", "ok", f"{client.url} is ready")
    yield from cluster.readiness_findings(ready)


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
    """The clocks of this machine and of the service agree: times are compared across machines."""
    before = time.time()
    service_time = client.clock()
    apart_s = abs(service_time - datetime.fromtimestamp((before + time.time()) / 2, UTC)).total_seconds()
    difference = f"{duration(max(apart_s - 1, 0))} apart"  # the service gives whole seconds
    if apart_s > 6:
        return Finding("clock", "warn", difference, cluster.TIME_SERVER)
    return Finding("clock", "ok", difference)


def _guarded(check: str, run: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    try:
        yield from run()
    except ProblemError as error:
        yield Finding(check, "fail", str(error), cluster.advice_on(error))
