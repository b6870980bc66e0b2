"""Drains, undrains and forgets hosts for operators. Called by the api, and by a worker that stops.

Every function works in the caller's transaction; the caller commits.

    HostInUse           the host is alive or has attempts, so it cannot be removed
"""

from typing import Any

from sqlalchemy import ColumnElement, Select, delete, func, null, or_, select, update
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Host, Slot
from jobs.model.preemption import PreemptionCause
from jobs.scheduling import placing
from jobs.scheduling.hosts import HostNotFound
from jobs.scheduling.placement_rows import PASS_LOCK, is_alive


class HostInUse(ValueError):
    """The host is alive or has attempts; the text says which."""


def drain(session: Session, name: str, *, requeue: bool = False) -> None:
    """Place no more jobs on a host. Its jobs go on; with `requeue` they are preempted and continue on other hosts.

    A second drain changes nothing, except that `requeue` takes effect. Raises `HostNotFound`.
    """
    # Wait for the present pass to end: the code below sees what it placed here, and the next pass sees the drain.
    session.execute(select(func.pg_advisory_xact_lock(PASS_LOCK)))
    _set_drained(session, name, func.coalesce(Host.drained_at, func.now()))
    if requeue:
        attempts = session.scalars(_live_attempts(name)).all()
        placing.request_preemption(session, attempts, PreemptionCause.drained(name))


def undrain(session: Session, name: str) -> None:
    """Let jobs be placed on a host again. Raises `HostNotFound`."""
    _set_drained(session, name, null())


def is_drained(session: Session, name: str) -> bool:
    """Whether a host is drained. A host that does not exist is not."""
    return session.scalar(select(Host.drained_at).where(Host.name == name)) is not None


def forget(session: Session, name: str, *, host_timeout_s: float) -> None:
    """Remove a lost host and its slots. If it comes back, it registers again. Raises `HostNotFound`, `HostInUse`.

    Slots of ended attempts are removed too, although nobody has checked for their processes: the host is gone, and
    ranks end by themselves when their lease is no longer extended.
    """
    alive = session.scalar(select(is_alive(host_timeout_s)).where(Host.name == name).with_for_update())
    if alive is None:
        raise HostNotFound(name)
    if alive:
        raise HostInUse(f"host {name} is alive: stop its worker first")
    # A pass that places a job locks the slots too: either its attempt is seen below, or it finds no slot.
    session.execute(select(Slot.index).where(Slot.host == name).order_by(Slot.index).with_for_update())
    if session.scalars(_live_attempts(name)).first() is not None:
        raise HostInUse(f"host {name} still has attempts; they end when their leases expire")
    session.execute(delete(Host).where(Host.name == name))


def _set_drained(session: Session, name: str, drained_at: ColumnElement[Any]) -> None:
    changed = update(Host).where(Host.name == name).values(drained_at=drained_at).returning(Host.name)
    if session.scalar(changed) is None:
        raise HostNotFound(name)


def _live_attempts(host: str) -> Select[int]:
    """The attempts that have not ended and hold slots of a host, or have their supervisor there."""
    holding = select(Slot.attempt_id).where(Slot.host == host, Slot.attempt_id.is_not(None))
    return select(Attempt.id).where(Attempt.ended_at.is_(None), or_(Attempt.host == host, Attempt.id.in_(holding)))
