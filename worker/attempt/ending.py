"""Why an attempt ended: from the last records of its ranks, and from requests to stop it.

Pure; used by the supervision and the agent.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from jobs.model.os_errors import without_folder, without_paths
from jobs.model.records import RankExited
from jobs.model.states import COMPLETE, FAULTS_OF_A_RANK, EndReason
from jobs.runtime.space import says_full

if TYPE_CHECKING:
    from jobs.lifecycle.leases import StopRequests  # what trains without the service imports no database

# How horovodrun reports the first rank that failed; 137 is 128 + SIGKILL.
_KILLED = re.compile(r"Process name: (\d+)\W+Exit code: 137\b")

# Ends that a full disk may have caused.
_MAY_BE_SPACE = frozenset({EndReason.STALLED, EndReason.LAUNCH_FAILED, EndReason.LEASE_EXPIRED})


@dataclass(frozen=True)
class Ending:
    """The reason, and a sentence for people where it is not a good one."""

    reason: EndReason
    error: str | None = None
    saves: bool = False  # first, although the job does not continue

    def without_folders(self, *folders: Path) -> "Ending":
        """The same, in which paths begin below these folders of the host: people read the error, not only operators."""
        error = self.error
        for folder in folders if error else ():
            error = without_folder(error or "", str(folder))
        return replace(self, error=error)


def requested_ending(requests: "StopRequests") -> Ending | None:
    """How a person, its search, the queue or idle slots asked an attempt to end; None while it may go on."""
    if requests.cancel_requested:
        return Ending(EndReason.CANCELLED, saves=requests.cancel_saves)
    if requests.is_pruned:
        return Ending(EndReason.PRUNED)
    if requests.why_stopped is not None:
        return Ending(EndReason.IDLE, requests.why_stopped)
    if requests.pause_requested:
        return Ending(EndReason.PAUSED, requests.why_paused)
    if requests.preemption is not None:
        return Ending(EndReason.PREEMPTED, requests.preemption.explanation)
    return None


def judge(
    exits: Mapping[int, RankExited],
    *,
    ranks: int,
    started: int,
    stopped_for: Ending | None,
    launcher_code: int | None,
    launcher_says: str,
    per_gpu_batch: int | None,
    no_space: str | None = None,
) -> Ending:
    """How an attempt of `ranks` ranks ended. `started` ranks came up; `exits` are the last records of ranks.

    `stopped_for` is why the supervisor ended it, if it did. The launcher's exit code alone decides nothing: it is
    0 when ranks were terminated and exited normally, and 1 for everything else. `no_space` says why the attempt's
    folder cannot be written at its end, if so: it explains an end without an explanation. `per_gpu_batch` is
    for advice; None for a script. The `exits` of scripts are those of `worker.attempt.script_ending`.
    """
    reasons = {record.reason for record in exits.values()}
    if len(exits) == ranks and reasons <= COMPLETE:
        early = [reason for reason in (EndReason.PRUNED, EndReason.EARLY_STOPPED) if reason in reasons]
        return Ending(early[0] if early else EndReason.COMPLETED)
    for fault in (*FAULTS_OF_A_RANK, EndReason.RANK_FAILED):  # the last one is what a script says of itself
        for rank, record in sorted(exits.items()):
            if record.reason is fault:
                return Ending(fault, record.message or f"rank {rank} ended: {fault}")
    if no_space is not None and (stopped_for is None or stopped_for.reason in _MAY_BE_SPACE):
        stopped_for = Ending(EndReason.NO_SPACE, no_space)
    if stopped_for is not None:
        return stopped_for
    without_lease = [str(rank) for rank, record in sorted(exits.items()) if record.reason is EndReason.LEASE_EXPIRED]
    if without_lease:
        return Ending(EndReason.LEASE_EXPIRED, f"rank {', '.join(without_lease)} left: nobody extended its lease")
    if started == 0:
        reason = EndReason.NO_SPACE if says_full(launcher_says) else EndReason.LAUNCH_FAILED  # on another host
        said = without_paths(launcher_says) or "nothing"
        return Ending(reason, f"no rank started; the launcher said: {said}")
    return Ending(EndReason.RANK_FAILED, _why_failed(exits, ranks, launcher_code, launcher_says, per_gpu_batch))


def _why_failed(
    exits: Mapping[int, RankExited],
    ranks: int,
    launcher_code: int | None,
    launcher_says: str,
    per_gpu_batch: int | None,
) -> str:
    silent = sorted(set(range(ranks)) - exits.keys())
    killed_rank = _KILLED.search(launcher_says)
    if killed_rank is not None and int(killed_rank[1]) in silent:
        return _was_killed(killed_rank[1], per_gpu_batch)
    if silent:
        ranks_text = ", ".join(map(str, silent))
        return f"rank {ranks_text} died without a word (launcher exit code {launcher_code})"
    return f"the ranks left before the end (launcher exit code {launcher_code})"


def _was_killed(rank: str, per_gpu_batch: int | None) -> str:
    if per_gpu_batch is None:
        return f"rank {rank} was killed (SIGKILL), as the kernel does when memory runs out"
    advice = f"a batch of {per_gpu_batch // 2} per GPU" if per_gpu_batch > 1 else "a smaller model"
    return f"rank {rank} was killed (SIGKILL), as the kernel does when memory runs out: if it did, try {advice}"
