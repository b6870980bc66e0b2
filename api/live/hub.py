"""The heart of the live streams of a process: who watches what, and when they are woken.

A topic is woken by a hint of the database, and once a second where something of it is seen to have changed: hints may
be lost, and are sent only with lines of history. It looks again at tokens, too, and sends a word to those who heard
nothing for long, lest something between here and there takes the connection for dead.
"""

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import Context
from types import FrameType

import structlog
from anyio.to_thread import run_sync

from api.live import changes
from api.live.changes import Seen
from api.live.feed import FeedTopic
from api.live.listening import listen
from api.live.topics import AWAY, JobTopic, Listener, Reads
from jobs.db.engine import Sessions

LOOK_EVERY_S = 1.0
TOKENS_EVERY_S = 3.0
QUIET_S = 15.0  # after which a listener is sent a word
MOST_LISTENERS = 5000

_log = structlog.get_logger(__name__)


class Hub:
    """All listeners of the process. `live_tokens` says which of some hashes are of tokens that are let in."""

    def __init__(
        self,
        sessions: Sessions,
        database_url: str,
        *,
        host_timeout_s: float,
        live_tokens: Callable[[Collection[str]], Collection[str]],
    ) -> None:
        self._reads = Reads(sessions, host_timeout_s=host_timeout_s)
        self._database_url = database_url
        self._live_tokens = live_tokens
        self._jobs: dict[str, JobTopic] = {}
        self._feed: FeedTopic | None = None
        self._listeners: set[Listener] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_closed = False

    @property
    def count(self) -> int:
        """How many listen."""
        return len(self._listeners)

    @property
    def is_full(self) -> bool:
        """Whether no other listener is let in: because of their number, or because the process ends."""
        return self._is_closed or self.count >= MOST_LISTENERS

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Hub"]:
        """Serve listeners; at the end, or when the process is told to end, all streams end."""
        with _told_to_end(self.close):
            yield self
        self.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def close(self) -> None:
        """Let all streams end."""
        self._is_closed = True
        for listener in self._listeners:
            listener.close()

    @contextmanager
    def watching_job(self, job_id: str, listener: Listener) -> Iterator[JobTopic]:
        """What a listener watches a job by, as long as it does."""
        topic = self._jobs.get(job_id)
        if topic is None:
            topic = self._jobs[job_id] = JobTopic(self._reads, job_id)
        with self._watching(topic, listener):
            yield topic
        if not topic.listeners:
            del self._jobs[job_id]
            topic.leave()

    @contextmanager
    def watching_all(self, listener: Listener) -> Iterator[FeedTopic]:
        """The same for all jobs."""
        topic = self._feed = self._feed or FeedTopic(self._reads)
        with self._watching(topic, listener):
            yield topic
        if not topic.listeners:
            self._feed = None
            topic.leave()

    @contextmanager
    def _watching(self, topic: JobTopic | FeedTopic, listener: Listener) -> Iterator[None]:
        if not self._tasks:  # who has no listener needs no connection either
            hints = listen(self._database_url, heard=self._heard, connected=self._wake_all)
            # In a context of their own: they are not the business of the request that comes first.
            self._tasks = [asyncio.create_task(each, context=Context()) for each in (hints, self._look_after())]
        self._listeners.add(listener)
        topic.listeners.add(listener)
        if self._is_closed:
            listener.close()
        try:
            yield
        finally:
            topic.listeners.discard(listener)
            self._listeners.discard(listener)

    def _heard(self, payload: str) -> None:
        named = changes.jobs_in(payload)
        for job_id in self._jobs.keys() if named is None else self._jobs.keys() & named:
            self._jobs[job_id].wake()
        if self._feed is not None:
            self._feed.wake()

    def _wake_all(self) -> None:
        self._heard(changes.ANY_JOB)

    async def _look_after(self) -> None:
        tokens_at = time.monotonic()
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            if not self._listeners:
                continue
            now = time.monotonic()
            try:
                await self._look()
                if now - tokens_at >= TOKENS_EVERY_S:
                    tokens_at = now
                    await self._look_at_tokens()
            except AWAY as error:  # the streams stay: they go on when it is back
                _log.warning("live streams wait for the database", error=str(error).partition("\n")[0])
            except Exception:
                _log.exception("live streams are not looked after")
            for listener in self._listeners:
                if now - listener.told_at > QUIET_S:
                    listener.woken.set()

    async def _look(self) -> None:
        seen, feed_has_news = await run_sync(self._read, list(self._jobs), self._feed, limiter=self._reads.limiter)
        for job_id, topic in self._jobs.items():
            if job_id in seen:
                topic.look_at(seen[job_id])
        if self._feed is not None and (feed_has_news or self._feed.is_behind):
            self._feed.wake()

    def _read(self, job_ids: list[str], feed: FeedTopic | None) -> tuple[Mapping[str, Seen], bool]:
        with self._reads.sessions() as session:
            self._reads.horizons.look(session)
            seen = changes.look(session, job_ids, host_timeout_s=self._reads.host_timeout_s) if job_ids else {}
            return seen, feed is not None and feed.look(session)

    async def _look_at_tokens(self) -> None:
        asked = {listener.sha256 for listener in self._listeners}
        good = await run_sync(self._live_tokens, asked, limiter=self._reads.limiter)
        for listener in self._listeners:
            if listener.sha256 in asked and listener.sha256 not in good:
                listener.close()


@contextmanager
def _told_to_end(close: Callable[[], None]) -> Iterator[None]:
    """Have `close` called when the process is told to end.

    A server that ends first waits for all answers, and only then says so to the application: streams, which have no end
    of their own, would hold it up until it loses its patience.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def handle(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            loop.call_soon_threadsafe(close)
        earlier = before[signal.Signals(number)]
        if callable(earlier):
            earlier(number, frame)

    handled = [number for number, earlier in before.items() if callable(earlier)]
    for number in handled:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, before[number])
