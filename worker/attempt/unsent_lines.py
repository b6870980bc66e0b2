"""Takes what ranks on other hosts wrote and did not send any more, where the hosts share their storage.

A supervisor that dies, or loses its connection, does not get the last lines. But the ranks may have saved a checkpoint
after them. The lead's file of a rank is the beginning of the rank's own, so the rest can be appended.
"""

import logging
from pathlib import Path

from worker.attempt.paths import AttemptPaths

_log = logging.getLogger(__name__)
_PIECE_BYTES = 1024 * 1024


def take_unsent_lines(paths: AttemptPaths) -> None:
    """Append them to the lead's files. Call it when no member of the attempt is connected any more."""
    for kind, lead_folder in (("records", paths.records), ("logs", paths.logs)):
        for own in paths.root.glob(f"members/*/{kind}/rank-[0-9]*.[jl]*"):
            try:
                _append_rest(own, lead_folder / own.name)
            except OSError as error:
                _log.warning("what %s has cannot be taken: %s", own, error)


def _append_rest(own: Path, lead: Path) -> None:
    with own.open("rb") as source, lead.open("ab") as target:
        source.seek(target.tell())
        while piece := source.read(_PIECE_BYTES):
            target.write(piece)
