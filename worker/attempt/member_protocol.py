"""The messages between a supervisor and the members on its other hosts, as JSON lines. Used at both ends.

A member's first line of input is its `MemberTask`. If that has `code_bytes`, the archive of a script follows in pieces.
After the member's first `here`, commands follow.

    in      {"code": t}                                   a piece of the archive, in base64
            {"do": "extend", "since": s, "seconds": n}   the ranks may run for n seconds from `s` on, a "now" it sent
            {"do": "stop", "finish": b}                   create the ranks' stop file, and their finish file
            {"do": "signal", "number": n}                 send them a signal
            {"do": "look", "number": i}                   answer how many processes are left; no rank starts any more
            {"do": "leave"}                               end the remaining processes and exit
    out     {"say": "here", "now": s, "leased": b}        first when the host is ready, then once a second
            {"say": "leaving"}                            Slurm takes the node back: its ranks should save
            {"say": "sample", "at": t, "ranks": {r: {metric: value}}}   on a node of Slurm, by the node's clock
            {"say": "lines", "kind": k, "rank": r, "text": t}   what rank r appended to its records or log
            {"say": "note", "rank": r, "text": t}               the note of rank r, when it has changed
            {"say": "left", "look": i, "processes": n}    with n = 0 all lines and samples have been sent
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

RECORDS, LOGS = "records", "logs"
HERE_PERIOD_S = 1.0
SAYS_WHY = "leaving: "  # begins the last line that a member writes to its standard error


@dataclass(frozen=True)
class MemberTask:
    """The first line that a member reads. Paths are those of its own host."""

    host: str
    mark: str
    ranks: Sequence[int]
    launch: dict[str, Any]  # for its ranks: a `jobs.model.launch.Launch`
    launch_file: str
    scratch: str
    code_archive: str = ""  # where to put the archive of a script
    code_bytes: int = 0  # its size; 0: there is none
    own_gpus: int = 0  # how many GPUs its ranks get, of those that Slurm gave to this process
    slots_of_rank: int = 1
    sample_period_s: float = 0.0  # on a node of Slurm, where no worker samples; 0: it is a host of the service

    @property
    def of_slurm(self) -> bool:
        """Whether the member is a step of a job of Slurm."""
        return self.sample_period_s > 0
