"""`python -m worker.alone FOLDER`, a spec as JSON on its standard input: an attempt of the run in this folder.

The script of `hora export --slurm` ends in it. It exits with 0 when the run is complete, else with 1.
"""

import os
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from jobs.model.plan import UnworkablePlan, resolve_plan
from jobs.model.problems import InvalidSpec
from jobs.model.runs import RunAttempt, RunNode
from jobs.model.spec import MAX_BYTES, Spec, parse_spec, spec_from
from jobs.runtime.files import PRIVATE_UMASK
from jobs.runtime.run_folders import FolderInUse
from jobs.runtime.settings import settings
from worker.alone.folder import FolderRefused, RunFolder
from worker.alone.nodes import Allocation, NotUsable, gpus_of_nodes, layout_on, still_runs
from worker.alone.training import Training
from worker.slurm.commands import SlurmAway, SlurmRefused

_REFUSALS = (InvalidSpec, UnworkablePlan, NotUsable, FolderInUse, FolderRefused, SlurmAway, SlurmRefused, OSError)


def main() -> int:
    """Run one attempt, unless the run is complete. Returns the exit code."""
    os.umask(PRIVATE_UMASK)
    leave_signals: list[int] = []
    for number in (signal.SIGUSR2, signal.SIGTERM):
        signal.signal(number, lambda number, _: leave_signals.append(number))
    if len(sys.argv) != 2:
        sys.exit("usage: python -m worker.alone FOLDER < SPEC.json")
    try:
        return _attempt(RunFolder(Path(sys.argv[1]).absolute()), sys.stdin.buffer.read(MAX_BYTES), leave_signals)
    except _REFUSALS as error:
        sys.exit(f"hora: {error}")


def _attempt(folder: RunFolder, text: bytes, leave_signals: list[int]) -> int:
    allocation = Allocation.of(os.environ)
    nodes = allocation.nodes()
    spec = _with_ranks(parse_spec(text), allocation.ranks_per_node * len(nodes))
    lock = folder.lock()
    run = folder.open_run(spec)
    attempts = [_ended(attempt, folder, allocation.slurm_job) for attempt in folder.attempts()]
    if attempts and attempts[-1].is_complete:
        _say(f"run {run.id} is complete since attempt {attempts[-1].number}: nothing is left to train in {folder.path}")
        return 0
    layout = layout_on(allocation, gpus_of_nodes(allocation.slurm_job, nodes), device=spec.device)
    training = Training(run, spec, layout, folder.paths(len(attempts) + 1), settings())
    training.prepare()
    attempt = _begun(training, attempts)
    folder.store(attempt)
    _say(_first_line(attempt, folder))
    ending = training.train(leave_signals, _say)
    ended = attempt.with_end(datetime.now(UTC), ending.reason, ending.error)
    folder.store(ended)
    _say(_last_line(ended, folder))
    os.close(lock)
    return 0 if ended.is_complete else 1


def _with_ranks(spec: Spec, ranks: int) -> Spec:
    """The spec with as many GPUs as Slurm gave tasks. Raises `InvalidSpec`, `UnworkablePlan`, `NotUsable`."""
    if spec.is_script or spec.probe is not None:
        raise NotUsable("code of your own and batch probes run only in the service")
    if spec.strategy == "mirrored":
        raise NotUsable("the strategy mirrored runs only in the service: use horovod")
    if spec.after:
        raise NotUsable("only the service knows the jobs in `after`: use `sbatch --dependency=afterok:ID`")
    spec = spec_from({**spec.model_dump(mode="json"), "gpus": ranks})
    resolve_plan(spec, None)
    return spec


def _ended(attempt: RunAttempt, folder: RunFolder, slurm_job: int) -> RunAttempt:
    """An attempt with its end, which is written now if it could not write it. Raises `NotUsable` if it still trains.

    This process has the lock, but some storage knows the locks of its own node only. So Slurm is asked as well.
    """
    if attempt.ended_at is not None:
        return attempt
    if attempt.slurm_job != slurm_job and still_runs(attempt.slurm_job):
        raise NotUsable(
            f"job {attempt.slurm_job} of Slurm trains in {folder.path}: submit the script again when it has ended"
        )
    return folder.end_lost(attempt)


def _begun(training: Training, earlier: Sequence[RunAttempt]) -> RunAttempt:
    """The attempt that begins now, but not before the earlier ones ended: they ran by the clocks of other nodes."""
    layout = training.layout
    known = [training.run.created_at, *(attempt.ended_at for attempt in earlier if attempt.ended_at is not None)]
    return RunAttempt(
        number=training.paths.number,
        slurm_job=layout.slurm_job or 0,
        device="gpu" if layout.lead.gpu_uuids else "cpu",
        nodes=[RunNode(name=share.host, ranks=len(share.ranks)) for share in layout.shares],
        started_at=max(datetime.now(UTC), *known),
    )


def _first_line(attempt: RunAttempt, folder: RunFolder) -> str:
    nodes = ", ".join(node.name for node in attempt.nodes)
    on = "GPUs" if attempt.device == "gpu" else "CPUs"
    return f"attempt {attempt.number} in {folder.path}: {attempt.ranks} ranks on {on} of {nodes}"


def _last_line(attempt: RunAttempt, folder: RunFolder) -> str:
    if attempt.is_complete:
        return f"{attempt.reason}: what it left is in {folder.path / 'artifacts'}"
    why = f": {attempt.error}" if attempt.error else ""
    return f"{attempt.reason}{why}\nSubmit the script again to go on from the last checkpoint."


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
