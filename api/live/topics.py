"""What several listeners watch at once. Those at the same position share one read of the database and its bytes."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import replace
from typing import Generic, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

from api.live import changes, reading
from api.live.changes import FloorTracker, JobSnapshot
from api.live.positions import JobPosition, Position
from api.live.reading import Wake
from api.live.step import Step
from jobs.db.engine import Sessions
from jobs.views.live import Kind

P = TypeVar("P", bound=Position)
S = TypeVar("S", bound=Hashable)  # the selection: which part of the topic a listener wants

LIVE_READS = 4  # at once, in the process
# Errors of a database that does not answer. It comes back by itself.
DATABASE_AWAY = (OperationalError, InterfaceError, PoolTimeout)
METRICS_EVERY_S = 1.0
_MOST_STEPS = 8  # that a topic remembers


class Listener:
    """One stream. It is woken when there may be news, or when it should look around. Made by `api.live.response`."""

    def __init__(self, sha256: str) -> None:
        self.sha256 = sha256  # of its token
        self.woken = asyncio.Event()
        self.last_sent_at = time.monotonic()
        self.is_closed = False  # its reader left, its token is not valid any more, or the process ends

    def close(self) -> None:
        """Let the stream end."""
        self.is_closed = True
        self.woken.set()


class Reads:
    """How topics read: with a limited number of threads and connections, so that other requests get theirs."""

    def __init__(self, sessions: Sessions, *, host_timeout_s: float) -> None:
        self.sessions = sessions
        self.floors = FloorTracker()
        self.host_timeout_s = host_timeout_s
        self.limiter = CapacityLimiter(LIVE_READS)


class Topic(ABC, Generic[P, S]):
    """Something that listeners watch. It lives as long as it has listeners."""

    spacing_s = 0.1  # between two wakings at least: what comes meanwhile is read at once

    def __init__(self, reads: Reads) -> None:
        self.reads = reads
        self.listeners: set[Listener] = set()
        self.is_behind = False  # something was left out: it must be woken again soon
        self._steps: dict[tuple[P, S], asyncio.Task[Step[P]]] = {}  # since it last woke
        self._woken_at = -self.spacing_s
        self._timer: asyncio.TimerHandle | None = None

    def wake(self) -> None:
        """Wake up, now or when `spacing_s` has passed: there may be news."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            pause_s = max(0.0, self._woken_at + self.spacing_s - time.monotonic())
            self._timer = loop.call_later(pause_s, self._wake)

    def _wake(self) -> None:
        self._timer, self._woken_at = None, time.monotonic()
        self._steps.clear()
        self.is_behind = False
        self._on_wake()
        for listener in self.listeners:
            listener.woken.set()

    def stop(self) -> None:
        """Stop: there are no listeners any more."""
        if self._timer is not None:
            self._timer.cancel()

    async def step(self, position: P, selection: S) -> Step[P]:
        """What is new since a position. Raises what the read raises."""
        key = (position, selection)
        task = self._steps.get(key)
        if task is None:
            if len(self._steps) >= _MOST_STEPS:  # listeners that catch up are at many positions
                del self._steps[next(iter(self._steps))]
            task = self._steps[key] = asyncio.create_task(self._step(position, selection))
            task.add_done_callback(_retrieve_error)
        # A listener that leaves must not take the read away from the others.
        return await asyncio.shield(task)

    async def _step(self, position: P, selection: S) -> Step[P]:
        try:
            return await run_sync(self._read_in_a_session, position, selection, limiter=self.reads.limiter)
        except Exception:
            self.is_behind = True
            raise

    def _read_in_a_session(self, position: P, selection: S) -> Step[P]:
        started = time.monotonic()
        with self.reads.sessions() as session:
            step = self._read(session, position, selection)
        return replace(step, read_s=time.monotonic() - started)

    def _on_wake(self) -> None:
        """Called when the topic wakes, before it is read."""

    @abstractmethod
    def _read(self, session: Session, position: P, selection: S) -> Step[P]: ...


def _retrieve_error(task: "asyncio.Task[Step[P]]") -> None:
    """Mark the task's error as retrieved: all who waited for it may have gone."""
    if not task.cancelled():
        task.exception()


class JobTopic(Topic[JobPosition, frozenset[Kind]]):
    """One job."""

    def __init__(self, reads: Reads, job_id: str) -> None:
        super().__init__(reads)
        self.job_id = job_id
        self._snapshot: JobSnapshot | None = None  # the last one
        self._with_metrics, self._metrics_at = True, time.monotonic()

    def update(self, snapshot: JobSnapshot) -> None:
        """Wake up if anything changed since the last snapshot."""
        if snapshot != self._snapshot or self.is_behind:
            self._snapshot = snapshot
            self.wake()

    def _on_wake(self) -> None:
        now = time.monotonic()
        self._with_metrics = now - self._metrics_at >= METRICS_EVERY_S
        if self._with_metrics:
            self._metrics_at = now
        else:
            self.is_behind = True

    def _read(self, session: Session, position: JobPosition, selection: frozenset[Kind]) -> Step[JobPosition]:
        if self._snapshot is None:
            snapshots = changes.snapshots_of(session, [self.job_id], host_timeout_s=self.reads.host_timeout_s)
            self._snapshot = snapshots.get(self.job_id)
            self.reads.floors.update(session)
        standing = self._snapshot.standing if self._snapshot else None
        wake = Wake(self.reads.floors.latest, standing, self._with_metrics)
        return reading.next_step(session, self.job_id, position, selection, wake)
