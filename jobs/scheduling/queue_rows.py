"""What `jobs.scheduling.queue_places` reads: how many jobs wait, what users have had, and the ranks of jobs by age."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    DateTime,
    Integer,
    SmallInteger,
    String,
    and_,
    column,
    func,
    literal,
    or_,
    select,
    true,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session
from sqlalchemy.types import TypeEngine

from jobs.db.tables import AccountStanding, Job
from jobs.lifecycle.rights_now import may_train
from jobs.scheduling.contenders import Account
from jobs.scheduling.fair_queue import OLDEST, PATIENCE_S, AccountUse
from jobs.scheduling.placement_rows import IN_LINE, IN_QUEUE, QUEUE_ORDER

_PATIENCE = timedelta(seconds=PATIENCE_S)
_JOB = (Job.id, Job.created_at, Job.priority, Job.project, Job.owner, Job.level)


class Lane(NamedTuple):
    """Waiting jobs of one account, with one priority and one level."""

    priority: int
    account: Account
    level: int


class Moment(NamedTuple):
    """When a job was submitted: the jobs of a lane come by it. Jobs of one study have equal times."""

    created_at: datetime
    job_id: str


def account_uses(session: Session) -> dict[Account, AccountUse]:
    """What each account had when the last pass ran. Empty: the queue is by age, or nothing waited then."""
    rows = session.execute(
        select(
            AccountStanding.project, AccountStanding.user_name, AccountStanding.used_slot_s, AccountStanding.used_part,
            AccountStanding.entitled_part, AccountStanding.is_over,
        )
    )  # fmt: skip
    return {
        Account(project, user): AccountUse(used_slot_s, used_part, entitled_part, is_over)
        for project, user, used_slot_s, used_part, entitled_part, is_over in rows
    }


def lane_counts(session: Session) -> dict[Lane, int]:
    """How many jobs of each lane have a place in the queue. It reads only an index."""
    key = (Job.project, Job.owner, Job.priority, Job.level)
    lanes = select(*key, func.count().label("jobs")).where(IN_LINE).group_by(*key).subquery()
    rows = session.execute(select(lanes).where(may_train(lanes.c.owner, lanes.c.project)))
    return {Lane(priority, Account(project, user), level): count for project, user, priority, level, count in rows}


def lanes_of(session: Session, job_ids: Collection[str]) -> dict[Moment, Lane]:
    """The lanes of those of the jobs that have a place in the queue."""
    if not job_ids:
        return {}
    rows = session.execute(select(*_JOB).where(Job.id.in_(job_ids), IN_QUEUE))
    return {Moment(at, job_id): Lane(priority, Account(*of), level) for job_id, at, priority, *of, level in rows}


def oldest_jobs(session: Session) -> dict[Moment, Lane]:
    """The oldest jobs, if they have waited for so long that they come first, in their sequence."""
    is_its_own = and_(AccountStanding.project == Job.project, AccountStanding.user_name == Job.owner)
    rows = session.execute(
        select(*_JOB)
        .outerjoin(AccountStanding, is_its_own)
        .where(
            IN_QUEUE,
            Job.created_at <= func.now() - _PATIENCE,  # the index has it, so it spares most rows
            Job.queued_at <= func.now() - _PATIENCE,
            or_(AccountStanding.project.is_(None), AccountStanding.used_part <= AccountStanding.entitled_part),
        )
        .order_by(*QUEUE_ORDER)
        .limit(OLDEST)
    )
    return {Moment(at, job_id): Lane(priority, Account(*of), level) for job_id, at, priority, *of, level in rows}


def counts_between(
    session: Session, groups: Mapping[Lane, int], times: Sequence[datetime], *, without: Collection[str]
) -> dict[int, list[int]]:
    """How many jobs of each group of lanes were submitted before each of these times, which are sorted."""
    of = _table(groups)
    interval = func.width_bucket(Job.created_at, literal(list(times), ARRAY(DateTime(timezone=True)))).label("interval")
    rows = session.execute(
        select(of.c.group, interval, func.count())
        .join(Job, and_(*_is_in(of)))
        .where(Job.created_at < times[-1], Job.id.not_in(list(without)))
        .group_by(of.c.group, interval)
    )
    counts = {group: [0] * len(times) for group in groups.values()}
    for group, number, count in rows:
        counts[group][number] = count
    return {group: list(accumulate(each)) for group, each in counts.items()}


def ranks_among_equals(
    session: Session, groups: Mapping[Lane, int], moments: Collection[Moment], *, without: Collection[str]
) -> dict[str, int]:
    """The ranks of jobs, from 1, among those of their group that were submitted at the same time: by their ids."""
    of = _table(groups)
    rank = func.row_number().over(partition_by=(of.c.group, Job.created_at), order_by=Job.id).label("rank")
    equals = (
        select(Job.id, rank)
        .join(of, and_(*_is_in(of)))
        .where(Job.created_at.in_({moment.created_at for moment in moments}), Job.id.not_in(list(without)))
        .subquery()
    )
    rows = session.execute(select(equals).where(equals.c.id.in_([moment.job_id for moment in moments])))
    return {job_id: rank for job_id, rank in rows}  # noqa: C416 - a row is no pair to the type checker


def first_jobs(
    session: Session,
    groups: Mapping[Lane, int],
    *,
    after: tuple[int, Moment] | None,
    limit: int,
    without: Collection[str],
) -> Sequence[str]:
    """The first jobs of the lanes, by group and then by age. `after`: of this group, only jobs behind this moment."""
    of = _table(groups)
    behind = [] if after is None else [
        or_(of.c.group != after[0], tuple_(Job.created_at, Job.id) > tuple_(*map(literal, after[1])))
    ]  # fmt: skip
    jobs = (
        select(Job.id, Job.created_at)
        .where(*_is_in(of), *behind, Job.id.not_in(list(without)))
        .order_by(Job.created_at, Job.id)
        .limit(limit)
        .lateral()
    )
    query = select(jobs.c.id).select_from(of.join(jobs, true()))
    return session.scalars(query.order_by(of.c.group, jobs.c.created_at, jobs.c.id).limit(limit)).all()


def _is_in(of: Any) -> Sequence[ColumnElement[bool]]:
    """Whether a job is in a lane of the table. One index has these columns, and then the time of creation."""
    return (
        IN_LINE, Job.project == of.c.project, Job.owner == of.c.owner, Job.priority == of.c.priority,
        Job.level == of.c.level,
    )  # fmt: skip


def _table(groups: Mapping[Lane, int]) -> Any:
    """Lanes with their groups as a table: an array for each column, as thousands of lanes need thousands of values."""
    columns: dict[str, tuple[TypeEngine[Any], list[object]]] = {
        "group": (Integer(), [*groups.values()]),
        "priority": (Integer(), [lane.priority for lane in groups]),
        "project": (String(), [lane.account.project for lane in groups]),
        "owner": (String(), [lane.account.user for lane in groups]),
        "level": (SmallInteger(), [lane.level for lane in groups]),
    }
    arrays: list[ColumnElement[Any]] = [literal(values, ARRAY(kind)) for kind, values in columns.values()]
    named = [column(name, kind) for name, (kind, _) in columns.items()]
    return func.unnest(*arrays).table_valued(*named, name="lanes").render_derived()
