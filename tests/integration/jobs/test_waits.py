"""Jobs that wait for others: when they are released, when they are cancelled, and that nobody waits for ever."""

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import func, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import Job, JobEvent, JobWait, User, Webhook, WebhookDelivery
from jobs.lifecycle import leases
from jobs.lifecycle.named_jobs import lock_named
from jobs.lifecycle.store import Lease, pause, resume, settle_overlooked
from jobs.model.problems import InvalidSpec
from jobs.model.spec import spec_from
from jobs.model.states import TERMINAL, EndReason, EventKind, Status
from jobs.runtime.settings import Settings
from jobs.scheduling.placement_rows import next_page
from jobs.scheduling.queue import standings
from tests.integration.jobs import job_rows
from tests.integration.jobs.test_races import at_once
from tests.integration.jobs.writing import change, write
from tests.waiting import until
from worker.retention import Retention

GOOD, BAD = EndReason.COMPLETED, EndReason.OUT_OF_MEMORY


def a_job(sessions: Sessions, *after: str, **fields: object) -> str:
    return job_rows.a_job(sessions, after=list(after), **fields)


def placeable(sessions: Sessions) -> set[str]:
    """The jobs that a pass of the dispatcher would look at."""
    with sessions() as session:
        return {job.job_id for job in next_page(session, None, limit=1000).jobs}


def begun(sessions: Sessions, job_id: str) -> Lease:
    """The lease of the first attempt of a job, on a host of its own."""
    assert job_id in placeable(sessions), "it is placed too early"
    job_rows.a_host(sessions, job_id)
    return job_rows.an_attempt(sessions, job_id, host=job_id)


def run(sessions: Sessions, job_id: str, reason: EndReason = GOOD) -> None:
    job_rows.end_attempt(sessions, begun(sessions, job_id), reason)


def fate(sessions: Sessions, job_id: str) -> tuple[Status, EndReason | None, str | None]:
    job = job_rows.the_job(sessions, job_id)
    return job.status, job.end_reason, job.error


def waiting_reason(sessions: Sessions, job_id: str) -> str:
    with sessions() as session:
        standing = standings(session, [job_id], host_timeout_s=30)[job_id]
    assert standing.position is None
    return standing.reason


def test_a_job_is_placed_only_after_the_one_it_waits_for_has_succeeded(sessions: Sessions) -> None:
    first = a_job(sessions)
    second = a_job(sessions, first)
    before = job_rows.the_job(sessions, second)
    assert placeable(sessions) == {first}
    assert waiting_reason(sessions, second) == f"waits for job {first}, which is queued"
    lease = begun(sessions, first)
    assert waiting_reason(sessions, second) == f"waits for job {first}, which is launching"
    job_rows.end_attempt(sessions, lease, EndReason.HOST_LOST)  # it goes back to the queue
    assert placeable(sessions) == {first}
    job_rows.a_host(sessions)
    with pytest.raises(job_rows.NotPlaced):  # whatever a pass decided
        job_rows.an_attempt(sessions, second)
    job_rows.end_attempt(sessions, job_rows.an_attempt(sessions, first, host=first))
    assert placeable(sessions) == {second}
    after = job_rows.the_job(sessions, second)
    assert (after.created_at, after.revision) == (before.created_at, before.revision + 1), "it keeps its age"
    assert after.queued_at > before.queued_at, "it waits for slots only now"
    with sessions() as session:
        assert standings(session, [second], host_timeout_s=30)[second].position == 1
    job_rows.an_attempt(sessions, second)


