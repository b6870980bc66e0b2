"""Writes submitted jobs, each with its first event and its Idempotency-Key. Called by `api.submitting.submissions`.

Every function works in the caller's transaction; the caller commits.

    IdempotencyConflict     the key was used before with another body
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session

from jobs.db.tables import IdempotencyKey, Job, JobEvent
from jobs.lifecycle import bursts, usage, waits
from jobs.lifecycle.dataset_refs import Ref, refs_of
from jobs.lifecycle.named_jobs import lock_named, problems_of_named, to_wait_for
from jobs.lifecycle.run_durations import key_of, work_key_of
from jobs.lifecycle.store import add_event, get_job, new_id
from jobs.model.job_names import name_of
from jobs.model.plan import Plan
from jobs.model.problems import InvalidSpec
from jobs.model.spec import Spec
from jobs.model.states import EventKind, Status
from jobs.model.stored_spec import stored_spec


class IdempotencyConflict(ValueError):
    """This Idempotency-Key was used before with another body."""


@dataclass(frozen=True)
class Idempotency:
    """A client's key for a submission, and the SHA-256 of the body of that submission."""

    key: str
    request_sha256: str


@dataclass(frozen=True)
class StudyPlace:
    """A job's place in a study: its cell in the grid and its repeat, both from 0, and the values of the cell."""

    id: str
    cell: int
    repeat: int
    values: Mapping[str, Any]


def earlier_job(session: Session, owner: str, idempotency: Idempotency | None) -> Job | None:
    """The job of the first submission with this key. Raises `IdempotencyConflict`.

    Call this before `write_job` in the same transaction: others with this key wait until the commit.
    """
    earlier = earlier_answer(session, owner, idempotency)
    if earlier is None or earlier.job_id is None:
        return None
    return get_job(session, earlier.job_id)


def write_job(session: Session, *, spec: Spec, plan: Plan, owner: str, idempotency: Idempotency | None = None) -> Job:
    """Write a queued job, its first event and its key.

    Raises `InvalidSpec` if its dataset was removed meanwhile, or a job that it names does not count any more.
    """
    refs, (awaited,) = refs_of(session, _sources([spec])), _awaited(session, [spec])
    job = Job(**_columns(spec, plan, owner, refs), waits_for_jobs=bool(awaited))
    bursts.join(session, job)
    usage.expect_levels(session, [job.id])
    waits.add_waits(session, {job.id: awaited})
    add_event(session, job.id, EventKind.SUBMITTED, data={"owner": owner})
    remember_answer(session, owner, idempotency, job_id=job.id)
    return job


def write_imported_job(
    session: Session, *, spec: Spec, plan: Plan, owner: str, run_id: str, created_at: datetime
) -> Job:
    """Write the job of a run that was trained without the service, as it was before its first attempt.

    It has no keys by which estimates find it: other machines say nothing of how long a job takes here.
    """
    columns = _columns(spec, plan, owner, refs={})
    unknown = {"run_key": None, "work_key": None}
    job = Job(**columns | unknown, run_id=run_id, created_at=created_at, queued_at=created_at)
    session.add(job)
    session.flush()
    return job


def write_jobs(session: Session, jobs: Sequence[tuple[Spec, Plan, StudyPlace]], *, owner: str) -> list[str]:
    """Write the jobs of a study and their first events; returns their ids. The queue keeps their sequence.

    Raises `InvalidSpec` as `write_job`.
    """
    refs = refs_of(session, _sources(spec for spec, _, _ in jobs))
    awaited = _awaited(session, [spec for spec, _, _ in jobs])
    rows = [
        {
            **_columns(spec, plan, owner, refs),
            "waits_for_jobs": bool(others),
            "study_id": place.id,
            "study_cell": place.cell,
            "study_repeat": place.repeat,
            "study_values": dict(place.values),
        }
        for (spec, plan, place), others in zip(jobs, awaited, strict=True)
    ]
    if rows:
        now = session.execute(select(func.now())).scalar_one()
        for position, row in enumerate(rows):
            row["created_at"] = now + timedelta(microseconds=position)  # equal times would be sorted by id
        session.execute(insert(Job), rows)
        usage.expect_levels(session, [row["id"] for row in rows])
        usage.raise_levels(session, rows[0]["study_id"])  # it may have trained others already
        waits.add_waits(session, {row["id"]: others for row, others in zip(rows, awaited, strict=True)})
        events = [{"job_id": row["id"], "kind": EventKind.SUBMITTED, "data": {"owner": owner}} for row in rows]
        session.execute(insert(JobEvent), events)
    return [row["id"] for row in rows]


def _awaited(session: Session, specs: Sequence[Spec]) -> list[list[str]]:
    """For each spec, the jobs that it names and that have not ended. Raises `InvalidSpec`."""
    named = lock_named(session, specs)
    problems = [problem for spec in specs for problem in problems_of_named(spec, named)]
    if problems:
        raise InvalidSpec(list(dict.fromkeys(problems)))
    return [to_wait_for(spec, named) for spec in specs]


def _sources(specs: Iterable[Spec]) -> set[str]:
    return {spec.dataset.source for spec in specs if spec.dataset is not None}


def _columns(spec: Spec, plan: Plan, owner: str, refs: Mapping[str, Ref]) -> dict[str, Any]:
    return {
        "id": new_id(),
        "name": name_of(spec, plan),
        "owner": owner,
        "project": spec.project,
        "status": Status.QUEUED,
        "spec": stored_spec(spec),
        "plan": plan.model_dump(mode="json"),
        "dataset_ref": None if spec.dataset is None else refs.get(spec.dataset.source),
        "code": spec.code,
        "labels": spec.labels,
        "gpus": spec.gpus,
        "priority": spec.priority,
        "run_key": key_of(spec),
        "work_key": work_key_of(spec),
    }


def earlier_answer(session: Session, owner: str, idempotency: Idempotency | None) -> IdempotencyKey | None:
    """The answer to the first request with this key. Raises `IdempotencyConflict`."""
    if idempotency is None:
        return None
    # Two requests with one key take turns here. The second one finds the row of the first.
    session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"{owner}\n{idempotency.key}", 0))))
    earlier = session.get(IdempotencyKey, (owner, idempotency.key))
    if earlier is not None and earlier.request_sha256 != idempotency.request_sha256:
        raise IdempotencyConflict(idempotency.key)
    return earlier


def remember_answer(
    session: Session,
    owner: str,
    idempotency: Idempotency | None,
    *,
    job_id: str | None = None,
    study_id: str | None = None,
) -> None:
    """Store the answer to the request with this key, for `earlier_answer`."""
    if idempotency is not None:
        digest = idempotency.request_sha256
        session.add(
            IdempotencyKey(owner=owner, key=idempotency.key, request_sha256=digest, job_id=job_id, study_id=study_id)
        )
        session.flush()
