"""How a host and its slots come into the database, and how the host stays alive there: by its agent."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Literal

from sqlalchemy import ColumnElement, Numeric, SQLColumnExpression, cast, func, literal, update
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.orm import Session

from jobs.tables import Host, Slot


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
