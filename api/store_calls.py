"""Calls of the store (`HORA_STORE`) by the routes of copies and uploads. One object a process, in `api.deps.Services`.

A store may be slow, or not answer at all. So its calls have a few threads of their own: while all of these wait, other
routes are answered as always, and who needs the store gets 503. The driver of a store takes up to a second to import,
so the store is opened when it is first needed.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

import structlog

from api.problems import StoreIsAway
from jobs.copies.resuming import Key
from jobs.db.engine import Sessions
from jobs.runtime.settings import Settings

if TYPE_CHECKING:
    from jobs.copies.manifests import ArtifactsManifest, CheckpointManifest
    from jobs.copies.store import Store

_AT_ONCE = 16
_ANSWER_S = 20.0  # what waits for longer gets 503; a client waits for 30 s
_PIECE_S = 60.0  # for a piece of a download that has begun
_SIGNED_FOR_S = 300
_log = structlog.get_logger(__name__)

Result = TypeVar("Result")


class StoreCalls:
    """Calls of the store of this stack, each in a thread. All raise `StoreIsAway`."""

    def __init__(self, settings: Settings, sessions: Sessions) -> None:
        self._settings = settings
        self._sessions = sessions
        self._threads = ThreadPoolExecutor(_AT_ONCE, "store")
        self._opening = Lock()
        self._store: Store | None = None

    @property
    def is_set(self) -> bool:
        """Whether the stack has a store."""
        return self._settings.store is not None

    async def call(self, work: Callable[["Store"], Result], *, within_s: float = _ANSWER_S) -> Result:
        """The result of `work`, which gets the store. What still runs after `within_s` is not waited for."""
        future = asyncio.wrap_future(self._threads.submit(self._work, work))
        try:
            return await asyncio.wait_for(future, within_s)
        except TimeoutError:
            raise StoreIsAway(f"it does not answer: it was asked {within_s:.0f} s ago") from None

    async def artifacts(self, job_id: str) -> "ArtifactsManifest | None":
        """As `jobs.copies.reading.stored_artifacts`."""

        def read(store: "Store") -> "ArtifactsManifest | None":
            from jobs.copies.reading import stored_artifacts

            return stored_artifacts(self._sessions, store, job_id)

        return await self.call(read)

    async def checkpoints(
        self, job_id: str, *, before: tuple[int, int] | None, most: int
    ) -> "tuple[list[CheckpointManifest], Key | None]":
        """As `jobs.copies.reading.stored_checkpoints`."""

        def read(store: "Store") -> "tuple[list[CheckpointManifest], Key | None]":
            from jobs.copies.reading import stored_checkpoints

            return stored_checkpoints(self._sessions, store, job_id, before=before, most=most)

        return await self.call(read)

    async def checkpoint(self, job_id: str, attempt: int, step: int) -> "CheckpointManifest | None":
        """As `jobs.copies.reading.stored_checkpoint`."""

        def read(store: "Store") -> "CheckpointManifest | None":
            from jobs.copies.reading import stored_checkpoint

            return stored_checkpoint(self._sessions, store, job_id, attempt, step)

        return await self.call(read)

    async def require_mark(self) -> None:
        """As `jobs.copies.marks.require_mark`."""

        def require(store: "Store") -> None:
            from jobs.copies.marks import require_mark

            require_mark(self._sessions, store)

        await self.call(require)

    async def pieces(self, key: str, part: range) -> AsyncIterator[bytes] | None:
        """The bytes of a part of a file. The first ones are read at once. None: the file is gone, or too short.

        If the store goes away later, they end too early: then the server breaks the connection, because bytes are
        missing.
        """

        def begin(store: "Store") -> tuple[Iterator[bytes], bytes] | None:
            from jobs.copies.store import NotInStore

            rest = store.chunks(key, part)
            try:
                return rest, next(rest, b"")
            except NotInStore:
                return None

        begun = await self.call(begin)
        if begun is None or (part and not begun[1]):
            return None
        rest, first = begun
        return self._all_pieces(key, first, rest)

    async def signed_url(self, key: str, **answer_headers: str) -> str | None:
        """An address at the store itself that sends a file, for five minutes. None: the store gives none."""

        def sign(store: "Store") -> str | None:
            from jobs.copies.store import StoreAway

            try:
                return store.signed_url(key, expires_s=_SIGNED_FOR_S, **answer_headers)
            except StoreAway as error:  # its driver can sign, but not with these credentials
                _log.warning("a download is not redirected", reason=str(error))
                return None

        return await self.call(sign)

    def close(self) -> None:
        """Begin nothing any more. What runs is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _work(self, work: Callable[["Store"], Result]) -> Result:
        from jobs.copies.store import StoreAway

        try:
            return work(self._opened())
        except StoreAway as error:
            raise StoreIsAway(str(error)) from None

    def _opened(self) -> "Store":
        from jobs.copies.store import store_of

        with self._opening:
            if self._store is None:
                self._store = store_of(self._settings)
            if self._store is None:  # what is asked for was stored when the stack had a store
                raise StoreIsAway("HORA_STORE is not set")
            return self._store

    async def _all_pieces(self, key: str, first: bytes, rest: Iterator[bytes]) -> AsyncIterator[bytes]:
        """While a piece is sent, the next one is read."""
        piece = first
        while piece:
            coming = asyncio.create_task(self.call(lambda _: next(rest, b""), within_s=_PIECE_S))
            try:
                yield piece
                piece = await coming
            except (StoreIsAway, LookupError) as error:
                _log.warning("a download breaks off", key=key, reason=str(error))
                return
            finally:
                coming.cancel()
