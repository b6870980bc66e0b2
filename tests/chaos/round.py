"""One round of chaos: its own stack, its people, the monkey, and the checks during the round and after it.

Called by `python -m tests.chaos` and by the test beside it.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from hora.service import HoraError, Service
from hora.stack.control import Stack
from tests.chaos import verdict
from tests.chaos.census import Census
from tests.chaos.monkey import Monkey
from tests.chaos.people import Person
from tests.chaos.script import Script
from tests.chaos.stage import Stage, connect
from tests.chaos.witness import call_witness, late_points, notes_of, unfinished
from tests.waiting import slowdown

LEASE_S = 15.0
HEALS_WITHIN_S = 300.0  # the limit for all jobs to end after the last disturbance; longer on a busy machine
_RELEASED_WITHIN_S = 10.0
SLOTS = 3
# The shortest times with which a machine with two busy cores loses no lease by itself.
TIMES = {
    "HORA_LEASE_S": str(LEASE_S),
    "HORA_LEASE_RENEWAL_S": "1",
    "HORA_HEARTBEAT_PERIOD_S": "1",
    "HORA_HOST_TIMEOUT_S": "6",
    "HORA_CLAIM_TIMEOUT_S": "30",
    "HORA_RECONCILE_PERIOD_S": "0.5",
    "HORA_ORDERS_PERIOD_S": "0.5",
    "HORA_SAVE_GRACE_S": "15",
    "HORA_RESTART_BACKOFF_S": "0.2",
    "HORA_RESTART_BACKOFF_LIMIT_S": "1",
}


@dataclass(frozen=True)
class Round:
    """The result of a round."""

    seed: int
    failures: Sequence[str]  # a sentence for each; empty if all checks passed
    lines: Sequence[str]  # the printed report
    took_s: float


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def run_round(script: Script, home: Path, *, say: Callable[[str], None] = lambda _: None) -> Round:
    """Run a round on a stack below `home`, and check the result."""
    begun, lines = time.monotonic(), []

    def report(line: str) -> None:
        lines.append(line)
        say(line)

    report(f"seed {script.seed}: {len(script.jobs)} jobs, {len(script.disturbances)} disturbances, in {home}")
    stack = Stack(home, port=0, slots=SLOTS)
    with _environment(TIMES):
        stack.start(stays=False)
    try:
        failures = _run_on(stack, script, report)
    finally:
        stack.stop()
    failures += [f"after the stack's end {sentence}" for sentence in verdict.processes_left(home.resolve())]
    took_s = time.monotonic() - begun
    report(f"seed {script.seed}: {'; '.join(failures) if failures else 'all checks passed'} ({took_s:.0f} s)")
    return Round(script.seed, failures, lines, took_s)


def _run_on(stack: Stack, script: Script, report: Callable[[str], None]) -> list[str]:
    with ExitStack() as end:
        client = end.enter_context(Service(stack.url, stack.token, timeout_s=5))
        with connect(stack.database_url) as connection, connection.transaction():
            call_witness(connection)
        stage = Stage(stack.database_url, script)
        census = Census(stack.home.resolve(), lambda: stage.rows.slots)
        people = [Person(job, client, stage, seed=script.seed) for job in script.jobs]
        threads: list[Stage | Census | Person] = [stage, census, *people]
        for thread in threads:
            thread.start()
            end.callback(thread.stop)
        Monkey(stack, stage, script, lease_s=LEASE_S, say=report).run()
        report(f"{stage.elapsed_s:6.1f} s: the disturbances are over at {stage.position:.2f}")
        failures = _unsettled(stage, people)
        report(f"{stage.elapsed_s:6.1f} s: every job is over, or paused" if not failures else "not every job has ended")
        failures += _failed_checks(stack, client, people)
        report(_summary(client))
        report(f"{census.looks} looks at the processes, {census.longest_gap_s:.1f} s apart at most,"
               f" {census.most_ranks} ranks at once at most")  # fmt: skip
        return [*census.violations, *stage.violations, *failures]


def _unsettled(stage: Stage, people: Sequence[Person]) -> list[str]:
    """Wait until every person is done and every job is over or stays paused. Returns the exceptions after the limit."""

    def unsettled_now() -> list[str]:
        waiting = [f"{person.name} is not done" for person in people if person.is_alive()]
        for person in people:
            row = stage.job(person.planned.name)
            if row is not None and not row.is_over and not (person.stays_paused and row.status == "queued"):
                waiting.append(f"{person.name} ({row.job_id}) is {row.status}, attempt {row.attempt}")
        return waiting

    limit_s = HEALS_WITHIN_S * slowdown()
    give_up_at = time.monotonic() + limit_s
    while (sentences := unsettled_now()) and time.monotonic() < give_up_at:
        time.sleep(0.2)
    return [f"{limit_s:.0f} s after the last disturbance {sentence}" for sentence in sentences]


def _failed_checks(stack: Stack, client: Service, people: Sequence[Person]) -> list[str]:
    home = stack.home.resolve()
    failures = [trouble for person in people for trouble in person.troubles]
    limit_s = _RELEASED_WITHIN_S * slowdown()
    failures += _left_after(limit_s, lambda: verdict.slots_not_free(client.hosts()))
    failures += _left_after(limit_s, lambda: verdict.processes_left(home))
    jobs = {job["id"]: job for job in client.jobs()}
    failures += verdict.lost_jobs(people, list(jobs.values()))
    for person in people:
        job = jobs.get(person.job_id or "")
        if job is not None:
            failures += verdict.wrong_status(person, job)
            failures += verdict.forbidden_moves(person.planned.name, job, client.events(job["id"]))
    failures += verdict.curves_of(client, people, jobs)
    with connect(stack.database_url) as connection:
        failures += notes_of(connection) + late_points(connection) + unfinished(connection)
        failures += verdict.late_checkpoints(home / "runs", connection)
    return failures


def _left_after(limit_s: float, check: Callable[[], list[str]]) -> list[str]:
    """Repeat a check until it finds no failure. Returns the failures that are left after `limit_s`."""
    give_up_at = time.monotonic() + limit_s
    while True:
        try:
            failures = check()
        except HoraError as error:
            failures = [str(error)]
        if not failures or time.monotonic() > give_up_at:
            return failures
        time.sleep(0.1)


def _summary(client: Service) -> str:
    """The statuses of the jobs, and the end reasons of their attempts."""
    jobs = list(client.jobs())
    statuses = Counter(job["status"] for job in jobs)
    reasons = Counter(attempt["end_reason"] for job in jobs for attempt in client.attempts(job["id"]))
    count = sum(reasons.values())
    ends = ", ".join(f"{reason} {times}" for reason, times in reasons.most_common())
    return f"{', '.join(f'{times} {status}' for status, times in statuses.items())}; {count} attempts: {ends}"
