"""`python -m worker.alone FOLDER`, a spec as JSON on its standard input: an attempt of the run in this folder.

The script of `hora export --slurm` ends in it. It exits with 0 when the run is complete, else with 1.
"""

import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

from jobs.model.plan import UnworkablePlan, resolve_plan
from jobs.model.problems import InvalidSpec
from jobs.model.runs import MOST_IN_ERROR, RunAttempt, RunNode
from jobs.model.spec import MAX_BYTES, Spec, parse_spec, spec_from
from jobs.runtime.files import PRIVATE_UMASK
from jobs.runtime.settings import settings
from worker.alone.folder import FolderRefused, RunFolder
from worker.alone.nodes import Allocation, NotUsable, gpus_of_nodes, layout_on
from worker.alone.training import Training
from worker.slurm.commands import SlurmAway, SlurmRefused


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
    except (InvalidSpec, UnworkablePlan, NotUsable, FolderRefused, SlurmAway, SlurmRefused, OSError) as error:
        sys.exit(f"hora: {error}")


def _attempt(folder: RunFolder, text: bytes, leave_signals: list[int]) -> int:
    allocation = Allocation.of(os.environ)
    nodes = allocation.nodes()
    spec = _with_ranks(parse_spec(text), allocation.ranks_per_node * len(nodes))
    lock = folder.lock()
    run = folder.open_run(spec)
    attempts = folder.attempts()
    if attempts and attempts[-1].is_complete:
        _say(f"run {run.id} is complete since attempt {attempts[-1].number}: nothing is left to train in {folder.path}")
        return 0
    for attempt in attempts:
        if attempt.ended_at is None:
            folder.end_lost(attempt)
    layout = layout_on(allocation, gpus_of_nodes(allocation.slurm_job, nodes), device=spec.device)
    training = Training(run, spec, layout, folder.paths(len(attempts) + 1), settings())
    training.prepare()
    attempt = _begun(training)
    folder.store(attempt)
    _say(_first_line(attempt, folder))
    ending = training.train(leave_signals, _say)
    error = ending.error and ending.error[:MOST_IN_ERROR]
    ended = attempt.model_copy(update={"ended_at": datetime.now(UTC), "reason": ending.reason, "error": error})
    folder.store(ended)
    _say(_last_line(ended, folder))
    os.close(lock)
    return 0 if ended.is_complete else 1


def _with_ranks(spec: Spec, ranks: int) -> Spec:
    """The spec with as many GPUs as Slurm gave tasks. Raises `InvalidSpec`, `UnworkablePlan`, `NotUsable`."""
    if spec.is_script or spec.probe is not None:
        raise NotUsable("code of your own and batch probes run only in the service")
    spec = spec_from({**spec.model_dump(mode="json"), "gpus": ranks})
    resolve_plan(spec, None)
    return spec


def _begun(training: Training) -> RunAttempt:
    layout = training.layout
    return RunAttempt(
        number=training.paths.number,
        slurm_job=layout.slurm_job or 0,
        device="gpu" if layout.lead.gpu_uuids else "cpu",
        nodes=[RunNode(name=share.host, ranks=len(share.ranks)) for share in layout.shares],
        started_at=datetime.now(UTC),
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
