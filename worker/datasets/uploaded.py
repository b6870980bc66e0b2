"""The archive of an upload, before it is unpacked: brought from the store, and with the limits of this host.

Used by the validators, and by the fetcher of datasets that were validated elsewhere.
"""

import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jobs.copies.marks import require_mark
from jobs.copies.store import Store, StoreAway
from jobs.data.pieces_in_store import bring
from jobs.data.upload_pieces import DamagedPiece, Piece
from jobs.data.validation import Archive
from jobs.db.engine import Sessions
from jobs.runtime.settings import Settings
from jobs.runtime.space import measure
from worker.datasets.containment import GivenUp

_log = logging.getLogger(__name__)

_PATIENCE_S = 60.0  # for a store that is away, since the last piece that came
_RETRY_S = 1.0


def bring_archive(
    sessions: Sessions,
    store: Store,
    pieces: Sequence[Piece],
    path: Path,
    *,
    still_needed: Callable[[], bool],
    on_piece: Callable[[], None] = lambda: None,
) -> None:
    """Write an upload in the store to a new file. `on_piece` is called when a piece has come.

    What has come is not brought again when the store was away for a moment. A piece counts as damaged if it is so
    twice, and the store has its mark before and after that. Raises `GivenUp` if it is not needed any more, `StoreAway`,
    `DamagedPiece`, `OSError`.
    """
    came, give_up_at = 0, time.monotonic() + _PATIENCE_S
    damage: DamagedPiece | None = None
    is_certain = False

    def one_came() -> None:
        nonlocal came, give_up_at
        came, give_up_at = came + 1, time.monotonic() + _PATIENCE_S
        on_piece()

    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                require_mark(sessions, store)
                if damage is not None and is_certain:
                    break
                bring(store, pieces[came:], descriptor, still_needed=still_needed, on_piece=one_came)
                return
            except DamagedPiece as error:  # a folder that is not mounted for a moment looks so too
                is_certain = damage is not None and str(error) == str(damage)
                damage = error
            except StoreAway as error:
                if not still_needed():
                    raise GivenUp from None
                if time.monotonic() > give_up_at:
                    raise
                _log.warning("waiting for the store: %s", error)
                time.sleep(_RETRY_S)
        raise damage
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
