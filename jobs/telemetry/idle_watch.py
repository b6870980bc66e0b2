"""Looks for jobs whose slots nobody uses, and says what follows: a warning, its withdrawal, a pause or an end.

Called by `worker.idle_watch`, by one worker at a time. How far the samples of an attempt were judged is in
`idle_stretches`, so any worker goes on where another one stopped.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

import numpy as np
from sqlalchemy import BigInteger, Float, RowMapping, cast, delete, exists, func, select
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.orm import Session, aliased

from jobs.db.binary_rows import streamed
from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Host, IdleStretch, Job, Project, Slot
from jobs.lifecycle import idle
from jobs.model.idle import is_idle_text, was_idle_text
from jobs.model.spec import IdleSpec
from jobs.telemetry.blocks import at_ticks, floats, integers, ticks_of
from jobs.telemetry.idle_stretches import SlotUse, Step, Stretch, extended, is_other_policy, step_after
from jobs.views.idle import IdleNotice

_log = logging.getLogger(__name__)

LOCK = 0x69646C65  # "idle": an advisory lock's number
_TICKS_PER_S = 1_000_000
_LOOK_BACK_S = 600.0  # samples before that are not read when a job is first watched, or was not for long
_MOST_GAP_S = 30.0  # between two samples of a slot; or of three periods
_CORE_COUNTS = 0.1  # at least: a busy core is 10 % of a CPU slot, however many cores that has
_MOST_SILENCE_S = 120.0  # a sampler keeps the readings of a minute while the database is away


@dataclass(frozen=True)
class _Rank:
    """A slot of an attempt. `scale` turns its sample into a share of the slot; None: its share is not known."""

    rank: int
    on_gpu: bool
    scale: float | None
    ahead: int  # ticks by which the clock of its host is ahead


@dataclass(frozen=True)
class _Watched:
    """A live attempt, what is to happen if nobody uses its slots, and what is known so far."""

    attempt_id: int
    job_id: str
    number: int
    gpus: int
    policy: IdleSpec | None
    notice: IdleNotice | None
    stretch: Stretch
    ranks: Sequence[_Rank] = field(default=())

    @property
    def has_old_notice(self) -> bool:
        """Whether the notice is of an earlier attempt: a process of an older version ended that one and left it."""
        return self.notice is not None and self.notice.attempt != self.number


@dataclass(frozen=True)
class _Finding:
    """A step that is to be taken."""

    step: Step
    watched: _Watched
    stretch: Stretch
    now: datetime


def watch_once(sessions: Sessions, *, period_s: float, sample_period_s: float) -> int:
    """Judge the newest samples of all watched jobs, and do what follows. Returns how many jobs something was done to.

    Nothing happens if another worker does this now, or did it less than half a period ago.
    """
    with sessions.begin() as session:
        if not session.scalar(select(func.pg_try_advisory_xact_lock(LOCK))) or _was_done(session, period_s / 2):
            return 0
        findings = _judge(session, most_gap_s=max(_MOST_GAP_S, 3 * sample_period_s))
    done = 0
    for finding in findings:  # one at a time, so that no two rows of jobs are locked at once
        with sessions.begin() as session:
            if _carry_out(session, finding):
                done += 1
                tags = {"job": finding.watched.job_id, "attempt": finding.watched.number}
                _log.info("idle slots: %s", finding.step.value, extra=tags)
    return done


def _was_done(session: Session, within_s: float) -> bool:
    within = timedelta(seconds=within_s)  # also after now: by another transaction, but not before a clock was set back
    recent = IdleStretch.looked_at.between(func.now() - within, func.now() + within)
    return bool(session.scalar(select(exists().where(recent))))


def _judge(session: Session, *, most_gap_s: float) -> list[_Finding]:
    now: datetime = session.execute(select(func.now())).scalar_one()
    all_watched = _watched(session, now)
    uses = _uses(session, [one for one in all_watched if one.policy is not None], now)
    findings, stretches = [], []
    for one in all_watched:
        if one.policy is None or one.has_old_notice:  # None: its project has no default any more
            findings.append(_Finding(Step.WITHDRAW, one, one.stretch, now))
            continue
        slots = uses.get(one.attempt_id, ())
        stretch = extended(
            one.stretch, slots if len(slots) == one.gpus else (),
            below=one.policy.below, most_gap=round(most_gap_s * _TICKS_PER_S),
        )  # fmt: skip
        if ticks_of(now) - stretch.until > max(_MOST_SILENCE_S, most_gap_s) * _TICKS_PER_S:
            stretch = Stretch.empty(ticks_of(now))
        stretches.append(_row_of(one, one.policy, stretch, now))
        step = step_after(one.policy, one.notice, since=at_ticks(stretch.since), until=at_ticks(stretch.until))
        if step is not Step.NONE:
            findings.append(_Finding(step, one, stretch, now))
    _store(session, stretches)
    return findings


def _watched(session: Session, now: datetime) -> list[_Watched]:
    """The attempts whose ranks have started and whose job or project says what to do. And those with a warning."""
    rows = session.execute(_WATCHED).mappings().all()
    by_attempt = [list(rows_of_one) for _, rows_of_one in groupby(rows, key=lambda row: row["attempt_id"])]
    return [_watched_of(rows_of_one, now) for rows_of_one in by_attempt]


def _watched_of(rows: Sequence[RowMapping], now: datetime) -> _Watched:
    row = rows[0]
    policy = None if row["policy"] is None else IdleSpec.model_validate(row["policy"])
    started_at = row["started_at"] - timedelta(seconds=row["ahead_s"] or 0.0)  # it is by the clock of the lead host
    # What lies in the future was written before the clock was set back.
    began = [at for at in (started_at, row["created_at"]) if at <= now]
    begin = max([*began, now - timedelta(seconds=_LOOK_BACK_S)])
    stretch = Stretch.empty(ticks_of(begin))
    if policy is not None and row["below"] == policy.below and begin <= row["until"] <= now:
        stretch = Stretch(ticks_of(row["since"]), ticks_of(row["until"]))
    ranks = [_rank_of(each) for each in rows if each["rank"] is not None]
    notice = None if row["notice"] is None else IdleNotice.model_validate(row["notice"])
    return _Watched(
        row["attempt_id"], row["job_id"], row["number"], row["gpus"], policy, notice, stretch, ranks
    )  # fmt: skip


def _rank_of(row: RowMapping) -> _Rank:
    on_gpu = row["kind"] == "gpu"
    scale = 1.0 if on_gpu else None
    if not on_gpu and row["cores"]:
        scale = max(row["cpu_slots"] / row["cores"], _CORE_COUNTS)  # a sample is in percent of a core
    return _Rank(row["rank"], on_gpu, scale, round((row["ahead_s"] or 0.0) * _TICKS_PER_S))


# A spec without `idle` has no such key: `jobs.model.stored_spec`.
_POLICY = func.coalesce(func.nullif(Job.spec["idle"], func.jsonb("null")), Project.idle)
_OTHER = aliased(Slot)
_CPU_SLOTS = (
    select(func.count())
    .where(_OTHER.host == Slot.host, _OTHER.kind == "cpu", _OTHER.retired_at.is_(None), Slot.kind == "cpu")
    .correlate(Slot)
    .scalar_subquery()
)
_WATCHED = (
    select(
        Attempt.id.label("attempt_id"),
        Attempt.job_id,
        Attempt.number,
        Attempt.gpus,
        Attempt.created_at,
        Attempt.started_at,
        _POLICY.label("policy"),
        Job.idle.label("notice"),
        IdleStretch.below,
        IdleStretch.since,
        IdleStretch.until,
        Slot.rank,
        Slot.kind,
        Host.info["cores"].astext.cast(Float(53)).label("cores"),
        Host.info["clock_offset_s"].astext.cast(Float(53)).label("ahead_s"),
        _CPU_SLOTS.label("cpu_slots"),
    )
    .join(Job, Job.id == Attempt.job_id)
    .join(Project, Project.name == Job.project)
    .outerjoin(IdleStretch, IdleStretch.attempt_id == Attempt.id)
    .outerjoin(Slot, Slot.attempt_id == Attempt.id)
    .outerjoin(Host, Host.name == Slot.host)
    .where(
        Attempt.ended_at.is_(None),
        Attempt.started_at.is_not(None),
        Job.cancel_requested_at.is_(None),
        Job.paused_at.is_(None),
        _POLICY.is_not(None) | Job.idle.is_not(None),
    )
    .order_by(Attempt.id, Slot.rank)
)


def _uses(session: Session, all_watched: Sequence[_Watched], now: datetime) -> dict[int, list[SlotUse]]:
    """The samples of each attempt's slots since it was last looked at, in the time of the database."""
    asked = [(one, rank) for one in all_watched for rank in one.ranks if rank.scale is not None]
    uses: dict[int, list[SlotUse]] = {}
    if not asked:
        return uses
    values = {
        "positions": list(range(len(asked))),
        "jobs": [one.job_id for one, _ in asked],
        "attempts": [one.number for one, _ in asked],
        "ranks": [rank.rank for _, rank in asked],
        "on_gpu": [rank.on_gpu for _, rank in asked],
        "after": [at_ticks(one.stretch.until + rank.ahead) for one, rank in asked],
        "until": [at_ticks(ticks_of(now) + rank.ahead) for _, rank in asked],
    }
    for position, ticks, percent in streamed(session, _NEW_SAMPLES, values):
        one, rank = asked[position]
        use = SlotUse(integers(ticks or b"") - rank.ahead, floats(percent or b"") * np.float64(rank.scale or 0.0))
        uses.setdefault(one.attempt_id, []).append(use)
    return uses


