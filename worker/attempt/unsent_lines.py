"""Takes what ranks on other hosts wrote and did not send any more, where the hosts share their storage.

A supervisor that dies, or loses its connection, does not get the last lines. But the ranks may have saved a checkpoint
after them. The lead's file of a rank is the beginning of the rank's own, so the rest can be appended.
"""

import logging
import os
from collections.abc import Callable
from pathlib import Path

from jobs.runtime.files import open_regular
from worker.attempt.paths import AttemptPaths

_log = logging.getLogger(__name__)
_PIECE_BYTES = 1024 * 1024


def take_unsent_lines(paths: AttemptPaths, *, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Append them to the lead's files. Call it when no member of the attempt is connected any more.

    `meanwhile` runs between pieces.
    """
    for kind, lead_folder, ending in (("records", paths.records, "jsonl"), ("logs", paths.logs, "log")):
        for own in paths.root.glob(f"members/*/{kind}/rank-*.{ending}"):
            meanwhile()
            try:
                _append_rest(own, lead_folder / own.name, meanwhile)
            except OSError as error:
                _log.warning("what %s has cannot be taken: %s", own, error)


def _append_rest(own: Path, lead: Path, meanwhile: Callable[[], None]) -> None:
    with os.fdopen(open_regular(own, follow=False), "rb") as source, open(lead, "ab", opener=_no_link) as target:
        source.seek(target.tell())
        while piece := source.read(_PIECE_BYTES):
            target.write(piece)
            meanwhile()


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
