"""Hosts and their slots as they stand: for the api's list, its metrics, and its check at submission."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import extract, func, select
from sqlalchemy.orm import Session

from jobs.states import Status
from jobs.tables import Attempt, Host, Job, Slot


class SlotState(StrEnum):
    """Whether a slot can be leased."""

    FREE = "free"
    LEASED = "leased"
    QUARANTINED = "quarantined"  # a process of an ended attempt is still on it
    RETIRED = "retired"  # its host no longer has it


@dataclass(frozen=True)
class SlotNow:
    """A slot and what holds it."""

    index: int
    kind: str
    name: str
    uuid: str | None
    memory_bytes: int | None
    state: SlotState
    job_id: str | None
    attempt: int | None
    rank: int | None


@dataclass(frozen=True)
class HostNow:
    """A host and its slots; `alive` says whether its agent was heard of lately."""

    name: str
    info: dict[str, Any]
    registered_at: datetime
    heartbeat_at: datetime
    heartbeat_age_s: float
    alive: bool
    slots: Sequence[SlotNow]


def hosts(session: Session, *, host_timeout_s: float) -> list[HostNow]:
    """Every registered host, by name, with its slots by index."""
    age_s = extract("epoch", func.now() - Host.heartbeat_at).label("age_s")
    slots: dict[str, list[SlotNow]] = {}
    rows = session.execute(
        select(Slot, Attempt.job_id, Attempt.number)
        .outerjoin(Attempt, Attempt.id == Slot.attempt_id)
        .order_by(Slot.host, Slot.index)
    )
    for slot, job_id, number in rows:
        slots.setdefault(slot.host, []).append(_slot_now(slot, job_id, number))
    return [
        HostNow(
            name=host.name,
            info=host.info,
            registered_at=host.registered_at,
            heartbeat_at=host.heartbeat_at,
            heartbeat_age_s=round(float(age), 3),
            alive=float(age) <= host_timeout_s,
            slots=slots.get(host.name, []),
        )
        for host, age in session.execute(select(Host, age_s).order_by(Host.name))
    ]


def largest_host(session: Session, *, kind: str | None = None) -> int | None:
    """The most slots of `kind` (None: of any one kind) that one host has; None while no host has registered."""
    sizes = select(func.count().label("slots")).where(Slot.retired_at.is_(None)).group_by(Slot.host, Slot.kind)
    if kind is not None:
        sizes = sizes.where(Slot.kind == kind)
    largest: int | None = session.scalar(select(func.max(sizes.subquery().c.slots)))
    if largest is None and session.scalar(select(Host.name).limit(1)) is not None:
        return 0
    return largest


def jobs_by_status(session: Session) -> dict[Status, int]:
    """How many jobs stand in each status."""
    rows = session.execute(select(Job.status, func.count()).group_by(Job.status))
    counted = {status: count for status, count in rows}  # noqa: C416 - a row is no pair to the type checker
    return {status: counted.get(status, 0) for status in Status}


def slots_by_state(every: Sequence[HostNow]) -> dict[SlotState, int]:
    """How many slots of these hosts are in each state."""
    counted = Counter(slot.state for host in every for slot in host.slots)
    return {state: counted[state] for state in SlotState}


def _slot_now(slot: Slot, job_id: str | None, number: int | None) -> SlotNow:
    return SlotNow(
        index=slot.index,
        kind=slot.kind,
        name=slot.name,
        uuid=slot.uuid,
        memory_bytes=slot.memory_bytes,
        state=_state(slot),
        job_id=job_id,
        attempt=number,
        rank=slot.rank,
    )


def _state(slot: Slot) -> SlotState:
    if slot.quarantined_at is not None:
        return SlotState.QUARANTINED
    if slot.attempt_id is not None:
        return SlotState.LEASED
    return SlotState.FREE if slot.retired_at is None else SlotState.RETIRED
