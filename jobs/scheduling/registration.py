"""How a host and its slots come into the database, by its agent, and what it tells of them from then on."""

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


@dataclass(frozen=True)
class SlotInfo:
    """One GPU or one CPU share, as its host found it."""

    index: int
    kind: Literal["gpu", "cpu"]
    name: str
    uuid: str | None = None
    memory_bytes: int | None = None


def register(
    session: Session, name: str, info: dict[str, Any], slots: Sequence[SlotInfo], *, address: str | None = None
) -> None:
    """Make the host known with the slots it has now; leases on them stay. Slots it no longer has are retired.

    `address` is where other hosts reach it; without one it takes part in jobs on one host only.
    """
    alive = {"info": _with_clock(cast(info, JSONB)), "address": address, "heartbeat_at": func.now()}
    session.execute(
        insert(Host).values(name=name, **alive).on_conflict_do_update(index_elements=[Host.name], set_=alive)
    )
    for slot in slots:
        found = {**asdict(slot), "retired_at": None}
        session.execute(
            insert(Slot)
            .values(host=name, **found)
            .on_conflict_do_update(index_elements=[Slot.host, Slot.index], set_=found)
        )
    session.execute(
        update(Slot)
        .where(Slot.host == name, Slot.index.not_in([slot.index for slot in slots]))
        .values(retired_at=func.now())
    )


def beat(session: Session, name: str) -> bool:
    """The host is alive; False where it was forgotten meanwhile and has to register again."""
    alive = {"info": _with_clock(Host.info), "heartbeat_at": func.now()}
    return session.scalar(update(Host).where(Host.name == name).values(alive).returning(Host.name)) is not None


def _with_clock(info: SQLColumnExpression[Any]) -> ColumnElement[Any]:
    """What is told of the host, with the seconds that its clock is ahead of the database's."""
    ahead_s = literal(time.time()) - func.extract("epoch", func.clock_timestamp())
    return info.op("||")(func.jsonb_build_object("clock_offset_s", func.round(cast(ahead_s, Numeric), 3)))


def leave(session: Session, name: str, *, host_timeout_s: float) -> None:
    """The host is about to be gone: it counts as lost from now on, and nothing is placed on it."""
    long_ago = func.now() - timedelta(seconds=host_timeout_s + 1)
    session.execute(update(Host).where(Host.name == name).values(heartbeat_at=long_ago))


def retire(session: Session, name: str, uuids: Sequence[str]) -> None:
    """Take GPUs of a host that are off the bus out of service; a lease on one stays."""
    if uuids:
        session.execute(update(Slot).where(Slot.host == name, Slot.uuid.in_(uuids)).values(retired_at=func.now()))


# Rows that somebody else holds are passed over, as the next reading is due soon: nobody waits for another here.
_TELL = text("""
    WITH told AS (
        SELECT * FROM jsonb_to_recordset(:told) AS told (uuid text, reading jsonb, is_lost boolean)
    ), mine AS (
        SELECT host, index, told.* FROM slots JOIN told USING (uuid) WHERE host = :host
        FOR NO KEY UPDATE OF slots SKIP LOCKED
    )
    UPDATE slots
    SET reading = mine.reading, retired_at = CASE
        WHEN NOT mine.is_lost THEN NULL
        WHEN slots.attempt_id IS NULL THEN coalesce(slots.retired_at, now())
        ELSE slots.retired_at
    END
    FROM mine WHERE slots.host = mine.host AND slots.index = mine.index
""").bindparams(bindparam("told", type_=JSONB))


def tell_readings(session: Session, name: str, readings: Mapping[str, dict[str, Any]]) -> None:
    """Store the newest reading of each GPU of a host, by UUID, leased or not.

    One whose reading says `is_lost` is retired, but not under an attempt that still has it; a retired one that tells
    something is in service again.
    """
    told = [
        {"uuid": uuid, "reading": reading, "is_lost": bool(reading.get("is_lost"))}
        for uuid, reading in readings.items()
    ]
    session.execute(_TELL, {"told": told, "host": name})
