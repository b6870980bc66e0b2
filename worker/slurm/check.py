"""Tries the pool of this machine. `python -m worker.slurm.check` prints for `hora doctor` what it saw.

It asks a node with `srun`, as supervisors do, while a test job of Slurm holds that node. The job ends in every case:
it is cancelled, it may run for a minute, and if it still waits at its deadline Slurm drops it.
"""

import json
import os
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

from jobs.runtime.files import PRIVATE_UMASK
from jobs.runtime.settings import Settings, settings
from jobs.scheduling.allocations import PoolWait
from jobs.scheduling.pool_reasons import waits_in_slurm
from jobs.scheduling.pools import PoolNode
from worker.slurm import commands
from worker.slurm.commands import SlurmAway, SlurmJob, SlurmRefused

_COMMANDS = ("sbatch", "srun", "squeue", "sinfo", "scontrol", "scancel")
_START_S = 60.0  # how long the test job may wait for a node
_PERIOD_S = 1.0
_SHOWN_S = 10.0  # until this machine sees a file of the node: shared storage may keep an old listing
_SCRIPT = "#!/bin/sh\n# Holds a node for `hora doctor`, which cancels it.\nsleep 55\n"
# Its arguments: a folder below HORA_HOME, the word in it, Python, a program, and folders that must be there.
_LOOK = """
[ "$(cat "$1/word")" = "$2" ] && echo "reads $1"
umask 077; echo "$2" > "$1/answer" && echo "writes $1"
echo "address $(getent ahosts "$(uname -n)" | head -n 1 | cut -d ' ' -f 1)"
[ -x "$3" ] && echo "hora $("$3" -c "$4" 2>&1 | tail -n 1)"
shift 4
for folder; do [ -d "$folder" ] || echo "lacks $folder"; done
true
"""
_VERSION = "from importlib.metadata import version; print(version('hora'))"


def facts_of(of_pool: Settings, *, stop: Event) -> dict[str, Any]:
    """What is seen of a pool, as far as the check comes. `away` or `refused` is what Slurm said at its last step."""
    facts: dict[str, Any] = {
        "partition": of_pool.slurm_partition,
        "options": of_pool.slurm_options,
        "home": str(of_pool.home),
        "python": sys.executable,
        "hora": version("hora"),
    }
    try:
        for name, fact in _seen(of_pool, stop):
            facts[name] = fact  # noqa: PERF403 - what was seen before an error counts
    except SlurmAway as error:
        facts["away"] = str(error)
    except SlurmRefused as error:
        facts["refused"] = str(error)
    return facts


def _seen(of_pool: Settings, stop: Event) -> Iterator[tuple[str, Any]]:
    missing = [command for command in _COMMANDS if shutil.which(command) is None]
    yield "missing", missing
    if missing:
        return
    yield "version", commands.version()
    nodes = commands.partition(of_pool.slurm_partition or "").nodes
    unusable = {node.name: node.state for node in nodes if not node.is_up}
    yield "nodes", len({node.name for node in nodes})
    yield "unusable", unusable
    if all(node.name in unusable for node in nodes):
        return
    options = _options(of_pool, nodes)
    commands.check_options(_SCRIPT, options)
    try:
        folder = TemporaryDirectory(prefix=".doctor-", dir=of_pool.home, ignore_cleanup_errors=True)
    except OSError as error:
        yield "no_folder", error.strerror
        return
    with folder, _test_job(options) as number:
        job = _when_started(number, stop)
        if job is None or job.waits:
            yield "waits", _why_waiting(of_pool, number, job)
        elif job.state != "RUNNING":
            yield "ended", f"{job.state} ({job.reason})"
        else:
            yield "node", job.nodes
            yield from _seen_on(job.nodes, number, of_pool, Path(folder.name))


