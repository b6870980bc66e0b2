"""How a host and its slots come into the database, and how the host stays alive there: by its agent."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sqlalchemy import func, update
from sqlalchemy.dialects.postgresql import insert
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


def register(session: Session, name: str, info: dict[str, Any], slots: Sequence[SlotInfo]) -> None:
    """Make the host known with the slots it has now; leases on them stay. Slots it no longer has are retired."""
    alive = {"info": info, "heartbeat_at": func.now()}
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


def beat(session: Session, name: str) -> None:
    """The host is alive."""
    session.execute(update(Host).where(Host.name == name).values(heartbeat_at=func.now()))
