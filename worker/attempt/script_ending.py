"""Which exit records of a script explain the end of its attempt. Pure; `worker.attempt.ending` judges by these.

When one rank fails, the scripts of the others fail a moment later, because a collective with it breaks. And a script
that is asked to stop may fail instead of leaving in peace. Only the first failure says what happened.
"""

import re
from collections.abc import Mapping

from jobs.model.records import RankExited, UnexplainedExit
from jobs.model.states import FAULTS_OF_A_RANK, EndReason

# How horovodrun reports the first process that failed.
_FIRST_FAILED = re.compile(r"Process name: (\d+)\W+Exit code: ")
_FAILURES = frozenset({*FAULTS_OF_A_RANK, EndReason.RANK_FAILED})


def explaining_exits(
    exits: Mapping[int, RankExited], *, launcher_says: str, stopped_at: float | None, has_saved: bool
) -> dict[int, RankExited]:
    """The exit records with at most one failure: the first one, if nothing earlier explains it.

    `stopped_at` is when the supervisor asked the ranks to stop, in seconds since the epoch; None: it did not.
    `has_saved`: this attempt saved a checkpoint, so that another one may get further than a script that failed.
    """
    failures = sorted((record.at, rank) for rank, record in exits.items() if record.reason in _FAILURES)
    if not failures:
        return dict(exits)
    first_at, first_rank = failures[0]
    killed_first = _FIRST_FAILED.search(launcher_says)
    peer_was_first = killed_first is not None and int(killed_first[1]) not in exits
    stop_was_first = stopped_at is not None and stopped_at <= first_at
    consequence = UnexplainedExit.STOP_REQUESTED if stop_was_first else UnexplainedExit.PEER_LOST
    explaining = dict(exits)
    for _, rank in failures:
        record = exits[rank]
        if rank != first_rank or peer_was_first or stop_was_first:
            explaining[rank] = record.model_copy(update={"reason": consequence})
        elif record.reason is EndReason.SCRIPT_FAILED and has_saved:
            explaining[rank] = record.model_copy(update={"reason": EndReason.RANK_FAILED})
    return explaining