def test_all_behind_a_job_that_fails_are_cancelled_with_its_name(sessions: Sessions) -> None:
    first, other = a_job(sessions), a_job(sessions)
    second = a_job(sessions, first, other)
    third = a_job(sessions, other, second)
    fourth, apart = a_job(sessions, third), a_job(sessions, other)
    with sessions.begin() as session:
        pause(session, third)
        session.add(User(name="me"))
        session.flush()
        session.add(Webhook(id="w", owner="me", url="https://example.com", events=["job.ended"], secret="s"))
    run(sessions, first, BAD)
    failed = f"job {first} failed (out_of_memory), and this job was to run after"
    ended = Status.CANCELLED, EndReason.DEPENDENCY
    assert fate(sessions, second) == (*ended, f"{failed} it")
    assert fate(sessions, third) == (*ended, f"{failed} job {second}, which waited for it")
    assert fate(sessions, fourth) == (*ended, f"{failed} job {third}, which waited for it")
    assert placeable(sessions) == {other}
    for job_id in (second, third, fourth):
        job = job_rows.the_job(sessions, job_id)
        assert job.ended_at is not None
        assert not job.waits_for_jobs
        assert job_rows.kinds(sessions, job_id)[-1] is EventKind.ENDED
    with sessions() as session:
        data = session.scalars(select(JobEvent.data).where(JobEvent.job_id == second).order_by(JobEvent.id.desc()))
        assert data.first() == {"status": "cancelled", "end_reason": "dependency", "error": f"{failed} it"}
        told = session.scalars(select(WebhookDelivery.subject_id)).all()
    assert sorted(told) == sorted([first, second, third, fourth])
    run(sessions, other)
    assert placeable(sessions) == {apart}
    assert job_rows.count(sessions, JobWait) == 0
    behind = a_job(sessions, apart)
    job_rows.cancel(sessions, apart)
    assert fate(sessions, behind)[2] == f"job {apart} was cancelled, and this job was to run after it"


def test_the_reason_names_the_jobs_before_it_and_says_which_are_paused(sessions: Sessions) -> None:
    first, other = a_job(sessions), a_job(sessions)
    second, third = a_job(sessions, first), a_job(sessions, first, other)
    several = [a_job(sessions) for _ in range(5)]
    named = ", ".join(f"{job_id} (queued)" for job_id in several[:3])
    last = a_job(sessions, *several, several[0])
    assert waiting_reason(sessions, last) == f"waits for 5 jobs: {named} and 2 more"
    with sessions.begin() as session:
        pause(session, first)
        pause(session, last)
    assert waiting_reason(sessions, last) == "paused"
    assert waiting_reason(sessions, second) == f"waits for job {first}, which is paused"
    assert waiting_reason(sessions, third) == f"waits for 2 jobs: {first} (paused), {other} (queued)"
    write(sessions, resume, first)
    lease = begun(sessions, first)
    write(sessions, pause, first)
    assert waiting_reason(sessions, second) == f"waits for job {first}, which is launching", "it still saves"
    job_rows.end_attempt(sessions, lease, EndReason.PAUSED)
    assert waiting_reason(sessions, second) == f"waits for job {first}, which is paused"


def test_weights_of_a_job_that_has_not_ended_are_waited_for(sessions: Sessions) -> None:
    first = a_job(sessions)
    second = a_job(sessions, model={"name": "lenet5", "weights": f"job:{first}"})
    both = a_job(sessions, first, model={"name": "lenet5", "weights": f"job:{first}"})
    assert placeable(sessions) == {first}
    run(sessions, first)
    assert placeable(sessions) == {second, both}
    later = a_job(sessions, first, model={"name": "lenet5", "weights": f"job:{first}"})
    assert later in placeable(sessions)


def test_a_job_is_not_written_that_could_never_run(sessions: Sessions) -> None:
    failed, good = a_job(sessions), a_job(sessions)
    run(sessions, failed, BAD)
    with pytest.raises(InvalidSpec) as caught:
        a_job(sessions, good, failed, "nowhere", model={"name": "lenet5", "weights": f"job:{failed}"})
    assert [(one.field, one.received) for one in caught.value.problems] == [
        ("after.1", failed), ("after.2", "nowhere"), ("model.weights", f"job:{failed}"),
    ]  # fmt: skip
    assert [one.message.partition(":")[0] for one in caught.value.problems] == [
        f"job {failed} failed (out_of_memory)", "there is no such job", f"job {failed} failed (out_of_memory)",
    ]  # fmt: skip
    assert job_rows.count(sessions, Job) == 2


@pytest.mark.parametrize("second_ends", [GOOD, BAD])
def test_the_last_two_jobs_that_end_at_the_same_moment_see_each_other(
    sessions: Sessions, second_ends: EndReason
) -> None:
    one, two = a_job(sessions), a_job(sessions)
    last = a_job(sessions, one, two)
    first_lease, second_lease = begun(sessions, one), begun(sessions, two)
    with sessions() as first, ThreadPoolExecutor(1) as pool:
        leases.end(first, first_lease, GOOD)  # not committed yet
        second = pool.submit(job_rows.end_attempt, sessions, second_lease, second_ends)
        until(lambda: job_rows.waiting_for_locks(sessions) == 1, what="the other end to wait")
        assert not second.done()
        first.commit()
        second.result(120)
    if second_ends is GOOD:
        assert placeable(sessions) == {last}
    else:
        assert fate(sessions, last)[1] is EndReason.DEPENDENCY
    assert job_rows.count(sessions, JobWait) == 0


