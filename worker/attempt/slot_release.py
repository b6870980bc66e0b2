"""Releases the slots of an ended attempt on this host when none of its processes is left on them.

Used by the supervisor for the attempts that it ends, and by the agent for all others.
"""

import time
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from jobs.db.tables import Slot
from jobs.lifecycle import leases
from jobs.scheduling import registration

_PERIOD_S = 0.1
_SETTLED_S = 2.0  # the driver still lists a process for a moment after its end


def held_gpus(session: Session, attempt_id: int, *, host: str) -> list[str]:
    """The UUIDs of the GPUs that the attempt holds on the host. Empty if its slots are CPU shares."""
    uuids = select(Slot.uuid).where(Slot.attempt_id == attempt_id, Slot.host == host, Slot.uuid.is_not(None))
    return [uuid for uuid in session.scalars(uuids) if uuid is not None]


def gpus_are_free(uuids: Sequence[str], *, within_s: float = _SETTLED_S) -> bool:
    """Whether no process computes on any of these GPUs of this host. Waits for that up to `within_s`."""
    if not uuids:
        return True
    from worker.host.gpus import is_in_use  # NVML, which most hosts of CPU slots do not have

    give_up_at = time.monotonic() + within_s
    while any(is_in_use(uuid) for uuid in uuids):
        if time.monotonic() > give_up_at:
            return False
        time.sleep(_PERIOD_S)
    return True


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
