"""The nodes and GPUs that Slurm gave to the job that this process runs in.

`Allocation.of` reads the variables that Slurm sets in a batch script. The others ask Slurm. So what counts is what
Slurm gave, not what the script asked for: `sbatch --nodes=2 SCRIPT` wins over the script.
"""

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from worker.attempt.layout import LOOPBACK, HostShare, Layout
from worker.attempt.slurm_steps import step
from worker.slurm import commands
from worker.slurm.commands import SlurmAway

_ANSWER_S = 120.0  # a step starts when every node has answered
_TASKS = re.compile(r"([0-9]+)(?:\(x[0-9]+\))?")  # 2(x3): two on each of three nodes
_SAY_GPUS = ("sh", "-c", 'echo "$SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"')


class NotUsable(Exception):
    """The job of Slurm cannot run the spec. The text says why, and what to ask for."""


@dataclass(frozen=True)
class Allocation:
    """What Slurm says of the job in its environment."""

    slurm_job: int
    node_list: str  # such as n[1-2]
    ranks_per_node: int
    cpus_per_rank: int

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> "Allocation":
        """Read the environment of a batch script. Raises `NotUsable`."""
        job, nodes = variables.get("SLURM_JOB_ID", ""), variables.get("SLURM_JOB_NODELIST", "")
        tasks = variables.get("SLURM_TASKS_PER_NODE", "")
        if not job.isdecimal() or not nodes or not tasks:
            raise NotUsable("this is no job of Slurm: hand the script to sbatch")
        match = _TASKS.fullmatch(tasks)
        if match is None:
            raise NotUsable(
                f"the nodes have different numbers of tasks ({tasks}), and every node needs the same: use --nodes and"
                " --ntasks-per-node"
            )
        cpus = variables.get("SLURM_CPUS_PER_TASK", "")
        return cls(int(job), nodes, int(match[1]), int(cpus) if cpus.isdecimal() and int(cpus) else 1)

    def nodes(self) -> list[str]:
        """The names of the nodes. Raises `SlurmAway`, `SlurmRefused`."""
        return commands.hostnames(self.node_list)


def still_runs(slurm_job: int) -> bool:
    """Whether processes of a job of this user may run. Raises `SlurmAway`, `SlurmRefused`."""
    return any(job.id == slurm_job and job.runs for job in commands.jobs())


def gpus_of_nodes(slurm_job: int, nodes: Sequence[str]) -> dict[str, list[str]]:
    """The GPUs that Slurm gave on each node, as CUDA names them there. Raises `SlurmAway`."""
    try:
        done = subprocess.run(
            [*step(slurm_job, *nodes), *_SAY_GPUS], env=commands.environment(), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=_ANSWER_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise SlurmAway(f"srun started nothing on {','.join(nodes)} within {_ANSWER_S:g} s") from None
    except OSError as error:
        raise SlurmAway(f"srun cannot be run: {error.strerror}") from None
    gpus = dict(_gpus_in(line) for line in done.stdout.splitlines())
    if done.returncode != 0 or gpus.keys() != set(nodes):
        said = " ".join(done.stderr.split())[:500] or f"it named {', '.join(gpus) or 'no node'}"
        raise SlurmAway(f"srun did not start on {','.join(nodes)}: {said}")
    return {node: gpus[node] for node in nodes}


def _gpus_in(line: str) -> tuple[str, list[str]]:
    node, _, given = line.partition(" ")
    return node, [gpu for gpu in given.split(",") if gpu.strip() not in ("", "-1", "NoDevFiles")]


def layout_on(allocation: Allocation, gpus: Mapping[str, Sequence[str]], *, device: str) -> Layout:
    """The layout of the ranks on these nodes. `device` is that of the spec. Raises `NotUsable` if GPUs are missing."""
    ranks = allocation.ranks_per_node
    uses_gpus = device == "gpu" or (device == "auto" and any(gpus.values()))
    for node, given in gpus.items():
        if uses_gpus and len(given) < ranks:
            raise NotUsable(
                f"Slurm gave {len(given)} GPUs on {node} for {ranks} ranks: ask for --gres=gpu:{ranks}, or train on"
                " CPUs with device: cpu"
            )
    shares = [
        HostShare(
            node, node, range(place * ranks, (place + 1) * ranks), list(given[:ranks]) if uses_gpus else [],
            threads_per_rank=0 if uses_gpus else allocation.cpus_per_rank,
        )
        for place, (node, given) in enumerate(gpus.items())
    ]  # fmt: skip
    return Layout(shares, LOOPBACK if len(shares) == 1 else "", allocation.slurm_job)