def test_a_submission_and_the_end_of_the_job_that_it_names_take_turns(sessions: Sessions) -> None:
    first = a_job(sessions)
    lease = begun(sessions, first)
    spec = spec_from(job_rows.SPEC | {"after": [first]})
    with sessions() as submitting, ThreadPoolExecutor(1) as pool:
        second = job_rows.submit_once(submitting, spec).job.id
        ending = pool.submit(job_rows.end_attempt, sessions, lease)
        until(lambda: job_rows.waiting_for_locks(sessions) == 1, what="the end to wait for the submission")
        submitting.commit()
        ending.result(120)
    assert placeable(sessions) == {second}

    other = a_job(sessions)
    spec = spec_from(job_rows.SPEC | {"after": [other]})
    lease = begun(sessions, other)
    with sessions() as ending_session, ThreadPoolExecutor(1) as pool:
        leases.end(ending_session, lease, GOOD)

        def submit() -> tuple[Status, str]:
            with sessions.begin() as session:
                seen = lock_named(session, [spec])[other].status
                return seen, job_rows.submit_once(session, spec).job.id

        submitted = pool.submit(submit)
        until(lambda: job_rows.waiting_for_locks(sessions) == 1, what="the submission to wait for the end")
        ending_session.commit()
        seen, third = submitted.result(120)
    assert seen is Status.SUCCEEDED
    assert placeable(sessions) == {second, third}


def test_what_an_older_version_ended_or_left_waiting_is_settled_later(sessions: Sessions, tmp_path: Path) -> None:
    good, bad, open_, stranded = (a_job(sessions) for _ in range(4))
    released, cancelled, waiting = a_job(sessions, good), a_job(sessions, bad), a_job(sessions, open_)
    further = a_job(sessions, cancelled)
    with sessions.begin() as session:
        for job_id, status in ((good, Status.SUCCEEDED), (bad, Status.FAILED)):
            session.execute(update(Job).where(Job.id == job_id).values(status=status, ended_at=func.now()))
        session.execute(update(Job).where(Job.id == stranded).values(waits_for_jobs=True))
    assert placeable(sessions) == {open_}
    Retention(sessions, Settings(home=tmp_path)).tidy()
    with sessions.begin() as session:
        assert not settle_overlooked(session)
    assert placeable(sessions) == {open_, released, stranded}
    assert fate(sessions, further)[2] == (
        f"job {bad} failed, and this job was to run after job {cancelled}, which waited for it"
    )
    assert fate(sessions, waiting)[0] is Status.QUEUED
    assert job_rows.the_job(sessions, waiting).waits_for_jobs


def placed_by_an_older_version(sessions: Sessions, job_id: str) -> Lease:
    """The lease of a job that an older version placed although it waits."""
    change(sessions, update(Job).where(Job.id == job_id).values(waits_for_jobs=False))
    lease = begun(sessions, job_id)
    change(sessions, update(Job).where(Job.id == job_id).values(waits_for_jobs=True))
    return lease


def test_a_job_that_an_older_version_placed_goes_on_when_the_one_before_it_fails(sessions: Sessions) -> None:
    bad = a_job(sessions)
    placed, waiting = a_job(sessions, bad), a_job(sessions, bad)
    behind_it, behind_both = a_job(sessions, placed), a_job(sessions, waiting, placed)
    lease = placed_by_an_older_version(sessions, placed)
    run(sessions, bad, BAD)
    assert fate(sessions, waiting)[1] is fate(sessions, behind_both)[1] is EndReason.DEPENDENCY
    assert fate(sessions, behind_it)[0] is Status.QUEUED, "its job still runs"
    job_rows.end_attempt(sessions, lease, EndReason.HOST_LOST)  # it goes back to the queue
    assert placeable(sessions) == {placed}
    job_rows.end_attempt(sessions, job_rows.an_attempt(sessions, placed, host=placed))
    assert placeable(sessions) == {behind_it}
    assert job_rows.count(sessions, JobWait) == 0


