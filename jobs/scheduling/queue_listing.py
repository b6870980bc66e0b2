"""The queue, page by page, with the accounts in the sequence of their turns. Called by the api."""

import json
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import TypeAdapter
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from jobs.db import cursors
from jobs.db.cursors import Text, positions
from jobs.db.tables import Attempt, Job
from jobs.model.states import Status
from jobs.scheduling.contenders import Account
from jobs.scheduling.forecast_rows import forecast_accuracy
from jobs.scheduling.queue import standings
from jobs.scheduling.queue_places import Place, Position, QueueSequence
from jobs.views.queue import AccountView, AccuracyView, QueuedJobView, QueueView

_MOST_ACCOUNTS = 100
_BY_PLACE: TypeAdapter[Position] = positions(bool, int, Text, Text, int, cursors.Moment, Text)


def queue_listing(
    session: Session,
    *,
    host_timeout_s: float,
    limit: int,
    cursor: str | None = None,
    project: str | None = None,
    owner: str | None = None,
    policy: Literal["fair", "fifo"] = "fair",
) -> QueueView:
    """A page of the queue. Raises `InvalidCursor`.

    `policy` is that of a queue without jobs. If there are some, and no pass has stored accounts, it is `fifo`.
    """
    of = _cursors_of(project, owner)
    last = None if cursor is None else Position(*cursors.decode(session, cursor, by=_BY_PLACE, of=of))
    sequence = QueueSequence(session)
    places = sequence.jobs_after(last, limit=limit + 1, project=project, owner=owner)
    page = dict(places[:limit])
    items = _job_views(session, page, sequence, host_timeout_s=host_timeout_s)
    next_cursor = None
    if len(places) > limit and items:
        next_cursor = cursors.encode(session, _position_of(items[-1], page[items[-1].id]), by=_BY_PLACE, of=of)
    accounts = [one for one in _accounts(sequence) if project in (None, one.project) and owner in (None, one.user)]
    queued = session.execute(select(func.count()).where(Job.status == Status.QUEUED)).scalar_one()
    accuracy = forecast_accuracy(session)
    if sequence.uses or sequence.total:
        policy = "fair" if sequence.uses else "fifo"
    return QueueView(
        items=items,
        next_cursor=next_cursor,
        policy=policy,
        total=sequence.total,
        held_back=max(queued - sequence.total, 0),
        accounts=_account_views(session, sequence, accounts[:_MOST_ACCOUNTS]),
        more_accounts=max(len(accounts) - _MOST_ACCOUNTS, 0),
        forecast=None if accuracy is None else AccuracyView.model_validate(accuracy),
    )


def _cursors_of(project: str | None, owner: str | None) -> str:
    """What the cursors of the queue with these filters belong to."""
    return json.dumps(["queue", project, owner])


def _job_views(
    session: Session, places: Mapping[str, Place], sequence: QueueSequence, *, host_timeout_s: float
) -> list[QueuedJobView]:
    standing_of = standings(session, list(places), host_timeout_s=host_timeout_s, sequence=sequence)
    rows = session.execute(
        select(
            Job.id, Job.name, Job.owner, Job.project, Job.study_id, Job.gpus, Job.priority, Job.level, Job.created_at,
            Job.queued_at,
        ).where(Job.id.in_(list(places)))
    )  # fmt: skip
    views = [
        QueuedJobView(
            id=job.id, name=job.name, owner=job.owner, project=job.project, study=job.study_id, gpus=job.gpus,
            priority=job.priority, position=places[job.id].number, turn=places[job.id].stretch.turn_number,
            level=job.level, created_at=job.created_at, queued_at=job.queued_at, reason=standing_of[job.id].reason,
            starts_in_s=standing_of[job.id].starts_in_s,
        )
        for job in rows
        if job.id in standing_of
    ]  # fmt: skip
    return sorted(views, key=lambda view: view.position)


def _position_of(job: QueuedJobView, place: Place) -> Position:
    return Position(bool(place.stretch.oldest), job.priority, job.project, job.owner, job.level, job.created_at, job.id)


def _accounts(sequence: QueueSequence) -> list[Account]:
    """The accounts in the sequence of their turns. None if nobody takes turns."""
    if not sequence.uses:
        return []

    def turn(account: Account) -> tuple[bool, float, Account]:
        use = sequence.use_of(account)
        return use.is_over, use.used_part / max(use.entitled_part, 1e-9), account

    return sorted(sequence.uses.keys() | sequence.queued.keys(), key=turn)


def _account_views(session: Session, sequence: QueueSequence, accounts: Sequence[Account]) -> list[AccountView]:
    held = session.execute(
        select(Job.project, Job.owner, func.sum(Attempt.gpus))
        .join(Job, Job.id == Attempt.job_id)
        .where(Attempt.ended_at.is_(None))
        .group_by(Job.project, Job.owner)
    )
    slots = {Account(project, user): count for project, user, count in held}
    views = []
    for account in accounts:
        use = sequence.use_of(account)
        views.append(AccountView(
            project=account.project, user=account.user, used_part=use.used_part, entitled_part=use.entitled_part,
            used_slot_s=use.used_slot_s, is_over=use.is_over, queued=sequence.queued[account],
            running_slots=slots.get(account, 0),
        ))  # fmt: skip
    return views
