"""Figures over all jobs, attempts, slots and hosts for Prometheus. Called by the api's collector at each scrape.

All of them come from rows, so they are right whichever process answers and however often it restarts. Ended jobs do not
change: `Tally` adds them up once, and then reads only live and recently ended ones.
"""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Float,
    Integer,
    SQLColumnExpression,
    and_,
    case,
    cast,
    func,
    literal,
    or_,
    select,
)
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Host, Job, Slot
from jobs.model.states import EndReason, SlotState, Status
from jobs.scheduling.placement_rows import is_alive

WAIT_EDGES_S = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600)
LATENCY_EDGES_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)

# A transaction writes its own begin as an attempt's end, and commits later: until then nobody sees the end. So an end
# is settled only when it is older than any transaction gets.
_SETTLED_AFTER = timedelta(minutes=10)
_SETTLED_EVERY = timedelta(minutes=1)
OUT_OF_SERVICE = "out_of_service"  # a slot that would be free if its host were not lost, drained or without space


@dataclass
class Durations:
    """A histogram: how many durations lie between two edges, and above the last one; and their sum."""

    edges_s: Sequence[float]
    counts: Counter[int] = field(default_factory=Counter)  # by the edge's index
    sum_s: float = 0.0

    def cumulative(self) -> list[tuple[str, float]]:
        """The form of Prometheus: how many were at most each edge. The last edge is infinite."""
        so_far, buckets = 0, []
        for index, edge in enumerate([*map(str, map(float, self.edges_s)), "+Inf"]):
            so_far += self.counts[index]
            buckets.append((edge, float(so_far)))
        return buckets

    def add(self, index: int | None, count: int, sum_s: float | None) -> None:
        """Add `count` durations that belong to one edge. Index None: there are none yet."""
        if index is not None:
            self.counts[index] += count
            self.sum_s += sum_s or 0.0


@dataclass
class Totals:
    """What happened to all jobs and attempts so far."""

    jobs: Counter[Status] = field(default_factory=Counter)
    ended: Counter[EndReason] = field(default_factory=Counter)  # attempts
    live: int = 0  # attempts
    restarts: int = 0  # attempts after a job's first
    preemptions: int = 0  # attempts that were asked to make room
    waits: Durations = field(default_factory=lambda: Durations(WAIT_EDGES_S))  # queued to placed
    dispatches: Durations = field(default_factory=lambda: Durations(LATENCY_EDGES_S))  # placed to claimed
    launches: Durations = field(default_factory=lambda: Durations(LATENCY_EDGES_S))  # claimed to the first rank

    def copy(self) -> "Totals":
        """A copy, to add to."""
        timed = {
            name: Durations(one.edges_s, Counter(one.counts), one.sum_s)
            for name, one in (("waits", self.waits), ("dispatches", self.dispatches), ("launches", self.launches))
        }
        return Totals(Counter(self.jobs), Counter(self.ended), self.live, self.restarts, self.preemptions, **timed)


class Tally:
    """Adds up the totals. Safe to use from several threads."""

    def __init__(self) -> None:
        self._settled = Totals()
        self._until = datetime(1970, 1, 1, tzinfo=UTC)
        self._lock = threading.Lock()

    def totals(self, session: Session) -> Totals:
        """The totals of the rows as they are now."""
        with self._lock:
            until: datetime = session.execute(select(func.now())).scalar_one() - _SETTLED_AFTER
            if until - self._until >= _SETTLED_EVERY:
                settled = self._settled.copy()
                _add(session, settled, lambda at: and_(at > self._until, at <= until))
                self._settled, self._until = settled, until
            totals = self._settled.copy()
            _add(session, totals, lambda at: or_(at > self._until, at.is_(None)))
        return totals


def _add(session: Session, totals: Totals, is_counted: Any) -> None:
    """Add the jobs and attempts whose end fulfils `is_counted`. Those of imported runs say nothing of this service."""
    is_own = Job.run_id.is_(None)
    counted = select(Job.status, func.count()).where(is_counted(Job.ended_at), is_own).group_by(Job.status)
    for status, count in session.execute(counted):
        totals.jobs[status] += count
    spans = (
        (totals.waits, _seconds(Attempt.queued_at, Attempt.created_at)),
        (totals.dispatches, _seconds(Attempt.created_at, Attempt.claimed_at)),
        (totals.launches, _seconds(Attempt.claimed_at, Attempt.started_at)),
    )
    columns = [_edge(taken, durations.edges_s).label(f"edge_{i}") for i, (durations, taken) in enumerate(spans)]
    sums = [func.sum(taken) for _, taken in spans]
    restarts = func.count().filter(Attempt.number > 1)
    preemptions = func.count().filter(Attempt.preempt_requested_at.is_not(None))
    rows = session.execute(
        select(Attempt.end_reason, func.count(), restarts, preemptions, *sums, *columns)
        .join(Job, Job.id == Attempt.job_id)
        .where(is_counted(Attempt.ended_at), is_own)
        .group_by(Attempt.end_reason, *(column.name for column in columns))
    )
    for reason, count, restarted, preempted, *figures in rows:
        if reason is None:
            totals.live += count
        else:
            totals.ended[reason] += count
        totals.restarts += restarted
        totals.preemptions += preempted
        for (durations, _), sum_s, index in zip(spans, figures[:3], figures[3:], strict=True):
            durations.add(index, count, sum_s)


