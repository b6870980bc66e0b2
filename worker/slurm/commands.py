"""Slurm's commands, as any user of a login node has them: no REST server, no accounting.

Every command runs with a clean environment. So no option of the operator's shell changes its answer, and Slurm stores
no variable of the worker with a job.

    SlurmAway       the controller gave no answer, or none that can be read: nothing is known
    SlurmRefused    it answered with a refusal; the message is Slurm's own
"""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from jobs.scheduling.pools import PoolNode
from worker.attempt.slurm_steps import step

_ANSWER_S = 20.0  # squeue itself gives up after ten seconds
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "SLURM_CONF")
_BETWEEN = "|"
_JOB_FORMAT = _BETWEEN.join(("%i", "%T", "%r", "%S", "%N", "%j"))  # the name may have any characters
_NODE_FORMAT = _BETWEEN.join(("%N", "%T", "%c", "%m", "%G", "%f"))
_SUBMITTED = re.compile(r"([0-9]+)(;.*)?")
_GPUS = re.compile(r"\bgpu:(?:([^:(,]+):)?([0-9]+)(?=[,(]|$)")  # gpu:8, gpu:a100:8(S:0-1), gpu:3090:4
_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<clock>\d+(?::\d+){0,2})")
_WAITS = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"}
)
_RUNS = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT"})
# The controller is down, restarts, or is too busy to answer.
_AWAY = re.compile(
    r"unable to contact|connection (refused|timed? ?out)|socket timed out|timed? ?out|temporarily (unable|unavailable)"
    r"|communications? connection failure|communication shutdown|zero bytes|protocol authentication|munge",
    re.IGNORECASE,
)


class SlurmAway(OSError):
    """The controller gave no answer, or none that can be read."""


class SlurmRefused(RuntimeError):
    """Slurm answered with a refusal."""


@dataclass(frozen=True)
class SlurmJob:
    """A job of this user, as `squeue` lists it. Ended ones stay in the list for some minutes."""

    id: int
    name: str
    state: str  # PENDING, RUNNING, COMPLETED and others
    reason: str  # why it does not run, in Slurm's word: Priority, Resources and others
    starts_at: datetime | None  # when it started, or when it is expected to
    nodes: str  # such as n[1-2]; empty while it waits

    @property
    def waits(self) -> bool:
        """Whether it has no nodes yet."""
        return self.state in _WAITS

    @property
    def runs(self) -> bool:
        """Whether processes of it may run."""
        return self.state in _RUNS

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return not (self.waits or self.runs)


