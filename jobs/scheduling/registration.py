"""The rows of a host and its slots. The host's agent and sampler register and update them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    Numeric,
    SQLColumnExpression,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.orm import Session

from jobs.db.tables import Host, Slot
from jobs.runtime.space import FolderSpace, problem_of


@dataclass(frozen=True)
class SlotInfo:
    """One GPU or one CPU share, as its host found it."""

    index: int
    kind: Literal["gpu", "cpu"]
    name: str
    uuid: str | None = None
    memory_bytes: int | None = None
    unhealthy: str | None = None  # why no job gets it
    in_use: bool = False  # a process computes on its GPU


@dataclass(frozen=True)
class GpuState:
    """The newest reading of a GPU, and what it means for its slot."""

    reading: dict[str, Any]
    unhealthy: str | None = None  # why no job gets it
    in_use: bool = False  # a process computes on it. Set it only if no attempt held its slot when it was read


def register(
    session: Session,
    name: str,
    info: dict[str, Any],
    slots: Sequence[SlotInfo],
    *,
    address: str | None = None,
    folders: Sequence[FolderSpace] | None = None,
) -> None:
    """Register the host with its present slots. Leases on them stay. Slots that it no longer has are retired.

    `address` is the host's address for other hosts. Without one it takes only jobs on a single host. `folders` is the
    space that it measured; None: not yet.
    """
    alive = {"info": _with_clock(cast(info, JSONB)), "address": address, "heartbeat_at": func.now()}
    alive |= _space(folders)
    session.execute(
        insert(Host).values(name=name, **alive).on_conflict_do_update(index_elements=[Host.name], set_=alive)
    )
    for slot in slots:
        columns = {**asdict(slot), "retired_at": None}
        in_use = columns.pop("in_use")
        if_registered = {
            "reading": case((Slot.uuid.is_not_distinct_from(slot.uuid), Slot.reading)),
            "in_use_by_others": and_(in_use, Slot.attempt_id.is_(None)),  # else by the attempt that holds it
        }
        session.execute(
            insert(Slot)
            .values(host=name, in_use_by_others=in_use, **columns)
            .on_conflict_do_update(index_elements=[Slot.host, Slot.index], set_=columns | if_registered)
        )
    session.execute(
        update(Slot)
        .where(Slot.host == name, Slot.index.not_in([slot.index for slot in slots]))
        .values(retired_at=func.now())
    )


def register_pool(session: Session, name: str, info: dict[str, Any]) -> None:
    """Register a pool, or change what its row says. It has no slots of its own, only those of its attempts."""
    alive = {"info": _with_clock(cast(info, JSONB)), "heartbeat_at": func.now()}
    session.execute(
        insert(Host).values(name=name, **alive).on_conflict_do_update(index_elements=[Host.name], set_=alive)
    )


def beat(session: Session, name: str, *, folders: Sequence[FolderSpace] | None = None) -> bool:
    """Write a heartbeat of the host. Returns False if the host was removed meanwhile and has to register again.

    A host whose `folders` are below their floor gets no jobs until a later heartbeat says that there is space.
    """
    alive = {"info": _with_clock(Host.info), "heartbeat_at": func.now(), **_space(folders)}
    return session.scalar(update(Host).where(Host.name == name).values(alive).returning(Host.name)) is not None


def _space(folders: Sequence[FolderSpace] | None) -> dict[str, Any]:
    """The columns for what a host measured; none if it has not measured."""
    if folders is None:
        return {}
    return {"folders": [space.to_json() for space in folders], "no_space": problem_of(folders)}


def _with_clock(info: SQLColumnExpression[Any]) -> ColumnElement[Any]:
    """The facts about the host, and by how many seconds its clock is ahead of the database's."""
    ahead_s = literal(time.time()) - func.extract("epoch", func.clock_timestamp())
    return info.op("||")(func.jsonb_build_object("clock_offset_s", func.round(cast(ahead_s, Numeric), 3)))


def leave(session: Session, name: str, *, host_timeout_s: float) -> None:
    """Count the host as lost from now on, because its worker shuts down. No more jobs are placed on it."""
    long_ago = func.now() - timedelta(seconds=host_timeout_s + 1)
    session.execute(update(Host).where(Host.name == name).values(heartbeat_at=long_ago))


def mark_unhealthy(session: Session, name: str, uuids: Sequence[str], why: str) -> None:
    """Give no job these GPUs of a host until a later reading says that they are well. A lease on them stays."""
    if uuids:
        session.execute(update(Slot).where(Slot.host == name, Slot.uuid.in_(uuids)).values(unhealthy=why))


def mark_in_use(session: Session, name: str, uuids: Sequence[str]) -> None:
    """Give no job these GPUs of a host until a later reading says that no other process computes on them."""
    if uuids:
        session.execute(update(Slot).where(Slot.host == name, Slot.uuid.in_(uuids)).values(in_use_by_others=True))


def free_gpus(session: Session, name: str) -> frozenset[str]:
    """The UUIDs of the GPUs of a host that no attempt holds. An ended attempt may still hold some."""
    uuids = select(Slot.uuid).where(Slot.host == name, Slot.uuid.is_not(None), Slot.attempt_id.is_(None))
    return frozenset(uuid for uuid in session.scalars(uuids) if uuid is not None)


# Rows locked by another transaction are skipped, so that nobody waits here. The next reading comes soon.
_STORE_READINGS = text("""
    WITH states AS (
        SELECT * FROM jsonb_to_recordset(:states) AS states (uuid text, reading jsonb, unhealthy text, in_use boolean)
    ), own_slots AS (
        SELECT host, index, states.* FROM slots JOIN states USING (uuid) WHERE host = :host AND retired_at IS NULL
        FOR NO KEY UPDATE OF slots SKIP LOCKED
    )
    UPDATE slots
    SET reading = own_slots.reading, unhealthy = own_slots.unhealthy,
        in_use_by_others = own_slots.in_use AND slots.attempt_id IS NULL
    FROM own_slots WHERE slots.host = own_slots.host AND slots.index = own_slots.index
""").bindparams(bindparam("states", type_=JSONB))


def store_readings(session: Session, name: str, states: Mapping[str, GpuState]) -> None:
    """Store the newest reading of each GPU of a host, by UUID, leased or not, and why no job gets it.

    A GPU that an attempt holds is not in use by others, whatever its state says: it was placed there meanwhile.
    """
    rows = [{"uuid": uuid, **asdict(state)} for uuid, state in states.items()]
    session.execute(_STORE_READINGS, {"states": rows, "host": name})