def _seconds(start: SQLColumnExpression[Any], end: SQLColumnExpression[Any]) -> ColumnElement[float]:
    """From one time to the other: null if either is missing, 0 if the clocks of two hosts reverse them."""
    taken = cast(func.extract("epoch", end - start), Float(53))
    return case((taken < 0, 0.0), else_=taken)


def _edge(seconds: ColumnElement[float], edges_s: Sequence[float]) -> ColumnElement[int]:
    """The index of the first edge that is not below `seconds`; the number of edges if there is none.

    `width_bucket` puts an edge's own value into the bucket above it, so it gets negated values.
    """
    negative = literal([-float(edge) for edge in reversed(edges_s)], ARRAY(Float(53)))
    return len(edges_s) - func.width_bucket(-seconds, negative, type_=Integer)


@dataclass(frozen=True)
class Queue:
    """Queued jobs: those that could be placed, paused ones, and those that wait after a failure."""

    waiting: int
    paused: int
    backing_off: int
    oldest_wait_s: float  # of the waiting ones; 0 where there is none


def queue(session: Session) -> Queue:
    """The figures of the queue."""
    paused = Job.paused_at.is_not(None)
    backing_off = and_(~paused, func.coalesce(Job.not_before > func.now(), False))
    waiting = and_(~paused, ~backing_off)
    oldest = func.extract("epoch", func.now() - func.min(Job.queued_at).filter(waiting))
    counts = (func.count().filter(state) for state in (waiting, paused, backing_off))
    row = session.execute(select(*counts, oldest).where(Job.status == Status.QUEUED)).one()
    return Queue(row[0], row[1], row[2], float(row[3] or 0.0))


def slots(session: Session, *, host_timeout_s: float) -> Mapping[tuple[str, str], int]:
    """How many slots of each kind are in each state, with every state of every kind that exists."""
    state = case(
        (Slot.quarantined_at.is_not(None), SlotState.QUARANTINED.value),
        (Slot.attempt_id.is_not(None), SlotState.LEASED.value),
        (Slot.retired_at.is_not(None), SlotState.RETIRED.value),
        (Slot.unhealthy.is_not(None), SlotState.UNHEALTHY.value),
        (Slot.in_use_by_others, SlotState.IN_USE_BY_OTHERS.value),
        (or_(_lost(host_timeout_s), Host.drained_at.is_not(None), Host.no_space.is_not(None)), OUT_OF_SERVICE),
        else_=SlotState.FREE.value,
    ).label("state")
    rows = session.execute(
        select(Slot.kind, state, func.count()).join(Host, Host.name == Slot.host).group_by(Slot.kind, state.name)
    ).all()
    states = [*(each.value for each in SlotState), OUT_OF_SERVICE]
    counts = {(kind, each): 0 for kind in sorted({row[0] for row in rows}) for each in states}
    return counts | {(kind, each): count for kind, each, count in rows}


def hosts(session: Session, *, host_timeout_s: float) -> Mapping[str, int]:
    """How many hosts are alive, alive but drained, alive but without space, and lost."""
    state = case(
        (_lost(host_timeout_s), "lost"),
        (Host.drained_at.is_not(None), "drained"),
        (Host.no_space.is_not(None), "no_space"),
        else_="alive",
    )
    rows = session.execute(select(state.label("state"), func.count()).group_by("state"))
    return {"alive": 0, "drained": 0, "no_space": 0, "lost": 0} | {row[0]: row[1] for row in rows}


def copies_behind(session: Session) -> int:
    """How many jobs wait for too long to be copied to the store. Those of a forgotten host do not count."""
    is_behind, of_host = Job.copies_behind.is_not(None), Host.name == Job.copies_behind["host"].astext
    return session.scalar(select(func.count()).select_from(Job).join(Host, of_host).where(is_behind)) or 0


def _lost(host_timeout_s: float) -> ColumnElement[bool]:
    return ~is_alive(host_timeout_s)
