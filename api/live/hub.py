"""The hub of the live streams of a process: it knows who watches what, and wakes topics and listeners.

A hint of the database wakes a topic. Hints may be lost, and only lines of history send them, so once a second the hub
looks at all watched jobs and wakes the topics that changed. It also closes streams whose token is not valid any more,
and wakes listeners who were sent nothing for long: they send a comment, so that proxies keep the connection.
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
from api.live.changes import JobSnapshot
from api.live.feed import FeedTopic
from api.live.listening import listen
from api.live.topics import DATABASE_AWAY, JobTopic, Listener, Reads
from jobs.db.engine import Sessions

LOOK_EVERY_S = 1.0
TOKENS_EVERY_S = 1.5  # a revoked token ends its streams within three seconds, by the second look after it
KEEPALIVE_AFTER_S = 15.0  # without a byte a listener is sent a comment
MOST_LISTENERS = 5000

_log = structlog.get_logger(__name__)


class Hub:
    """All listeners of the process. `valid_tokens` returns those of some hashes that belong to valid tokens."""

    def __init__(
        self,
        sessions: Sessions,
        database_url: str,
        *,
        host_timeout_s: float,
        valid_tokens: Callable[[Collection[str]], Collection[str]],
    ) -> None:
        self._reads = Reads(sessions, host_timeout_s=host_timeout_s)
        self._database_url = database_url
        self._valid_tokens = valid_tokens
        self._jobs: dict[str, JobTopic] = {}
        self._feed: FeedTopic | None = None
        self._listeners: set[Listener] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_closed = False

    @property
    def count(self) -> int:
        """The number of listeners."""
        return len(self._listeners)

    @property
    def is_full(self) -> bool:
        """Whether no more listeners are accepted: there are too many, or the process ends."""
        return self._is_closed or self.count >= MOST_LISTENERS

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Hub"]:
        """Serve listeners. All streams end on exit, or when the process gets a signal to end."""
        with _on_end_signal(self.close):
            yield self
        self.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def close(self) -> None:
        """End all streams."""
        self._is_closed = True
        for listener in self._listeners:
            listener.close()

    @contextmanager
    def watching_job(self, job_id: str, listener: Listener) -> Iterator[JobTopic]:
        """The topic of a job, while a listener watches it."""
        topic = self._jobs.get(job_id)
        if topic is None:
            topic = self._jobs[job_id] = JobTopic(self._reads, job_id)
        with self._watching(topic, listener):
            yield topic
        if not topic.listeners:
            del self._jobs[job_id]
            topic.stop()

    @contextmanager
    def watching_all(self, listener: Listener) -> Iterator[FeedTopic]:
        """The topic of all jobs, while a listener watches it."""
        topic = self._feed = self._feed or FeedTopic(self._reads)
        with self._watching(topic, listener):
            yield topic
        if not topic.listeners:
            self._feed = None
            topic.stop()

    @contextmanager
    def _watching(self, topic: JobTopic | FeedTopic, listener: Listener) -> Iterator[None]:
        if not self._tasks:  # a process without listeners needs no connection
            hints = listen(self._database_url, on_hint=self._wake_named, on_connect=self._wake_all)
            # In a context of their own: they do not belong to the request that comes first.
            self._tasks = [asyncio.create_task(each, context=Context()) for each in (hints, self._look_regularly())]
        self._listeners.add(listener)
        topic.listeners.add(listener)
        if self._is_closed:
            listener.close()
        try:
            yield
        finally:
            topic.listeners.discard(listener)
            self._listeners.discard(listener)

    def _wake_named(self, payload: str) -> None:
        named_ids = changes.jobs_in(payload)
        for job_id in self._jobs.keys() if named_ids is None else self._jobs.keys() & named_ids:
            self._jobs[job_id].wake()
        if self._feed is not None:
            self._feed.wake()

    def _wake_all(self) -> None:
        self._wake_named(changes.ANY_JOB)

    async def _look_regularly(self) -> None:
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
                    await self._close_invalid()
            except DATABASE_AWAY as error:  # the streams stay open and go on when it is back
                _log.warning("live streams wait for the database", error=str(error).partition("\n")[0])
            except Exception:
                _log.exception("looking at live streams failed")
            for listener in self._listeners:
                if now - listener.last_sent_at > KEEPALIVE_AFTER_S:
                    listener.woken.set()

    async def _look(self) -> None:
        snapshots, feed_has_news = await run_sync(self._read, list(self._jobs), self._feed, limiter=self._reads.limiter)
        for job_id, topic in self._jobs.items():
            if job_id in snapshots:
                topic.update(snapshots[job_id])
        if self._feed is not None and (feed_has_news or self._feed.is_behind):
            self._feed.wake()

    def _read(self, job_ids: list[str], feed: FeedTopic | None) -> tuple[Mapping[str, JobSnapshot], bool]:
        with self._reads.sessions() as session:
            self._reads.floors.update(session)
            timeout_s = self._reads.host_timeout_s
            snapshots = changes.snapshots_of(session, job_ids, host_timeout_s=timeout_s) if job_ids else {}
            return snapshots, feed is not None and feed.look(session)

    async def _close_invalid(self) -> None:
        tokens = {listener.sha256 for listener in self._listeners}
        valid = await run_sync(self._valid_tokens, tokens, limiter=self._reads.limiter)
        for listener in self._listeners:
            if listener.sha256 in tokens and listener.sha256 not in valid:
                listener.close()


@contextmanager
def _on_end_signal(close: Callable[[], None]) -> Iterator[None]:
    """Call `close` when the process gets a signal to end.

    The server first waits for all answers, and only then tells the application. Streams have no end of their own, so
    they would hold it up until its time-out.
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
