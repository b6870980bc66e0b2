"""The connection to one member, as the supervisor sees it: its process, its last messages, and why it failed."""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from jobs.model.os_errors import without_paths
from worker.attempt.forwarded_lines import ForwardedLines
from worker.attempt.log_file import opened_to_append
from worker.attempt.member_protocol import MemberTask
from worker.attempt.slurm_steps import slurm_trouble
from worker.attempt.wire import Incoming, Outgoing

NOT_STORED = "its lines cannot be stored"
_TAKEN_BACK = "CANCELLED AT"  # Slurm's word for a step that it ended
_HOW_IT_ENDED = re.compile(r"srun: error: \S+ tasks? [0-9,-]+: ")  # the process itself has said why, before


class MemberFailed(RuntimeError):
    """A host could not be made ready for its ranks; the message names it and says why.

    `is_unreached`: no member came up there. Else one did, and said why it cannot work.
    """

    def __init__(self, message: str, *, host: str | None = None, is_unreached: bool = False) -> None:
        super().__init__(message)
        self.host = host
        self.is_unreached = is_unreached


@dataclass
class MemberConnection:
    """One host, at the end of an ssh or srun process, with its last messages. `Members` fills it."""

    host: str
    process: "subprocess.Popen[bytes]"
    incoming: Incoming
    outgoing: Outgoing
    error_log: Path  # what ssh and the member wrote to their standard error
    ranks: frozenset[int]
    lines: ForwardedLines  # what its ranks wrote
    silent_s: float = 0.0  # since its last message; not counted while this process itself was stopped
    clock_s: float | None = None  # the member's own clock in its last `here`
    has_lease: bool = False  # its ranks have their lease file
    look_asked: int = 0  # the newest look that was requested
    look_answer: tuple[int, int] = (0, -1)  # the newest look that it answered, and how many processes it saw
    is_leaving: bool = False  # Slurm takes its node back
    broken_because: str | None = None

    @classmethod
    def open(
        cls,
        command: Sequence[str],
        member: MemberTask,
        *,
        environment: Mapping[str, str] | None,
        error_log: Path,
        lines: ForwardedLines,
    ) -> "MemberConnection":
        """Start a member with this command, and give it its task. `environment` None: that of this process."""
        with opened_to_append(error_log) as errors:
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0
            )
        assert process.stdin is not None
        assert process.stdout is not None
        outgoing = Outgoing(os.dup(process.stdin.fileno()))
        process.stdin.close()
        with suppress(OSError):
            outgoing.send(asdict(member))
        incoming = Incoming(process.stdout.fileno())
        return cls(member.host, process, incoming, outgoing, error_log, frozenset(member.ranks), lines)

    def loss(self, most_silent_s: float) -> str | None:
        """A sentence that says why the host is lost: the connection broke, or it was silent for longer."""
        if self.broken_because is not None:
            return f"host {self.host}: {self.broken_because}"
        if self.silent_s > most_silent_s:
            return f"host {self.host}: silent for {self.silent_s:.0f} s"
        return None

    def is_blamed_by(self, error: str) -> bool:
        """Whether the end of an attempt was the loss of this host. Its silence may have become longer since."""
        return error.startswith(f"host {self.host}: ") and is_fault_of_node(error)

    def why_ended(self) -> str:
        """Why the connection ended: the last line that ssh or the member wrote to its standard error."""
        lines = [line.strip() for line in self._printed().split("\n")]
        said = [line for line in lines if line and not _HOW_IT_ENDED.match(line)]
        last_line = said[-1] if said else next((line for line in reversed(lines) if line), None)
        return f"the connection broke: {without_paths(last_line)}" if last_line else "the connection broke"

    def failed_start(self, why: str) -> MemberFailed:
        """The failure of a start. A program that does not run there is a fault that stays. Slurm's trouble passes."""
        printed = self._printed()
        is_silent = self.clock_s is None and self.broken_because is None
        is_unreached = is_silent or slurm_trouble(printed) is not None or _TAKEN_BACK in printed
        return MemberFailed(f"host {self.host}: {why}", host=self.host, is_unreached=is_unreached)

    def _printed(self) -> str:
        try:
            return self.error_log.read_text("utf-8", "replace")
        except OSError:
            return ""


def is_fault_of_node(error: str) -> bool:
    """Whether a loss has its cause on the node: not on this side of the connection, or in the controller of Slurm."""
    return NOT_STORED not in error and "controller" not in error
