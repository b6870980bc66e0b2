"""The pieces of uploads in the store, which the api writes: brought together, and removed."""

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jobs.copies.store import NotInStore, Store
from jobs.data.upload_pieces import DamagedPiece, Piece, folder_of
from jobs.runtime.files import path_of

_AT_ONCE = 4
_CHUNK_BYTES = 1024 * 1024


def bring(
    store: Store,
    pieces: Sequence[Piece],
    into: int,
    *,
    still_needed: Callable[[], bool] = lambda: True,
    on_piece: Callable[[], None] = lambda: None,
) -> None:
    """Write the pieces to an open file, each to its place, and check them. `on_piece` is called after each.

    Raises `StoreAway`, also when `still_needed` says False; `DamagedPiece`; `OSError` if the file cannot be written.
    """

    def bring_one(piece: Piece) -> None:
        content = os.memfd_create("piece")
        try:
            store.download(piece.key, Path(path_of(content)), still_needed=still_needed)
            with os.fdopen(os.dup(content), "rb") as file:
                if (
                    os.fstat(content).st_size != piece.size_bytes
                    or hashlib.file_digest(file, "sha256").hexdigest() != piece.sha256
                ):
                    raise DamagedPiece(f"the store has other bytes at {piece.start} than those that were sent")
            _copy(content, into, piece)
        except NotInStore:
            raise DamagedPiece(f"the store has lost the bytes at {piece.start}") from None
        finally:
            os.close(content)

    with ThreadPoolExecutor(_AT_ONCE, "pieces") as pool:
        try:
            for _ in pool.map(bring_one, pieces):
                on_piece()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _copy(content: int, into: int, piece: Piece) -> None:
    copied = 0
    while copied < piece.size_bytes:
        chunk = os.pread(content, _CHUNK_BYTES, copied)
        copied += os.pwrite(into, chunk, piece.start + copied)


def uploads_in(store: Store) -> list[str]:
    """The ids of the uploads that have pieces in the store, and other names there. Raises `StoreAway`."""
    return store.folders("uploads")


def remove(store: Store, upload_id: str) -> None:
    """Remove all pieces of an upload from the store. Raises `StoreAway`."""
    store.remove_below(folder_of(upload_id))
