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
    bindparam,
    cast,
    func,
    literal,
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
        session.execute(
            insert(Slot)
            .values(host=name, **columns)
            .on_conflict_do_update(index_elements=[Slot.host, Slot.index], set_=columns)
        )
    session.execute(
        update(Slot)
        .where(Slot.host == name, Slot.index.not_in([slot.index for slot in slots]))
        .values(retired_at=func.now())
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


def retire(session: Session, name: str, uuids: Sequence[str]) -> None:
    """Retire GPUs of a host that are off the bus. A lease on such a GPU stays."""
    if uuids:
        session.execute(update(Slot).where(Slot.host == name, Slot.uuid.in_(uuids)).values(retired_at=func.now()))


# Rows locked by another transaction are skipped, so that nobody waits here. The next reading comes soon.
_STORE_READINGS = text("""
    WITH readings AS (
        SELECT * FROM jsonb_to_recordset(:readings) AS readings (uuid text, reading jsonb, is_lost boolean)
    ), own_slots AS (
        SELECT host, index, readings.* FROM slots JOIN readings USING (uuid) WHERE host = :host
        FOR NO KEY UPDATE OF slots SKIP LOCKED
    )
    UPDATE slots
    SET reading = own_slots.reading, retired_at = CASE
        WHEN NOT own_slots.is_lost THEN NULL
        WHEN slots.attempt_id IS NULL THEN coalesce(slots.retired_at, now())
        ELSE slots.retired_at
    END
    FROM own_slots WHERE slots.host = own_slots.host AND slots.index = own_slots.index
""").bindparams(bindparam("readings", type_=JSONB))


def store_readings(session: Session, name: str, readings: Mapping[str, dict[str, Any]]) -> None:
    """Store the newest reading of each GPU of a host, by UUID, leased or not.

    A GPU whose reading says `is_lost` is retired once no attempt holds it. A retired one with any other reading is in
    service again.
    """
    rows = [
        {"uuid": uuid, "reading": reading, "is_lost": bool(reading.get("is_lost"))}
        for uuid, reading in readings.items()
    ]
    session.execute(_STORE_READINGS, {"readings": rows, "host": name})