def a_graph(sessions: Sessions, random: Random, *, jobs: int) -> dict[str, list[str]]:
    """Jobs that wait for some of those before them, the oldest first."""
    graph: dict[str, list[str]] = {}
    for _ in range(jobs):
        after = random.sample(list(graph), min(len(graph), random.choice([0, 1, 1, 2, 3])))
        graph[a_job(sessions, *after)] = after
    return graph


@pytest.mark.parametrize("seed", range(4))
def test_nobody_waits_for_ever_and_nobody_is_placed_too_early(sessions: Sessions, seed: int) -> None:
    """Jobs are placed, paused, resumed and cancelled, and end in all ways. Each step leaves the right rows."""
    random = Random(seed)  # noqa: S311 - nothing secret
    graph, live = a_graph(sessions, random, jobs=14), dict[str, Lease]()
    for _ in range(400):
        statuses = check_all(sessions, graph, live)
        unended = [job_id for job_id, status in statuses.items() if status not in TERMINAL]
        if not unended:
            return
        chosen, act = random.choice(unended), random.random()
        if live and act < 0.45:
            ending = random.choice(sorted(live))
            job_rows.end_attempt(
                sessions, live.pop(ending), random.choice([GOOD, GOOD, GOOD, EndReason.EARLY_STOPPED, BAD])
            )
        elif (ready := sorted(placeable(sessions))) and act < 0.9:
            chosen = random.choice(ready)
            live[chosen] = begun(sessions, chosen)
        elif act < 0.92:
            job_rows.cancel(sessions, chosen)
        else:
            with sessions.begin() as session:
                (pause if act < 0.95 else resume)(session, chosen)
    raise AssertionError(f"not at rest: {check_all(sessions, graph, live)}")


def check_all(sessions: Sessions, graph: Mapping[str, list[str]], live: Collection[str]) -> dict[str, Status]:
    """Compare every job with what those before it became. Returns the statuses."""
    with sessions() as session:
        rows = {job.id: job for job in session.scalars(select(Job))}
        waits = {(row.job_id, row.on_job_id) for row in session.scalars(select(JobWait))}
    ready, status = placeable(sessions), {job_id: rows[job_id].status for job_id in graph}
    for job_id, after in graph.items():
        job, became = rows[job_id], {status[other] for other in after}
        waits_for = {other for other in after if status[other] not in TERMINAL}
        if job.status in TERMINAL:
            waits_for = set()
        assert {other for mine, other in waits if mine == job_id} == waits_for
        assert job.waits_for_jobs == bool(waits_for)
        if became & {Status.FAILED, Status.CANCELLED}:
            assert job.status is Status.CANCELLED, "it would wait for ever"
            assert job.end_reason in (EndReason.DEPENDENCY, EndReason.CANCELLED)
        elif job.status is not Status.CANCELLED and became - {Status.SUCCEEDED}:
            assert job.status is Status.QUEUED, "it runs too early"
            assert job_id not in ready
        else:
            assert job.end_reason is not EndReason.DEPENDENCY
            is_free = job.status is Status.QUEUED and job.paused_at is None and job_id not in live
            assert (job_id in ready) == is_free
    return status


@pytest.mark.parametrize("seed", range(3))
def test_many_ends_at_once_do_not_lock_each_other_out(sessions: Sessions, seed: int) -> None:
    """Jobs end, and jobs behind them are cancelled and submitted, at the same moment."""
    random = Random(seed)  # noqa: S311 - nothing secret
    graph = a_graph(sessions, random, jobs=16)
    roots = [job_id for job_id, after in graph.items() if not after]
    waiting = [job_id for job_id, after in graph.items() if after]
    ends = [(begun(sessions, job_id), random.choice([GOOD, GOOD, BAD])) for job_id in roots]
    named = random.sample(waiting, min(3, len(waiting)))

    def submit() -> None:
        try:
            graph[a_job(sessions, *reversed(named))] = named
        except InvalidSpec:
            return

    actions = [
        lambda lease=lease, reason=reason: job_rows.end_attempt(sessions, lease, reason) for lease, reason in ends
    ]
    actions += [
        lambda job_id=job_id: job_rows.cancel(sessions, job_id) for job_id in random.sample(waiting, len(waiting) // 3)
    ]
    at_once([*actions, submit])
    check_all(sessions, graph, [])
