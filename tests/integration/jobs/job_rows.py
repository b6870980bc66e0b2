"""Jobs, hosts, attempts and leases that tests start from, written to the database as the service writes them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session, undefer_group

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Base, Host, Job, JobEvent, Slot, Study
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease, new_id, request_cancel, transition
from jobs.lifecycle.submission import Idempotency, StudyPlace, earlier_job, write_job, write_jobs
from jobs.model.plan import resolve_plan
from jobs.model.spec import Spec, spec_from
from jobs.model.states import EndReason, EventKind, Status
from jobs.scheduling import placing, registration
from jobs.scheduling.decisions import Placement, Share
from jobs.scheduling.registration import SlotInfo
from tests.integration.jobs.writing import change, write

SPEC = {"dataset": "digits", "batch_size": 64, "learning_rate": 0.001, "gpus": 2}


class NotPlaced(Exception):
    """The job is not queued any more, or not every slot was free."""


def a_job(sessions: Sessions, *, owner: str = "me", study: StudyPlace | None = None, **fields: Any) -> str:
    """Submit a job. Returns its id."""
    spec = spec_from(SPEC | fields)
    plan = resolve_plan(spec, None)
    with sessions.begin() as session:
        if study is not None:
            return write_jobs(session, [(spec, plan, study)], owner=owner)[0]
        return write_job(session, spec=spec, plan=plan, owner=owner).id


class Submission(NamedTuple):
    """A submitted job, and whether this submission created it."""

    job: Job
    created: bool


def submit_once(
    session: Session, spec: Spec, *, owner: str = "me", idempotency: Idempotency | None = None
) -> Submission:
    """Submit a job as the api does: a repeated key gives the first job again."""
    job = earlier_job(session, owner, idempotency)
    if job is not None:
        return Submission(job, created=False)
    job = write_job(session, spec=spec, plan=resolve_plan(spec, None), owner=owner, idempotency=idempotency)
    return Submission(job, created=True)


def a_host(
    sessions: Sessions, name: str = "ha", *, slots: int = 2, kind: str = "cpu", peers: str | None = None
) -> None:
    """Register a host with free slots; those with the same `peers` can work together."""
    slot_infos = [SlotInfo(index, kind, kind, f"{name}-{index}" if kind == "gpu" else None) for index in range(slots)]
    with sessions.begin() as session:
        registration.register(session, name, {"peers": peers}, slot_infos)
        session.execute(update(Host).where(Host.name == name).values(address=None if peers is None else name))


def a_mixed_host(
    sessions: Sessions, name: str = "ha", *models: tuple[str, int | None], cpus: int = 0, **info: Any
) -> None:
    """Register a host with GPUs of these models with so much memory, in GB, and CPU slots behind them."""
    gpus = [
        SlotInfo(index, "gpu", model, f"{name}-{index}", None if memory_gb is None else memory_gb * 10**9)
        for index, (model, memory_gb) in enumerate(models)
    ]
    shares = [SlotInfo(index, "cpu", "CPU share") for index in range(len(gpus), len(gpus) + cpus)]
    write(sessions, registration.register, name, info, [*gpus, *shares])


def an_attempt(sessions: Sessions, job_id: str, *, host: str = "ha", slots: Sequence[int] = (0, 1)) -> Lease:
    """Place a job. Raises `NotPlaced`."""
    placed = write(sessions, placing.place, [Placement(job_id, (Share(host, tuple(slots)),))], lease_s=60)
    if not placed:
        raise NotPlaced(job_id)
    return placed[0]


def a_claimed_attempt(sessions: Sessions, **fields: Any) -> Lease:
    """A job of two slots on host `ha`, placed and claimed."""
    a_host(sessions)
    lease = an_attempt(sessions, a_job(sessions, **fields))
    with sessions.begin() as session:
        assert leases.claim(session, lease.attempt_id, lease_s=60) == lease
    return lease


def a_running_attempt(sessions: Sessions, **fields: Any) -> Lease:
    """A claimed attempt whose first rank has started."""
    lease = a_claimed_attempt(sessions, **fields)
    write(sessions, leases.first_rank_started, lease, datetime.now(UTC))
    return lease


def a_job_that_is(sessions: Sessions, status: Status) -> str:
    """A job that was brought to `status` by legal transitions."""
    before = {
        Status.RUNNING: (Status.LAUNCHING,), Status.SUCCEEDED: (Status.LAUNCHING, Status.RUNNING),
        Status.FAILED: (Status.LAUNCHING,),
    }.get(status, ())  # fmt: skip
    job_id = a_job(sessions)
    with sessions.begin() as session:
        for step in (*before, status) if status is not Status.QUEUED else ():
            transition(session, job_id, step)
    return job_id


def a_study(sessions: Sessions, *, jobs: int = 2) -> tuple[str, list[str]]:
    """A study of one cell with this many queued jobs. Returns its id and those of the jobs."""
    spec = spec_from(SPEC)
    plan = resolve_plan(spec, None)
    with sessions.begin() as session:
        study = Study(
            id=new_id(), name="s", owner="me", base=SPEC, grid={"seed": [1]}, cells=[{"seed": 1}], repeats=jobs
        )
        session.add(study)
        session.flush()
        places = [(spec, plan, StudyPlace(study.id, 0, repeat, {})) for repeat in range(jobs)]
        return study.id, write_jobs(session, places, owner="me")


def add_past_run(sessions: Sessions, *, took_s: float, reason: EndReason = EndReason.COMPLETED, **fields: Any) -> None:
    """Add a job that ran on host `ha` for this long and ended."""
    lease = an_attempt(sessions, a_job(sessions, **fields), slots=range(fields["gpus"]))
    with sessions.begin() as session:
        past = func.now() - timedelta(seconds=took_s)
        session.execute(update(Attempt).where(Attempt.id == lease.attempt_id).values(created_at=past))
        leases.end(session, lease, reason)
        leases.release(session, lease.attempt_id)


def drain_host(sessions: Sessions, name: str) -> None:
    """Drain a host."""
    change(sessions, update(Host).where(Host.name == name).values(drained_at=func.now()))


def end_attempt(
    sessions: Sessions, lease: Lease, reason: EndReason = EndReason.COMPLETED, *, releases: bool = True
) -> None:
    """End an attempt, and release its slots if nothing else is said."""
    with sessions.begin() as session:
        leases.end(session, lease, reason)
        if releases:
            leases.release(session, lease.attempt_id)


def cancel(sessions: Sessions, job_id: str) -> Job:
    """Ask for the cancel of a job."""
    return write(sessions, request_cancel, job_id)


def reservations(sessions: Sessions) -> dict[str, str | None]:
    """The job for which each host's free slots are reserved."""
    with sessions() as session:
        return {host.name: host.kept_for for host in session.scalars(select(Host))}


