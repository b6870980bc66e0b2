"""The cause of a preemption: why an attempt is asked to save and release its slots. Pure.

The dispatcher, a drain and a worker that shuts down each give a cause. The attempt's row holds it as a line of text.
The job's history and the API show its parts.
"""

import re
from dataclasses import dataclass
from enum import StrEnum


class PreemptionKind(StrEnum):
    """The cause: a job needs the slots, or their host is drained or shutting down."""

    JOB = "job"  # another job takes them
    HOST_DRAINED = "host_drained"
    HOST_SHUTTING_DOWN = "host_shutting_down"


_HOST_STATES = {
    PreemptionKind.HOST_DRAINED: "is drained",
    PreemptionKind.HOST_SHUTTING_DOWN: "is shutting down",
}
_JOB_LINE = re.compile(r"job (?P<job>\S+)")
_HOST_LINE = re.compile(rf"host (?P<host>.+) (?P<state>{'|'.join(_HOST_STATES.values())})")


@dataclass(frozen=True)
class PreemptionCause:
    """Either a job (its id) that needs the slots, or a host (its name) that is drained or shutting down."""

    kind: PreemptionKind
    job: str | None = None
    host: str | None = None

    @classmethod
    def for_job(cls, job_id: str) -> "PreemptionCause":
        """The job `job_id` needs the slots."""
        return cls(PreemptionKind.JOB, job=job_id)

    @classmethod
    def drained(cls, host: str) -> "PreemptionCause":
        """An operator drained the host and moves its jobs to other hosts."""
        return cls(PreemptionKind.HOST_DRAINED, host=host)

    @classmethod
    def shutting_down(cls, host: str) -> "PreemptionCause":
        """The host's worker shuts down, so its jobs have to leave."""
        return cls(PreemptionKind.HOST_SHUTTING_DOWN, host=host)

    @classmethod
    def parse(cls, text: str) -> "PreemptionCause":
        """Read what `str` wrote. Raises `ValueError` for any other text."""
        if job := _JOB_LINE.fullmatch(text):
            return cls.for_job(job["job"])
        if host := _HOST_LINE.fullmatch(text):
            kinds = {state: kind for kind, state in _HOST_STATES.items()}
            return cls(kinds[host["state"]], host=host["host"])
        raise ValueError(
            f"not a cause of a preemption: {text!r}; write `job ID` or `host NAME is drained|shutting down`"
        )

    def __str__(self) -> str:
        """As the attempt's row holds it: `job 0abc`, `host ha is drained`."""
        return f"job {self.job}" if self.kind is PreemptionKind.JOB else f"host {self.host} {_HOST_STATES[self.kind]}"

    @property
    def explanation(self) -> str:
        """The words after "preempted": `to make room for job 0abc`, `because host ha is drained`."""
        return f"to make room for {self}" if self.kind is PreemptionKind.JOB else f"because {self}"

    def to_json(self) -> dict[str, str | None]:
        """As the event in the job's history holds it."""
        return {"kind": self.kind.value, "job": self.job, "host": self.host}
