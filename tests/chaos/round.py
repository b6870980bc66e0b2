"""One round of chaos: its own site, its people, the monkey, and the checks during the round and after it.

Called by `python -m tests.chaos`.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from hora.service import HoraError, Service
from tests.chaos import shares, verdict
from tests.chaos.census import Census
from tests.chaos.library import Library
from tests.chaos.monkey import Monkey
from tests.chaos.people import Clients, Person
from tests.chaos.script import Script
from tests.chaos.shares import Undisturbed
from tests.chaos.site import Site
from tests.chaos.stage import Stage, connect
from tests.chaos.witness import call_witness, late_points, notes_of, unfinished
from tests.waiting import slowdown

LEASE_S = 15.0
HEALS_WITHIN_S = 300.0  # the limit for all jobs to end after the last disturbance; longer on a busy machine
_RELEASED_WITHIN_S = 10.0
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


def run_round(script: Script, folder: Path, *, say: Callable[[str], None]) -> list[str]:
    """Run a round on a site below `folder`. Returns a sentence for each failed check."""
    say(f"seed {script.seed}: {len(script.jobs)} jobs, {len(script.disturbances)} disturbances, in {folder}")
    site = Site(folder, TIMES | shares.SETTINGS, shares.SLOTS) if script.owners else Site(folder, TIMES)
    with site:
        failures = _run_on(site, script, say)
    failures += [f"after the stage's end {sentence}" for sentence in verdict.processes_left(site.homes)]
    say(f"seed {script.seed}: {'; '.join(failures) if failures else 'all checks passed'}")
    return failures


def _run_on(site: Site, script: Script, say: Callable[[str], None]) -> list[str]:
    with ExitStack() as end:
        services = [end.enter_context(Service(api.stack.url, site.token, timeout_s=5)) for api in site.apis]
        with connect(site.database_url) as connection, connection.transaction():
            call_witness(connection)
            if script.owners:
                shares.make_room_soon(connection)
        undisturbed = Undisturbed(services[0]) if script.owners else None
        stage = Stage(site.database_url, script)
        census = Census(site.homes, lambda: stage.rows.slots)
        for thread in (stage, census):
            thread.start()
            end.callback(thread.stop)
        ended = threading.Event()
        end.callback(ended.set)
        clients: dict[str | None, Clients] = {None: Clients(services, ended)}
        for owner in script.owners:
            token = services[0].create_token("chaos", user=owner)["token"]
            own = [end.enter_context(Service(api.stack.url, token, timeout_s=5)) for api in site.apis]
            clients[owner] = Clients(own, ended)
        people = [Person(job, clients[job.owner], stage, ended, seed=script.seed) for job in script.jobs]
        for person in people:
            person.start()
        library = Library(site.datasets, clients[None])
        Monkey(site, stage, script, library, lease_s=LEASE_S, say=say).run()
        say(f"{stage.elapsed_s:6.1f} s: the disturbances are over at {stage.position:.2f}")
        failures = _unsettled(stage, people, library)
        say(f"{stage.elapsed_s:6.1f} s: every job is over, or paused" if not failures else "not every job has ended")
        failures += _failed_checks(site, stage, services[0], people, library, undisturbed)
        if undisturbed is not None:
            turns = shares.turns(services[0], people)
            say(f"{len(turns)} attempts made room by fair shares: {'; '.join(turns)}")
            failures += [] if turns else ["no attempt made room by fair shares"]
        return [*census.violations, *failures]


def _unsettled(stage: Stage, people: Sequence[Person], library: Library) -> list[str]:
    """Wait until every person is done and every job is over or stays paused, and every dataset is validated.

    Returns the exceptions after the limit.
    """

    def unsettled_now() -> list[str]:
        waiting = [f"{person.name} is not done" for person in people if person.is_alive()]
        for person in people:
            row = stage.job(person.planned.name)
            if row is not None and not row.is_over and not (person.stays_paused and row.status == "queued"):
                waiting.append(f"{person.name} ({row.job_id}) is {row.status}, attempt {row.attempt}")
        return waiting or [*library.unsettled()]

    limit_s = HEALS_WITHIN_S * slowdown()
    sentences = _left_after(limit_s, unsettled_now)
    return [f"{limit_s:.0f} s after the last disturbance {sentence}" for sentence in sentences]


def _failed_checks(
    site: Site,
    stage: Stage,
    client: Service,
    people: Sequence[Person],
    library: Library,
    undisturbed: Undisturbed | None,
) -> list[str]:
    failures = [trouble for person in people for trouble in person.troubles]
    limit_s = _RELEASED_WITHIN_S * slowdown()
    failures += _left_after(limit_s, lambda: verdict.slots_not_free(client.hosts()))
    failures += _left_after(limit_s, lambda: verdict.processes_left(site.homes))
    others = library.job_ids | (undisturbed.job_ids if undisturbed is not None else set())
    jobs = {job["id"]: job for job in client.jobs() if job["id"] not in others}
    failures += verdict.lost_jobs(people, list(jobs.values()))
    for person in people:
        job = jobs.get(person.job_id or "")
        if job is not None:
            failures += verdict.wrong_status(person, job)
            failures += verdict.disk_faults_that_count(person.planned.name, client.attempts(job["id"]))
    failures += verdict.curves_of(client, people, jobs)
    failures += [] if undisturbed is None else undisturbed.losses(people, jobs)
    failures += library.failures()
    with connect(site.database_url) as connection:
        failures += notes_of(connection) + late_points(connection, stage.undated) + unfinished(connection)
        for home in site.homes:
            failures += verdict.late_checkpoints(home / "runs", connection, stage.undated)
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
