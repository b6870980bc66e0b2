"""The archive of an upload, before it is unpacked: brought from the store, and with the limits of this host.

Used by the validators, and by the fetcher of datasets that were validated elsewhere.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jobs.copies.store import Store
from jobs.data.pieces_in_store import bring
from jobs.data.upload_pieces import Piece
from jobs.data.validation import Archive
from jobs.runtime.settings import Settings
from jobs.runtime.space import measure


def bring_archive(
    store: Store,
    pieces: Sequence[Piece],
    path: Path,
    *,
    still_needed: Callable[[], bool],
    on_piece: Callable[[], None] = lambda: None,
) -> None:
    """Write an upload in the store to a new file. Raises `StoreAway`, `DamagedPiece`, `OSError`."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        bring(store, pieces, descriptor, still_needed=still_needed, on_piece=on_piece)
    finally:
        os.close(descriptor)


def order_to_unpack(settings: Settings, archive: Archive, path: Path, into: Path) -> dict[str, Any]:
    """The order for `worker.datasets.unpacking`."""
    limits = {
        "max_bytes": int(settings.max_unpacked_gb * 1e9),
        "max_entries": settings.max_entries,
        "max_ratio": settings.max_unpack_ratio,
    }
    for space in measure(settings, ["datasets"]):
        limits |= {"least_free_bytes": space.least_bytes, "least_free_files": space.least_files or 0}
    return {
        "archive": str(path), "into": str(into), "filename": archive.filename, "size_bytes": archive.size_bytes,
        "sha256": archive.sha256, "limits": limits,
    }  # fmt: skip
