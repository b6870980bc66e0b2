"""The bytes of uploads in the store. Called by `api.routes.uploads`, piece by piece, and by `api.routes.code`.

A piece counts when it is in the store and a row says so. A request that breaks off stores nothing.
"""

import hashlib
import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING

from anyio import from_thread
from fastapi.concurrency import run_in_threadpool

from api.deps import Services
from api.problems import invalid
from jobs.data import upload_pieces
from jobs.data.upload_pieces import DamagedPiece, Piece
from jobs.data.uploads import UploadGone
from jobs.db.tables import Upload
from jobs.model.problems import FieldProblem
from jobs.runtime.files import path_of

if TYPE_CHECKING:
    from jobs.copies.store import Store

STORED_CHUNK_BYTES = 8 * 1024 * 1024  # of an upload, in one request; it is held in memory until it is in the store
_SMALL_BYTES = 1024 * 1024
_MOST_SMALL = 1000  # pieces of an upload, before only larger ones are taken
_SEND_S = 300.0  # for a piece on a slow line; a store that stands still is noticed earlier
_BRING_S = 120.0  # for an archive of code


class MemoryFile:
    """A file in memory. It is closed when nobody refers to it any more, such as a call of the store that hangs."""

    def __init__(self, name: str) -> None:
        self.descriptor = os.memfd_create(name)
        weakref.finalize(self, os.close, self.descriptor)


class ArrivingPiece:
    """A piece of which more and more bytes arrive, from byte `start` of the archive on."""

    def __init__(self, upload_id: str, start: int) -> None:
        self.file = MemoryFile("piece")
        self._upload_id = upload_id
        self._start = start
        self._sha256 = hashlib.sha256()

    def write(self, offset: int, content: bytes) -> None:
        """Add the bytes that come next; `offset` is their place in the archive."""
        self._sha256.update(content)
        view = memoryview(content)
        while view:
            written = os.pwrite(self.file.descriptor, view, offset - self._start)
            view, offset = view[written:], offset + written

    def as_piece(self) -> Piece:
        """What it is now."""
        size_bytes = os.fstat(self.file.descriptor).st_size
        return Piece(self._upload_id, self._start, size_bytes, self._sha256.hexdigest())


async def store_piece(services: Services, upload: Upload, arrived: ArrivingPiece) -> Upload:
    """Write a whole piece to the store, then to its row. Raises `StoreIsAway` and 422: then nothing has changed."""
    piece, file = arrived.as_piece(), arrived.file
    if piece.size_bytes < _SMALL_BYTES and piece.end < upload.size_bytes:
        await run_in_threadpool(_require_few, services, upload.id)
    if piece.size_bytes:

        def send(store: "Store", still_needed: Callable[[], bool]) -> None:
            store.upload(piece.key, path_of(file.descriptor), still_needed=still_needed)

        await services.store.require_mark()
        await _while_needed(services, send, within_s=_SEND_S)
    return await run_in_threadpool(_advance, services, piece)


def whole_upload(services: Services, upload_id: str) -> MemoryFile:
    """All bytes of a small upload. For routes that run in a thread. Raises `DamagedPiece`, `StoreIsAway`."""
    with services.sessions() as session:
        pieces = upload_pieces.pieces_of(session, upload_id)
    file = MemoryFile("upload")

    def bring(store: "Store", still_needed: Callable[[], bool]) -> None:
        from jobs.data import pieces_in_store

        pieces_in_store.bring(store, pieces, file.descriptor, still_needed=still_needed)

    async def bring_all() -> None:
        with suppress(DamagedPiece):
            await _while_needed(services, bring, within_s=_BRING_S)
            return
        # A store that was emptied, or not mounted for a moment, has lost nothing. Its mark says whether it is there.
        await services.store.require_mark()
        try:
            await _while_needed(services, bring, within_s=_BRING_S)
        except DamagedPiece:
            await services.store.require_mark()
            raise

    from_thread.run(bring_all)
    return file


async def _while_needed(
    services: Services, work: Callable[["Store", Callable[[], bool]], None], *, within_s: float
) -> None:
    """Call the store. `work` also gets a function that says whether anybody still waits for it."""
    is_over = Event()
    try:
        await services.store.call(lambda store: work(store, lambda: not is_over.is_set()), within_s=within_s)
    finally:
        is_over.set()


def _require_few(services: Services, upload_id: str) -> None:
    """Refuse one more small piece of an upload that has many pieces: each is a row, and a file in the store."""
    with services.sessions() as session:
        count = upload_pieces.count_of(session, upload_id)
    if count >= _MOST_SMALL:
        message = f"the upload has {count} pieces already: send at least {_SMALL_BYTES} bytes at a time"
        raise invalid([FieldProblem("", message)])


def _advance(services: Services, piece: Piece) -> Upload:
    with services.sessions.begin() as session:
        row = upload_pieces.advance(session, piece)
        if row.removed_at is not None:
            raise UploadGone(row.id)
        return row
