"""The command line that starts processes on nodes of an allocation: a step of its job, with `srun`. Pure."""

import os
import re
from collections.abc import Mapping

_KEPT = ("SLURM_CONF",)
# Slurm's own trouble, and not what became of a process: "srun: error: n1: task 0: Killed".
_TROUBLE = re.compile(r"srun: error: (.*(?:Unable to |[Cc]ommunication|launch failed|has expired|Node fail).*)")


def step(slurm_job: int, *nodes: str) -> list[str]:
    """The command line up to the program and its arguments, for one process on each of these nodes.

    `--overlap` lets it use what the other steps of the job use too.
    """
    return [
        "srun", f"--jobid={slurm_job}", "--overlap", f"--nodes={len(nodes)}", f"--ntasks={len(nodes)}", "--unbuffered",
        "--cpu-bind=none", "--quiet", "--chdir=/", "--export=ALL", f"--nodelist={','.join(nodes)}",
    ]  # fmt: skip


def slurm_trouble(printed: str) -> str | None:
    """What `srun` printed if Slurm could not start a step, or took its node away. None: it did neither."""
    match = _TROUBLE.search(printed)
    return None if match is None else match[1].strip()


def variables_for_srun() -> dict[str, str]:
    """What of this process's environment `srun` needs to find the controller."""
    return {name: os.environ[name] for name in _KEPT if name in os.environ}


def without_outer_step(variables: Mapping[str, str]) -> dict[str, str]:
    """An environment without what Slurm set for the step that this process is: a `srun` below it would obey that."""
    return {name: value for name, value in variables.items() if not name.startswith("SLURM") or name in _KEPT}