# One walk along the primary key for each slot. A figure that could not be read is as good as none.
_NEW_SAMPLES = """
    SELECT asked.position, newer.ticks, newer.percent
    FROM unnest(
        %(positions)s::int[], %(jobs)s::text[], %(attempts)s::int[], %(ranks)s::int[], %(on_gpu)s::bool[],
        %(after)s::timestamptz[], %(until)s::timestamptz[]
    ) AS asked (position, job_id, attempt, rank, on_gpu, after, until)
    CROSS JOIN LATERAL (
        SELECT string_agg(timestamptz_send(at), '' ORDER BY at) AS ticks,
            string_agg(float8send(CASE WHEN asked.on_gpu THEN gpu_percent ELSE cpu_percent END), '' ORDER BY at)
                AS percent
        FROM samples
        WHERE samples.job_id = asked.job_id AND samples.attempt = asked.attempt AND samples.rank = asked.rank
            AND at > asked.after AND at <= asked.until
            AND CASE WHEN asked.on_gpu THEN gpu_percent ELSE cpu_percent END IS NOT NULL
    ) AS newer
"""


def _row_of(one: _Watched, policy: IdleSpec, stretch: Stretch, now: datetime) -> dict[str, Any]:
    times = {"since": at_ticks(stretch.since), "until": at_ticks(stretch.until), "looked_at": now}
    return {"attempt_id": one.attempt_id, "below": policy.below, **times}


