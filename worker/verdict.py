"""Why an attempt ended, from what its ranks said last. Pure; used by the supervision of an attempt."""

from collections.abc import Mapping
from dataclasses import dataclass

from jobs.records import ExitReason, RankExited
from jobs.states import EndReason

_DONE = {ExitReason.COMPLETED: EndReason.COMPLETED, ExitReason.EARLY_STOPPED: EndReason.EARLY_STOPPED}
# What one rank says explains the whole attempt; the first that applies wins.
_OWN_FAULTS = {
    ExitReason.BAD_DATA: EndReason.BAD_DATA,
    ExitReason.OUT_OF_MEMORY: EndReason.OUT_OF_MEMORY,
    ExitReason.INTERNAL_ERROR: EndReason.INTERNAL_ERROR,
}


@dataclass(frozen=True)
class Verdict:
    """The reason, and a sentence for people where it is not a good one."""

    reason: EndReason
    error: str | None = None


def verdict(
    exits: Mapping[int, RankExited],
    *,
    ranks: int,
    started: int,
    stopped_for: Verdict | None,
    launcher_code: int | None,
    launcher_says: str,
) -> Verdict:
    """Judge an attempt of `ranks` ranks, of which `started` came up and `exits` said why they left.

    `stopped_for` is why the supervisor ended it, if it did. The launcher's exit code alone decides nothing: it is
    0 when ranks were terminated and left in order, and 1 for everything else.
    """
    reasons = {record.reason for record in exits.values()}
    if len(exits) == ranks and reasons <= _DONE.keys():
        stopped_early = ExitReason.EARLY_STOPPED in reasons
        return Verdict(EndReason.EARLY_STOPPED if stopped_early else EndReason.COMPLETED)
    for fault, reason in _OWN_FAULTS.items():
        for rank, record in sorted(exits.items()):
            if record.reason is fault:
                return Verdict(reason, record.message or f"rank {rank} ended: {fault}")
    if stopped_for is not None:
        return stopped_for
    if started == 0:
        return Verdict(EndReason.LAUNCH_FAILED, f"no rank started; the launcher said: {launcher_says or 'nothing'}")
    silent = sorted(set(range(ranks)) - exits.keys())
    who = ", ".join(str(rank) for rank in silent)
    return Verdict(
        EndReason.RANK_FAILED,
        f"rank {who} died without a word (launcher exit code {launcher_code})"
        if silent
        else f"the ranks left before the end (launcher exit code {launcher_code})",
    )
