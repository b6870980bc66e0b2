"""One round of chaos: a stack of its own, its people, the monkey, and what is found wrong while and after it.

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
HEALS_WITHIN_S = 300.0  # all jobs are over then, after the last disturbance; longer on a busy machine
_RELEASED_WITHIN_S = 10.0
SLOTS = 3
# As short as a machine with two busy cores keeps them without losing leases by itself.
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
    """What came of a round: `wrong` is empty where everything held."""

    seed: int
    wrong: Sequence[str]
    lines: Sequence[str]  # what happened, a line each
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


def play(script: Script, home: Path, *, say: Callable[[str], None] = lambda _: None) -> Round:
    """Play a round on a stack below `home`, and judge it."""
    begun, lines = time.monotonic(), []

    def report(line: str) -> None:
        lines.append(line)
        say(line)

    report(f"seed {script.seed}: {len(script.jobs)} jobs, {len(script.disturbances)} disturbances, in {home}")
    stack = Stack(home, port=0, slots=SLOTS)
    with _environment(TIMES):
        stack.start(stays=False)
    try:
        wrong = _play_on(stack, script, report)
    finally:
        stack.stop()
    wrong += [f"after the stack's end {sentence}" for sentence in verdict.left_over(home.resolve())]
    took_s = time.monotonic() - begun
    report(f"seed {script.seed}: {'; '.join(wrong) if wrong else 'everything held'} ({took_s:.0f} s)")
    return Round(script.seed, wrong, lines, took_s)


def _play_on(stack: Stack, script: Script, tell: Callable[[str], None]) -> list[str]:
    with ExitStack() as end:
        client = end.enter_context(Service(stack.url, stack.token, timeout_s=5))
        with connect(stack.database_url) as connection, connection.transaction():
            call_witness(connection)
        stage = Stage(stack.database_url, script)
        census = Census(stack.home.resolve(), lambda: stage.rows.slots)
        people = [Person(job, client, stage, seed=script.seed) for job in script.jobs]
        onlookers: list[Stage | Census | Person] = [stage, census, *people]
        for thread in onlookers:
            thread.start()
            end.callback(thread.stop)
        Monkey(stack, stage, script, lease_s=LEASE_S, say=tell).run()
        tell(f"{stage.elapsed_s:6.1f} s: the disturbances are over at {stage.position:.2f}")
        wrong = _healed(stage, people)
        tell(f"{stage.elapsed_s:6.1f} s: every job is over, or waits" if not wrong else "it did not heal")
        wrong += _judged(stack, client, people)
        tell(_summary(client))
        tell(f"{census.looks} looks at the processes, {census.longest_gap_s:.1f} s apart at most,"
             f" {census.most_ranks} ranks at once at most")  # fmt: skip
        return [*census.violations, *stage.violations, *wrong]


def _healed(stage: Stage, people: Sequence[Person]) -> list[str]:
    """Wait until every person is content and every job over, or waiting for good; what is not, after the limit."""

    def unsettled() -> list[str]:
        waiting = [f"{person.name} is still at it" for person in people if person.is_alive()]
        for person in people:
            row = stage.job(person.planned.name)
            if row is not None and not row.is_over and not (person.stays_paused and row.status == "queued"):
                waiting.append(f"{person.name} ({row.job_id}) is {row.status}, attempt {row.attempt}")
        return waiting

    limit_s = HEALS_WITHIN_S * slowdown()
    give_up_at = time.monotonic() + limit_s
    while (sentences := unsettled()) and time.monotonic() < give_up_at:
        time.sleep(0.2)
    return [f"{limit_s:.0f} s after the last disturbance {sentence}" for sentence in sentences]


def _judged(stack: Stack, client: Service, people: Sequence[Person]) -> list[str]:
    home = stack.home.resolve()
    wrong = [trouble for person in people for trouble in person.troubles]
    limit_s = _RELEASED_WITHIN_S * slowdown()
    wrong += _gone_within(limit_s, lambda: verdict.not_free(client.hosts()))
    wrong += _gone_within(limit_s, lambda: verdict.left_over(home))
    jobs = {job["id"]: job for job in client.jobs()}
    wrong += verdict.lost(people, list(jobs.values()))
    for person in people:
        job = jobs.get(person.job_id or "")
        if job is not None:
            wrong += verdict.wrongly_ended(person, job)
            wrong += verdict.off_the_table(person.planned.name, job, client.events(job["id"]))
    wrong += verdict.curves_of(client, people, jobs)
    with connect(stack.database_url) as connection:
        wrong += notes_of(connection) + late_points(connection) + unfinished(connection)
        wrong += verdict.late_checkpoints(home / "runs", connection)
    return wrong


def _gone_within(limit_s: float, look: Callable[[], list[str]]) -> list[str]:
    """What is still wrong after `limit_s`."""
    give_up_at = time.monotonic() + limit_s
    while True:
        try:
            found = look()
        except HoraError as error:
            found = [str(error)]
        if not found or time.monotonic() > give_up_at:
            return found
        time.sleep(0.1)


def _summary(client: Service) -> str:
    """How the jobs ended, and their attempts."""
    jobs = list(client.jobs())
    statuses = Counter(job["status"] for job in jobs)
    reasons = Counter(attempt["end_reason"] for job in jobs for attempt in client.attempts(job["id"]))
    count = sum(reasons.values())
    told = ", ".join(f"{reason} {times}" for reason, times in reasons.most_common())
    return f"{', '.join(f'{times} {status}' for status, times in statuses.items())}; {count} attempts: {told}"
