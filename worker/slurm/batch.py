"""The batch job that Slurm runs for one attempt: its options, and its script. Pure.

The script only holds the nodes. The attempt's supervisor runs on the login node, and starts everything on the nodes
with `srun`: it needs the database, and no credential may come to a node. So the script, which Slurm stores and shows
to everybody, has no secret. It ends when its supervisor is done (the file `over`), or when nobody has shown for long
that somebody needs the nodes: the worker of the pool touches one file, each supervisor renews the lease of its ranks.
"""

import shlex
from collections.abc import Sequence
from datetime import timedelta

from jobs.model.pools import LEAVING_S, slurm_minutes, slurm_time_s
from jobs.runtime.settings import Settings
from jobs.scheduling.allocations import LiveAllocation
from worker.attempt.allocation_files import AllocationFiles
from worker.attempt.paths import paths_of

_ABANDONED_MIN = 10  # minutes without a sign until the nodes are given back
_LONGEST = timedelta(days=1)  # where neither the job nor the partition has a limit
_MISSES = 3  # looks in a row, a minute apart: shared storage may fail once

_SCRIPT = """#!/bin/sh
# Holds the nodes of attempt {number} of job {job_id} of Hora. Its supervisor starts the ranks here with srun.
folder={folder}
trap 'touch "$folder/leaving"' USR2 TERM
misses=0
while [ ! -e "$folder/over" ]; do
    for second in 1 2 3 4 5 6 7 8 9 10 11 12; do
        sleep 5 & wait $!
        [ -e "$folder/over" ] && exit 0
    done
    misses=$((misses + 1))
    [ -n "$(find {alive} {lease} -mmin -{abandoned_min} 2>/dev/null)" ] && misses=0
    [ "$misses" -lt {misses} ] || exit 3
done
"""


def script(allocation: LiveAllocation, files: AllocationFiles, settings: Settings) -> str:
    """The batch script of an allocation."""
    lease = paths_of(settings.runs_dir, allocation.job_id, allocation.number).lease_file
    return _SCRIPT.format(
        job_id=allocation.job_id, number=allocation.number, abandoned_min=_ABANDONED_MIN, misses=_MISSES,
        folder=shlex.quote(str(files.folder(allocation.name))), alive=shlex.quote(str(files.alive)),
        lease=shlex.quote(str(lease)),
    )  # fmt: skip


def options(
    allocation: LiveAllocation,
    files: AllocationFiles,
    settings: Settings,
    *,
    partition_limit: timedelta | None,
    without: Sequence[str] = (),
) -> Sequence[str]:
    """The options of `sbatch`, for nodes that are not among `without`. Those of the operator come last: they win."""
    shape = allocation.shape
    chosen = [
        f"--job-name={allocation.name}",
        f"--partition={settings.slurm_partition}",
        f"--nodes={shape.nodes}",
        f"--ntasks-per-node={shape.ranks}",
        f"--time={minutes(allocation.time_limit_s, partition_limit)}",
        f"--nice={nice(allocation.priority)}",
        "--no-requeue",
        f"--signal=B:USR2@{LEAVING_S}",
        f"--chdir={files.root}",
        f"--output={files.folder(allocation.name)}/script.log",
    ]
    if shape.kind == "gpu":
        chosen.append(f"--gres=gpu:{shape.gpu_type + ':' if shape.gpu_type else ''}{shape.ranks}")
    if shape.feature is not None:
        chosen.append(f"--constraint={shape.feature}")
    if without:
        chosen.append(f"--exclude={','.join(without)}")
    return [*chosen, *settings.slurm_options]


def minutes(limit_s: float | None, partition_limit: timedelta | None) -> int:
    """For how long a job of this time limit is to have its nodes."""
    time = partition_limit or _LONGEST
    if limit_s is not None:
        own = timedelta(seconds=slurm_time_s(limit_s))
        time = own if partition_limit is None else min(own, partition_limit)
    return slurm_minutes(time.total_seconds())


def nice(priority: int) -> int:
    """0 for the highest priority: only operators may ask for less. A step of Hora's is worth ten of Slurm's."""
    return 10 * (100 - priority)
