"""What several listeners watch at once. Those at the same position share one read of the database, and its bytes."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Generic, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

from api.live import changes, reading
from api.live.changes import Horizons, Seen
from api.live.positions import JobPosition, Position
from api.live.reading import Moment
from api.live.step import Step
from jobs.db.engine import Sessions
from jobs.views.live import Kind

P = TypeVar("P", bound=Position)
W = TypeVar("W", bound=Hashable)  # which part of it a listener wants

LIVE_READS = 4  # at once, of the process
# The database does not answer: what comes again by itself.
AWAY = (OperationalError, InterfaceError, PoolTimeout)
METRICS_EVERY_S = 1.0
_REMEMBERED = 8  # steps


class Listener:
    """One stream: woken when there may be news, or something else to do. Made by `api.live.response`."""

    def __init__(self, sha256: str) -> None:
        self.sha256 = sha256  # of its token
        self.woken = asyncio.Event()
        self.told_at = time.monotonic()
        self.is_over = False  # its reader went away, its token is no longer good, or the process ends

    def close(self) -> None:
        """Let the stream end."""
        self.is_over = True
        self.woken.set()


class Reads:
    """What topics read with: threads and connections of their own number, so that other requests have theirs."""

    def __init__(self, sessions: Sessions, *, host_timeout_s: float) -> None:
        self.sessions = sessions
        self.horizons = Horizons()
        self.host_timeout_s = host_timeout_s
        self.limiter = CapacityLimiter(LIVE_READS)


class Topic(ABC, Generic[P, W]):
    """Something that listeners watch. It lives as long as it has any."""

    spacing_s = 0.1  # between two wakings at least: what comes meanwhile is read at once

    def __init__(self, reads: Reads) -> None:
        self.reads = reads
        self.listeners: set[Listener] = set()
        self.is_behind = False  # something was left untold: it is woken again before long
        self._steps: dict[tuple[P, W], asyncio.Task[Step[P]]] = {}  # since it was woken last
        self._woken_at = -self.spacing_s
        self._timer: asyncio.TimerHandle | None = None

    def wake(self) -> None:
        """There may be news, now or very soon."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            pause_s = max(0.0, self._woken_at + self.spacing_s - time.monotonic())
            self._timer = loop.call_later(pause_s, self._wake)

    def _wake(self) -> None:
        self._timer, self._woken_at = None, time.monotonic()
        self._steps.clear()
        self.is_behind = False
        self._begin()
        for listener in self.listeners:
            listener.woken.set()

    def leave(self) -> None:
        """Nobody listens any more."""
        if self._timer is not None:
            self._timer.cancel()

    async def step(self, position: P, wanted: W) -> Step[P]:
        """What is new since a position. Raises what the read raises."""
        key = (position, wanted)
        reading_it = self._steps.get(key)
        if reading_it is None:
            if len(self._steps) >= _REMEMBERED:  # those that catch up are at many positions
                del self._steps[next(iter(self._steps))]
            reading_it = self._steps[key] = asyncio.create_task(self._step(position, wanted))
            reading_it.add_done_callback(_looked_at)
        # A listener that leaves must not take the read away from the others.
        return await asyncio.shield(reading_it)

    async def _step(self, position: P, wanted: W) -> Step[P]:
        try:
            return await run_sync(self._read_in_a_session, position, wanted, limiter=self.reads.limiter)
        except Exception:
            self.is_behind = True
            raise

    def _read_in_a_session(self, position: P, wanted: W) -> Step[P]:
        with self.reads.sessions() as session:
            return self._read(session, position, wanted)

    def _begin(self) -> None:
        """It is about to be read anew."""

    @abstractmethod
    def _read(self, session: Session, position: P, wanted: W) -> Step[P]: ...


def _looked_at(task: "asyncio.Task[Step[P]]") -> None:
    """Its error is that of those who waited for it; where none is left, it is nobody's."""
    if not task.cancelled():
        task.exception()


class JobTopic(Topic[JobPosition, frozenset[Kind]]):
    """One job."""

    def __init__(self, reads: Reads, job_id: str) -> None:
        super().__init__(reads)
        self.job_id = job_id
        self._seen: Seen | None = None  # when it was looked at last
        self._with_metrics, self._metrics_at = True, time.monotonic()

    def look_at(self, seen: Seen) -> None:
        """Wake up where anything changed since it was looked at before."""
        if seen != self._seen or self.is_behind:
            self._seen = seen
            self.wake()

    def _begin(self) -> None:
        now = time.monotonic()
        self._with_metrics = now - self._metrics_at >= METRICS_EVERY_S
        if self._with_metrics:
            self._metrics_at = now
        else:
            self.is_behind = True

    def _read(self, session: Session, position: JobPosition, wanted: frozenset[Kind]) -> Step[JobPosition]:
        if self._seen is None:
            found = changes.look(session, [self.job_id], host_timeout_s=self.reads.host_timeout_s)
            self._seen = found.get(self.job_id)
            self.reads.horizons.look(session)
        standing = self._seen.standing if self._seen else None
        moment = Moment(self.reads.horizons.settled, standing, self._with_metrics)
        return reading.news(session, self.job_id, position, wanted, moment)
