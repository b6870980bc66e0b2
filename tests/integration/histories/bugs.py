"""Bugs that the histories must find, at least one for each kind of check. Each is planted in the place of a guard.

Each function takes away one guard for one test. Its docstring says how the service then behaves.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import ColumnElement, and_, true, update
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Slot
from jobs.lifecycle import leases, store
from jobs.lifecycle.store import Lease
from jobs.model.states import EndReason, EventKind, Status
from jobs.scheduling import placement_rows, placing

Plant = Callable[[pytest.MonkeyPatch], None]


def missing_lease_check(patch: pytest.MonkeyPatch) -> None:
    """A lease is valid as long as its attempt's row exists: its holder and the attempt's end are not checked."""

    def is_there(lease: Lease) -> ColumnElement[bool]:
        return Attempt.id == lease.attempt_id

    patch.setattr(store, "is_valid", is_there)
    patch.setattr(leases, "is_valid", is_there)
    patch.setattr(store, "_has_lease", store._has_lease.__wrapped__)  # without their caches
    patch.setattr(leases, "_lock_job", leases._lock_job.__wrapped__)


def lost_cancel(patch: pytest.MonkeyPatch) -> None:
    """A failed attempt is restarted although a cancel of its job was requested."""
    status_after = leases.status_after

    def deaf(reason: EndReason, *, cancel_requested: bool, **rest: int) -> Status:
        return status_after(reason, cancel_requested=False, **rest)

    patch.setattr(leases, "status_after", deaf)


def leaked_slot(patch: pytest.MonkeyPatch) -> None:
    """A release gives back only the slot of the first rank."""

    def release(session: Session, attempt_id: int, *, host: str | None = None) -> None:
        mine = (Slot.attempt_id == attempt_id, Slot.rank == 0, Slot.host == host if host else true())
        session.execute(update(Slot).where(*mine).values(attempt_id=None, rank=None, quarantined_at=None))

    patch.setattr(leases, "release", release)


def gpus_of_others_leased(patch: pytest.MonkeyPatch) -> None:
    """GPUs on which processes of no job compute, and unhealthy ones, count as free."""
    is_free = (Slot.attempt_id.is_(None), Slot.quarantined_at.is_(None), Slot.retired_at.is_(None))
    patch.setattr(placement_rows, "IS_FREE", and_(*is_free))
    patch.setattr(placing, "IS_FREE", and_(*is_free))
    patch.setattr(placement_rows, "_classes", placement_rows._classes.__wrapped__)  # without their caches
    patch.setattr(placing, "_lock_slots", placing._lock_slots.__wrapped__)


def history_with_a_gap(patch: pytest.MonkeyPatch) -> None:
    """A job goes back to the queue, and its history does not say so."""
    add_events = leases.add_events

    def forgetful(session: Session, job_id: str, events: Sequence[tuple[EventKind, Any]], **rest: Any) -> None:
        add_events(session, job_id, [event for event in events if event[0] is not EventKind.REQUEUED], **rest)

    patch.setattr(leases, "add_events", forgetful)


BUGS: list[Plant] = [missing_lease_check, lost_cancel, leaked_slot, gpus_of_others_leased, history_with_a_gap]