def the_job(sessions: Sessions, job_id: str) -> Job:
    """A job's row as it is now, all of it."""
    with sessions() as session:
        return session.get_one(Job, job_id, options=[undefer_group("long")])


def the_attempt(sessions: Sessions, lease: Lease) -> Attempt:
    """An attempt's row as it is now."""
    with sessions() as session:
        return session.get_one(Attempt, lease.attempt_id)


def the_slots(sessions: Sessions, host: str = "ha") -> list[Slot]:
    """A host's slots by index."""
    with sessions() as session:
        return list(session.scalars(select(Slot).where(Slot.host == host).order_by(Slot.index)))


def holders(sessions: Sessions, host: str = "ha") -> list[int | None]:
    """The attempt that holds each slot of a host."""
    return [slot.attempt_id for slot in the_slots(sessions, host)]


def kinds(sessions: Sessions, job_id: str) -> list[EventKind]:
    """A job's history, oldest first."""
    with sessions() as session:
        query = select(JobEvent.kind).where(JobEvent.job_id == job_id).order_by(JobEvent.id)
        return list(session.scalars(query))


def waiting_for_locks(sessions: Sessions) -> int:
    """How many statements of this database wait for a lock."""
    with sessions() as session:  # a new transaction: within one, the view shows always the same
        blocked = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return session.scalar(text(blocked)) or 0


def count(sessions: Sessions, table: type[Any]) -> int:
    """How many rows a table has."""
    with sessions() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def expire_lease(sessions: Sessions, lease: Lease) -> None:
    """Let a lease expire."""
    with sessions.begin() as session:
        past = func.now() - timedelta(seconds=1)
        session.execute(update(Attempt).where(Attempt.id == lease.attempt_id).values(lease_expires_at=past))


def host_went_silent(sessions: Sessions, name: str = "ha", *, for_s: float = 3600) -> None:
    """Set the host's last heartbeat this far back."""
    with sessions.begin() as session:
        session.execute(
            update(Host).where(Host.name == name).values(heartbeat_at=func.now() - timedelta(seconds=for_s))
        )


def tables_with(sessions: Sessions, row_id: str) -> list[str]:
    """The tables in which the id is."""
    with sessions() as session:
        return [
            name for name in sorted(Base.metadata.tables)
            if session.scalar(text(f"SELECT count(*) FROM {name} AS row WHERE row::text LIKE '%{row_id}%'"))  # noqa: S608
        ]  # fmt: skip
