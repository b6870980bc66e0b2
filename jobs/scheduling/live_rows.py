"""The attempts that hold slots, read from the rows: when they end, and when they may be asked to make room.

Called by the dispatcher, in its transaction.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import Float, RowMapping, Select, case, cast, func, or_, select
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Job, RunTime, Slot
from jobs.model.attained_service import QUANTUM_S, level_of, undisturbed_s
from jobs.scheduling.contenders import Account, LiveAttempt
from jobs.scheduling.placement_rows import CREATED_S, IN_SERVICE, TIME_LIMIT_S, class_of, order_of, seconds
from jobs.scheduling.slots import Counts, HostSlots, SlotClass


def live_attempts(session: Session, hosts: Sequence[HostSlots], *, quantum_s: float = QUANTUM_S) -> list[LiveAttempt]:
    """The attempts that hold slots, each with the slots of these hosts that it releases when it ends.

    `quantum_s`: so long each of them is left undisturbed at least.
    """
    slots: dict[int, dict[SlotClass, int]] = {}
    usable = {alike.of for host in hosts for alike in host.classes}
    for attempt_id, host, kind, name, memory_bytes, count in session.execute(_leased_slots()):
        of = class_of(host, kind, name, memory_bytes)
        if attempt_id is not None and of in usable:
            held = slots.setdefault(attempt_id, {})
            held[of] = held.get(of, 0) + count
    rows = session.execute(live_columns()).mappings() if slots else ()
    return [_live_of(row, slots[row["attempt_id"]], quantum_s) for row in rows if row["attempt_id"] in slots]


@cache
def _leased_slots() -> Select[*tuple[Any, ...]]:
    columns = (Slot.attempt_id, Slot.host, Slot.kind, Slot.name, Slot.memory_bytes)
    return select(*columns, func.count()).where(Slot.attempt_id.is_not(None), IN_SERVICE).group_by(*columns)


@cache
def live_columns() -> Select[Any]:
    """The columns of attempts that hold slots that `_live_of` reads."""
    leaving = or_(
        Attempt.ended_at.is_not(None), Attempt.preempt_requested_at.is_not(None),
        Job.cancel_requested_at.is_not(None), Job.paused_at.is_not(None),
    )  # fmt: skip
    eta_s = case((Attempt.started_at.is_not(None), cast(Job.progress["eta_s"].astext, Float(53))))
    return (
        select(
            Attempt.id.label("attempt_id"), Job.priority, Job.id, CREATED_S.label("created_s"),
            seconds(func.now() - Attempt.created_at).label("age_s"), eta_s.label("eta_s"),
            TIME_LIMIT_S,
            RunTime.durations_s,
            leaving.label("leaving"),
            func.coalesce(Attempt.due_at <= func.now(), False).label("overdue"),
            Job.project, Job.owner, Job.level, Job.slot_seconds, Attempt.gpus, Attempt.setup,
            seconds(Attempt.created_at - Attempt.queued_at).label("waited_s"),
            seconds(Attempt.started_at - Attempt.created_at).label("launch_s"),
            # A script may save or not. It is known to when it has.
            or_(Job.code.is_(None), func.coalesce(Job.checkpoint_bytes, 0) > 0).label("can_save"),
        )
        .join(Job, Job.id == Attempt.job_id)
        .outerjoin(RunTime, RunTime.run_key == Job.run_key)
        .where(Attempt.id.in_(select(Slot.attempt_id).where(Slot.attempt_id.is_not(None))))
    )  # fmt: skip


def _live_of(row: RowMapping, slots: Counts, quantum_s: float) -> LiveAttempt:
    ends_in_s = expected_end_s(row["eta_s"], row["time_limit_s"], row["durations_s"] or (), age_s=row["age_s"])
    age_s = max(row["age_s"], 0.0)  # negative: the clock was set back
    slot_s = row["slot_seconds"] + age_s * row["gpus"]
    left_s = undisturbed_s(
        age_s, cost_s=preemption_cost_s(row), ran_s=slot_s / row["gpus"], waited_s=row["waited_s"], quantum_s=quantum_s
    )
    if row["age_s"] < 0:
        left_s = 0.0  # nobody knows how long it has run
    if row["eta_s"] is not None and 0 < row["eta_s"] <= quantum_s:
        left_s = max(left_s, row["eta_s"] + 1.0)  # it ends so soon that nobody gains
    return LiveAttempt(
        row["attempt_id"], order_of(row), slots, ends_in_s, leaving=row["leaving"], overdue=row["overdue"],
        account=Account(row["project"], row["owner"]), level=max(row["level"], level_of(slot_s)), undisturbed_s=left_s,
        stored_level=row["level"],
    )  # fmt: skip


def preemption_cost_s(row: RowMapping) -> float:
    """What a preemption would cost: all that it did if it cannot save, and the time that it took to begin to train."""
    if not row["can_save"]:
        return float(row["age_s"])
    return float(row["launch_s"] or 0.0) + sum(float(spent_s) for spent_s in row["setup"].values())


def expected_end_s(
    eta_s: float | None, time_limit_s: float | None, durations_s: Sequence[float], *, age_s: float
) -> float | None:
    """The expected seconds until an attempt ends: by its own progress, else by its time limit, else by similar runs.

    None if none of these is known. 0 if it should have ended already.
    """
    if eta_s is not None:
        return eta_s
    duration_s = time_limit_s or max(durations_s, default=None)
    return None if duration_s is None else max(duration_s - age_s, 0.0)
