"""Releases the slots of an ended attempt on this host when none of its processes is left on them.

Used by the supervisor for the attempts that it ends, and by the agent for all others.
"""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from jobs.db.tables import Slot
from jobs.lifecycle import leases
from jobs.scheduling import registration


def held_gpus(session: Session, attempt_id: int, *, host: str) -> list[str]:
    """The UUIDs of the GPUs that the attempt holds on the host. Empty if its slots are CPU shares."""
    uuids = select(Slot.uuid).where(Slot.attempt_id == attempt_id, Slot.host == host, Slot.uuid.is_not(None))
    return [uuid for uuid in session.scalars(uuids) if uuid is not None]


def lost_gpus(uuids: Sequence[str]) -> list[str]:
    """Which of these GPUs of this host are off the bus."""
    if not uuids:
        return []
    from worker.host.gpus import is_lost

    return [uuid for uuid in uuids if is_lost(uuid)]


def release_slots(session: Session, attempt_id: int, *, host: str, clean: bool, lost_uuids: Sequence[str] = ()) -> None:
    """Release the slots of an ended attempt on a host, or quarantine them if a process is left on them.

    The slots of lost GPUs become unhealthy: the sampler puts them back into service when the GPUs are back.
    """
    if clean:
        if lost_uuids:
            from worker.host.gpus import OFF_THE_BUS

            registration.mark_unhealthy(session, host, lost_uuids, OFF_THE_BUS)
        leases.release(session, attempt_id, host=host)
    else:
        leases.quarantine(session, attempt_id, host=host)