def _store(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    """Store how far the attempts were judged, and forget those that are watched no more."""
    watched = cast([row["attempt_id"] for row in rows], ARRAY(BigInteger))  # one parameter: there are 65,535 at most
    session.execute(delete(IdleStretch).where(IdleStretch.attempt_id != func.all(watched)))
    if rows:
        newest = insert(IdleStretch)
        changed = {name: newest.excluded[name] for name in ("below", "since", "until", "looked_at")}
        session.execute(newest.on_conflict_do_update(index_elements=[IdleStretch.attempt_id], set_=changed), list(rows))


def _carry_out(session: Session, finding: _Finding) -> bool:
    one, policy = finding.watched, finding.watched.policy
    if finding.step is Step.WITHDRAW or policy is None:
        return idle.withdraw(session, one.job_id, one.number, why=_why_withdrawn(one))
    on_gpus = all(rank.on_gpu for rank in one.ranks)
    if finding.step is Step.ACT:
        assert one.notice is not None
        why = was_idle_text(one.gpus, on_gpus=on_gpus, below=policy.below, for_s=policy.for_s)
        return idle.act(session, one.job_id, one.notice, why=why)
    # Half of the time is left, also if nobody looked for a while.
    acts_at = None if policy.action == "warn" else finding.now + timedelta(seconds=policy.for_s / 2)
    notice = IdleNotice(
        attempt=one.number, below=policy.below, for_s=policy.for_s, action=policy.action,
        since=at_ticks(finding.stretch.since), acts_at=acts_at,
        why=is_idle_text(one.gpus, on_gpus=on_gpus, below=policy.below),
    )  # fmt: skip
    return idle.warn(session, one.job_id, notice)


def _why_withdrawn(one: _Watched) -> str:
    if one.has_old_notice:
        return "it was given to an earlier attempt"
    if one.policy is None or (one.notice is not None and is_other_policy(one.policy, one.notice)):
        return "another limit applies"
    return "its slots are used again, or were not measured"