def _options(of_pool: Settings, nodes: Sequence[PoolNode]) -> list[str]:
    """The options of a job with one rank, those of the operator included, with a time limit of a minute."""
    return [
        f"--partition={of_pool.slurm_partition}", "--nodes=1", "--ntasks-per-node=1", "--no-requeue", "--chdir=/",
        "--output=/dev/null", *(["--gres=gpu:1"] if any(node.gpus for node in nodes) else []),
        *of_pool.slurm_options, "--time=1", "--deadline=now+3minutes",
    ]  # fmt: skip


@contextmanager
def _test_job(options: Sequence[str]) -> Iterator[int]:
    """The number of a job that holds a node once it runs. The answer to its submission may be lost: its name is not."""
    name = f"hora-doctor-{secrets.token_hex(4)}"
    try:
        yield commands.submit(_SCRIPT, [f"--job-name={name}", *options])
    finally:
        with suppress(SlurmAway, SlurmRefused):
            for job in commands.jobs():
                if job.name == name:
                    commands.cancel(job.id)


def _when_started(number: int, stop: Event) -> SlurmJob | None:
    """The job when it no longer waits, or as it was last seen."""
    until, job = time.monotonic() + _START_S, None
    while not stop.is_set():
        job = next((job for job in commands.jobs() if job.id == number), job)
        if (job is not None and not job.waits) or time.monotonic() > until:
            break
        stop.wait(_PERIOD_S)
    return job


def _why_waiting(of_pool: Settings, number: int, job: SlurmJob | None) -> str:
    state, reason, starts_at = ("PENDING", None, None) if job is None else (job.state, job.reason, job.starts_at)
    return waits_in_slurm(PoolWait(of_pool.host, number, state, reason, starts_at, problem=None))


def _seen_on(node: str, number: int, of_pool: Settings, folder: Path) -> Iterator[tuple[str, Any]]:
    """What a node sees: its clock, HORA_HOME, Hora, and the folders with data."""
    before = time.time()
    clock = _number(commands.output_on(node, number, ["date", "+%s.%N"]))
    yield "clock_apart_s", max(before - clock, clock - time.time(), 0.0)
    word = secrets.token_hex(16)
    (folder / "word").write_text(word)
    folders = [root for root in of_pool.data_root_list if "://" not in root]
    folders += [str(path) for path in (of_pool.runs_dir, of_pool.datasets) if path.is_dir()]
    variables = [f"PYTHONPATH={os.environ['PYTHONPATH']}"] if "PYTHONPATH" in os.environ else []
    arguments = [str(folder), word, sys.executable, _VERSION, *folders]
    lines = commands.output_on(node, number, ["env", *variables, "sh", "-c", _LOOK, "look", *arguments])
    said: dict[str, list[str]] = {}
    for line in lines:
        what, _, text = line.partition(" ")
        said.setdefault(what, []).append(text)
    yield "reads_home", "reads" in said
    yield "writes_home", "writes" in said
    yield "home_is_shared", {"reads", "writes"} <= said.keys() and _comes_back(folder)
    yield "own_address", said.get("address", [""])[0]
    yield "hora_there", said.get("hora", [None])[0]
    yield "lacks", said.get("lacks", [])


def _number(lines: Sequence[str]) -> float:
    try:
        return float(lines[-1])
    except (IndexError, ValueError):
        raise SlurmAway(f"date printed {' '.join(lines)[:100]!r}") from None


def _comes_back(folder: Path) -> bool:
    """Whether this machine sees what the node wrote."""
    until = time.monotonic() + _SHOWN_S
    while "answer" not in os.listdir(folder):
        if time.monotonic() > until:
            return False
        time.sleep(_PERIOD_S / 10)
    return True


def main() -> None:
    """Print what is seen of the pool of this machine, as JSON. SIGTERM and SIGINT end the wait for a node."""
    os.umask(PRIVATE_UMASK)
    of_pool = settings().of_pool
    if of_pool is None:
        sys.exit("HORA_SLURM_PARTITION is not set")
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    sys.stdout.write(json.dumps(facts_of(of_pool, stop=stop)) + "\n")


if __name__ == "__main__":
    main()