@dataclass(frozen=True)
class SlurmPartition:
    """A partition with its nodes, and how long its jobs may run."""

    name: str
    nodes: Sequence[PoolNode]
    time_limit: timedelta | None  # None: as long as they want


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a command of Slurm: nothing of the worker's but what it needs to find the controller."""
    of_worker = os.environ if variables is None else variables
    return {name: of_worker[name] for name in _KEPT if name in of_worker} | {"SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}


def submit(script: str, options: Sequence[str]) -> int:
    """Hand a batch script to `sbatch`; returns the id of its job. Raises `SlurmAway`, `SlurmRefused`."""
    answer = " ".join(_run(["sbatch", "--parsable", "--export=ALL", *options], script)).strip()
    match = _SUBMITTED.fullmatch(answer)
    if match is None:
        raise SlurmAway(f"sbatch answered {answer[:100]!r}")
    return int(match[1])


def check_options(script: str, options: Sequence[str]) -> None:
    """Ask whether `sbatch` would take a batch script, without a job. Raises `SlurmAway`, `SlurmRefused`."""
    _run(["sbatch", "--test-only", *options], script)


def output_on(node: str, slurm_job: int, argv: Sequence[str]) -> list[str]:
    """The lines that a program prints on a node of a running job. Raises `SlurmAway`, `SlurmRefused`."""
    return _run([*step(slurm_job, node), *argv])


def jobs() -> list[SlurmJob]:
    """The jobs of this user, in all states. Raises `SlurmAway`, `SlurmRefused`."""
    return [
        _job(line)
        for line in _run(["squeue", "--me", "--all", "--noheader", "--states=all", f"--format={_JOB_FORMAT}"])
    ]


def knows(slurm_job: int) -> bool:
    """Whether the controller knows a job that `squeue` did not list. Raises `SlurmAway`."""
    try:
        _run(["scontrol", "show", "job", str(slurm_job)])
    except SlurmRefused as refusal:
        if "invalid job id" in str(refusal).lower():
            return False
        raise SlurmAway(str(refusal)) from None
    return True


def cancel(slurm_job: int) -> None:
    """End a job. One that has ended is no error. Raises `SlurmAway`, `SlurmRefused`."""
    try:
        _run(["scancel", str(slurm_job)])
    except SlurmRefused as refusal:
        if "invalid job id" not in str(refusal).lower():
            raise


def exclude(slurm_job: int, nodes: Sequence[str]) -> None:
    """Keep a job that waits from these nodes, and from no others. Raises `SlurmAway`, `SlurmRefused`."""
    _run(["scontrol", "update", f"JobId={slurm_job}", f"ExcNodeList={','.join(nodes)}"])


def change(slurm_job: int, name: str, value: int) -> None:
    """Change a property of a job that waits. Raises `SlurmAway`, `SlurmRefused`."""
    _run(["scontrol", "update", f"JobId={slurm_job}", f"{name}={value}"])


def partition(name: str) -> SlurmPartition:
    """A partition with its nodes. Raises `SlurmAway`, and `SlurmRefused` if there is none of this name."""
    nodes = [
        _node(line)
        for line in _run(["sinfo", "--noheader", "--Node", f"--partition={name}", f"--format={_NODE_FORMAT}"])
    ]
    if not nodes:
        raise SlurmRefused(f"there is no partition {name}, or it has no nodes")
    limits = _run(["sinfo", "--noheader", "--summarize", f"--partition={name}", "--format=%l"])
    return SlurmPartition(name, nodes, _duration(limits[0].strip()) if limits else None)


def hostnames(nodes: str) -> list[str]:
    """The names in a list such as n[1-2,4]. Raises `SlurmAway`, `SlurmRefused`."""
    return [line.strip() for line in _run(["scontrol", "show", "hostnames", nodes])]


def version() -> str:
    """The version of the commands here, such as 22.05.8. Raises `SlurmAway` if they are not installed."""
    lines = _run(["sbatch", "--version"])
    return lines[0].split()[-1] if lines else "unknown"


def _run(argv: Sequence[str], text: str = "") -> list[str]:
    """The lines that a command printed. Raises `SlurmAway`, `SlurmRefused`."""
    try:
        done = subprocess.run(
            argv, input=text, capture_output=True, text=True, errors="replace", env=environment(), timeout=_ANSWER_S,
            check=False, cwd="/",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise SlurmAway(f"{argv[0]} did not answer within {_ANSWER_S:g} s") from None
    except OSError as error:
        raise SlurmAway(f"{argv[0]} cannot be run: {error.strerror}") from None
    if done.returncode == 0:
        return done.stdout.splitlines()
    said = " ".join(line.split(": ", 1)[-1].strip() for line in done.stderr.splitlines() if line.strip())[:500]
    said = said or f"{argv[0]} exited with {done.returncode}"
    if done.returncode < 0 or _AWAY.search(said):
        raise SlurmAway(said)
    raise SlurmRefused(said)


def _fields(line: str, count: int) -> list[str]:
    fields = [field.strip() for field in line.split(_BETWEEN, count - 1)]
    if len(fields) != count:
        raise SlurmAway(f"Slurm answered {line[:100]!r}")
    return fields


def _job(line: str) -> SlurmJob:
    number, state, reason, starts_at, nodes, name = _fields(line, 6)
    # Of an array only the number before its _ counts; this program submits none.
    return SlurmJob(int(re.match(r"\d*", number)[0] or 0), name, state, reason, _time(starts_at), nodes)  # type: ignore[index]


def _node(line: str) -> PoolNode:
    name, state, cpus, memory_mb, gres, features = _fields(line, 6)
    gpus: dict[str, int] = {}
    for kind, count in _GPUS.findall(gres):
        gpus[kind] = gpus.get(kind, 0) + int(count)
    named = () if features in ("(null)", "") else tuple(features.split(","))
    return PoolNode(name, state, int(cpus), int(memory_mb.rstrip("+")) * 1024 * 1024, gpus, named)


def _time(text: str) -> datetime | None:
    return datetime.fromtimestamp(int(text), UTC) if text.isdecimal() and int(text) > 0 else None


def _duration(text: str) -> timedelta | None:
    """A time limit such as 1-12:00:00 or 30:00. None: there is none, or it cannot be read."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    parts = [int(part) for part in match["clock"].split(":")]
    if match["days"] is not None:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
        return timedelta(days=int(match["days"]), hours=hours, minutes=minutes, seconds=seconds)
    hours, minutes, seconds = (0, 0, *parts)[-3:] if len(parts) > 1 else (0, parts[0], 0)
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)
