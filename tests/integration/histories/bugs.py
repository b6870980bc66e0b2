"""Bugs that the histories must find, at least one for each kind of check. Each is planted in the place of a guard.

Each function takes away one guard for one test. Its docstring says how the service then behaves.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import ColumnElement, and_, func, select, true, update
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


def claim_that_is_not_atomic(patch: pytest.MonkeyPatch) -> None:
    """A claim looks whether the attempt is free, and takes it in another statement."""
    both_have_looked = threading.Barrier(2)

    def claim(session: Session, attempt_id: int, *, lease_s: float) -> Lease | None:
        free = select(Attempt).where(Attempt.id == attempt_id, Attempt.claimed_at.is_(None), Attempt.ended_at.is_(None))
        attempt = session.scalar(free)
        if attempt is None:
            return None
        with suppress(threading.BrokenBarrierError):
            both_have_looked.wait(0.05)  # so two claims at once always collide
        both_have_looked.reset()
        session.execute(
            update(Attempt)
            .where(Attempt.id == attempt_id)
            .values(claimed_at=func.now(), lease_expires_at=func.now() + timedelta(seconds=lease_s))
        )
        return Lease(attempt_id, str(attempt.token), attempt.job_id, attempt.number)

    patch.setattr(leases, "claim", claim)


def lost_cancel(patch: pytest.MonkeyPatch) -> None:
    """A failed attempt is restarted although a cancel of its job was requested."""
    status_after = leases.status_after

    def deaf(reason: EndReason, *, cancel_requested: bool, **rest: int) -> Status:
        return status_after(reason, cancel_requested=False, **rest)

    patch.setattr(leases, "status_after", deaf)


def reaper_that_does_not_look_again(patch: pytest.MonkeyPatch) -> None:
    """A reaper ends an attempt as abandoned although its lease was renewed in the meantime."""
    patch.setattr(leases, "fence_expired", leases.fence)


def leaked_slot(patch: pytest.MonkeyPatch) -> None:
    """A release gives back only the slot of the first rank."""

    def release(session: Session, attempt_id: int, *, host: str | None = None) -> None:
        mine = (Slot.attempt_id == attempt_id, Slot.rank == 0, Slot.host == host if host else true())
        session.execute(update(Slot).where(*mine).values(attempt_id=None, rank=None, quarantined_at=None))

    patch.setattr(leases, "release", release)


def slots_taken_unseen(patch: pytest.MonkeyPatch) -> None:
    """A placement takes its slots even if another attempt holds them."""
    patch.setattr(placing, "_lock_free", lambda session, slots: set(slots))


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


BUGS: list[Plant] = [
    missing_lease_check,
    claim_that_is_not_atomic,
    lost_cancel,
    reaper_that_does_not_look_again,
    leaked_slot,
    slots_taken_unseen,
    gpus_of_others_leased,
    history_with_a_gap,
]
