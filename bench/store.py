"""Measures what copies to the store (`HORA_STORE`) cost a job, and how fast they are, beside bare copies.

One long job on two ranks keeps both cores busy, and saves a checkpoint after each epoch. The copier works as ever: it
copies one, and rests. In between a bare program copies one too. It has the same lowest priority, reads the checkpoint
for its SHA-256, and puts it into the folder, or into S3 with one call of s3fs. So it shows what the bytes alone cost.

The steps of an epoch in which somebody copies are compared with those of the nearest epochs in which nobody does. So
what changes more slowly, such as other programs on the machine, does not count. Epochs in which nobody copies are
compared with the next ones of their kind: that shows how far equal epochs differ. The S3 server has the lowest priority
too, because in production it is another machine. It still takes what the ranks leave of the cores.

`python -m bench.store s3 FOLDER` and `python -m bench.store bare URL` are the two programs of the lowest priority.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import fsspec
import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from bench.copy_costs import BARE, BOTH, COPIER, NOBODY, Copy, Epoch, Measured
from hora.service import Service
from hora.stack.control import Stack
from jobs.model.records import StepEnded, parse_record, rank_records_name
from jobs.runtime.checkpoint_folders import complete_below
from tests.s3 import s3_server
from worker.attempt.paths import AttemptPaths, paths_of
from worker.copies.process import be_last

RANKS, STEPS = 2, 40
PLACES = ("folder", "S3")
_COPIES_A_ROUND = 8
_BARE_AFTER = 2  # epochs after a copy of the copier
_MOST_EPOCHS = 10_000
_SETTLE_S = 4.0  # what a stack does after its start is over
_IDLE_S = 20.0
_LOOK_S = 0.05
_ALONE = 3  # bare copies when the job has ended
_RESAMPLES = 2000
_READ_BYTES = 1024 * 1024


def main(*, rounds: int) -> None:
    """Measure `rounds` x 8 copies of the copier for each place, and print the tables after each."""
    console = Console()
    found: dict[str, Measured] = {}
    for place in PLACES:
        copies = rounds * _COPIES_A_ROUND
        console.print(f"store: {copies} copies to {place}", style="dim")
        with tempfile.TemporaryDirectory(prefix="hora-bench-") as name:
            folder = Path(name)
            folder.chmod(0o755)
            found[place] = _measure(folder, place, copies)
        console.print(_table_of_steps(found))  # a long run that is interrupted has shown something
        console.print(_table_of_copies(found))


def _measure(folder: Path, place: str, copies: int) -> Measured:
    with ExitStack() as opened:
        (folder / "store").mkdir()
        store = f"file://{folder}/store"
        options: dict[str, Any] = {}
        if place == "S3":
            store, options = opened.enter_context(_s3(folder / "s3"))
        of_store = {"HORA_STORE": store, "HORA_STORE_OPTIONS": json.dumps(options)}
        with patch.dict(os.environ, of_store):
            stack = opened.enter_context(Stack(folder / "home", port=0, slots=RANKS))
        client = opened.enter_context(Service(stack.url, stack.token))
        bare = opened.enter_context(_Bare.started(store, of_store))
        time.sleep(_SETTLE_S)
        return _train(stack, client, bare, copies)


def _train(stack: Stack, client: Service, bare: "_Bare", copies: int) -> Measured:
    """Run the job until the copier has made so many copies, and let the bare program copy between them."""
    processes = {COPIER: _copier(stack), BARE: bare.process}
    cpu_s = {who: -_cpu_s(process) for who, process in processes.items()}
    job_id = client.submit(_spec())["id"]
    paths = paths_of(stack.home / "runs", job_id, 1)
    copied, copied_at = 0, 0
    for epoch in range(1, _MOST_EPOCHS):
        _wait_for_checkpoint(client, job_id, paths, step=epoch * STEPS)
        now_copied = len(_copies_of_copier(client, job_id))
        if now_copied > copied:
            copied, copied_at = now_copied, epoch
        if copied >= copies and epoch > copied_at + _BARE_AFTER:
            break
        if copied and epoch == copied_at + _BARE_AFTER:
            bare.copy(paths.checkpoints)
    cpu_s = {who: used_s + _cpu_s(processes[who]) for who, used_s in cpu_s.items()}
    copies_of = {COPIER: _copies_of_copier(client, job_id), BARE: bare.copies()}
    client.cancel(job_id)
    ended = client.wait(job_id)
    assert ended["status"] == "cancelled", ended
    time.sleep(_SETTLE_S)  # what the job left is copied
    alone = []
    for _ in range(_ALONE):
        bare.copy(paths.checkpoints)
        alone += bare.copies()
    return Measured(
        _epochs(paths, copies_of), copies_of, alone,
        {who: used_s / sum(copy.bytes for copy in copies_of[who]) * 1e9 for who, used_s in cpu_s.items()},
        _idle_percent(processes[COPIER]),
    )  # fmt: skip


def _spec() -> dict[str, Any]:
    return {
        "dataset": {"source": "synthetic:shape=96x96x3", "validation": 0.01}, "model": "mlp", "batch_size": 64,
        "learning_rate": 0.001, "optimizer": "adam", "gpus": RANKS, "epochs": _MOST_EPOCHS, "steps_per_epoch": STEPS,
        "early_stopping": None, "goal": {"metric": "loss"},
    }  # fmt: skip


def _wait_for_checkpoint(client: Service, job_id: str, paths: AttemptPaths, *, step: int) -> None:
    while not any(found.step >= step for found in complete_below(paths.checkpoints, of_script=False)):
        time.sleep(_LOOK_S)
        assert client.job(job_id)["ended_at"] is None, client.logs(job_id)


def _epochs(paths: AttemptPaths, copies: Mapping[str, Sequence[Copy]]) -> list[Epoch]:
    """All complete epochs but the first one, which warms up."""
    lines = (paths.records / rank_records_name(0)).read_bytes().splitlines()
    steps = [record for line in lines if isinstance(record := parse_record(line), StepEnded)]
    epochs = []
    for first in range(STEPS, len(steps) - STEPS + 1, STEPS):
        began, ended = steps[first - 1].at, steps[first + STEPS - 1].at
        who = _who_copies(began, ended, copies)
        epochs.append(Epoch(who, began, ended, steps[first + 1 : first + STEPS]))
    return epochs


def _who_copies(began: float, ended: float, copies: Mapping[str, Sequence[Copy]]) -> str:
    copying = [
        who for who, own in copies.items() if any(one.at > began and one.at - one.took_s <= ended for one in own)
    ]
    return BOTH if len(copying) > 1 else copying[0] if copying else NOBODY


def _copies_of_copier(client: Service, job_id: str) -> list[Copy]:
    return [
        Copy(datetime.fromisoformat(event["at"]).timestamp(), event["data"]["duration_s"], event["data"]["bytes"])
        for event in client.events(job_id) if event["kind"] == "checkpoint_copied"
    ]  # fmt: skip


def _copier(stack: Stack) -> psutil.Process:
    return next(
        process
        for process in psutil.Process(stack.pid_of("worker")).children()
        if "worker.copies.process" in process.cmdline()
    )


def _idle_percent(process: psutil.Process) -> float:
    began_s = _cpu_s(process)
    time.sleep(_IDLE_S)
    return 100 * (_cpu_s(process) - began_s) / _IDLE_S


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


class _Bare:
    """The program that copies a checkpoint when it is told to."""

    def __init__(self, program: "subprocess.Popen[bytes]") -> None:
        assert program.stdin is not None
        assert program.stdout is not None
        self._input, self._output = program.stdin, program.stdout
        self._output.readline()  # it is ready
        self._asked = 0
        self.process = psutil.Process(program.pid)

    @classmethod
    @contextmanager
    def started(cls, store: str, of_store: dict[str, str]) -> "Iterator[_Bare]":
        """Start it with the lowest priority."""
        with _last_of_all([sys.executable, "-m", "bench.store", "bare", store], of_store) as program:
            yield cls(program)

    def copy(self, checkpoints: Path) -> None:
        """Let it copy the newest checkpoint below a folder. That is not waited for."""
        self._input.write(f"{checkpoints}\n".encode())
        self._input.flush()
        self._asked += 1

    def copies(self) -> list[Copy]:
        """What it has copied since this was asked before. Waits for the last one."""
        found = [Copy(**json.loads(self._output.readline())) for _ in range(self._asked)]
        self._asked = 0
        return found


@contextmanager
def _last_of_all(argv: Sequence[str], environment: dict[str, str]) -> "Iterator[subprocess.Popen[bytes]]":
    """A program of this module in a session of its own. It ends with its input."""
    pipe = subprocess.PIPE
    program = subprocess.Popen(argv, env=os.environ | environment, stdin=pipe, stdout=pipe, start_new_session=True)
    with program:
        yield program
        assert program.stdin is not None
        program.stdin.close()


@contextmanager
def _s3(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """URL and options of a server of the lowest priority."""
    with _last_of_all([sys.executable, "-m", "bench.store", "s3", str(folder)], {}) as program:
        assert program.stdout is not None
        url, options = json.loads(program.stdout.readline())
        yield url, options


def _serve_s3(folder: Path) -> None:
    be_last()
    with s3_server(folder) as server:
        print(json.dumps([server.url, server.options]), flush=True)
        sys.stdin.read()


def _copy_bare(store: str) -> None:
    """Copy the newest checkpoint below each folder that the input names."""
    be_last()
    files, root = fsspec.core.url_to_fs(store, **json.loads(os.environ["HORA_STORE_OPTIONS"]))
    files.exists(root)
    print("ready", flush=True)
    for line in sys.stdin:
        newest = next(iter(complete_below(Path(line.strip()), of_script=False)))
        held = newest.path.with_name(".bare")  # the job removes old checkpoints
        held.unlink(missing_ok=True)
        held.hardlink_to(newest.path)
        began = time.monotonic()
        _copy_one(files, held, f"{root.rstrip('/')}/bare")
        took_s = time.monotonic() - began
        print(json.dumps({"at": time.time(), "took_s": took_s, "bytes": held.stat().st_size}), flush=True)


def _copy_one(files: Any, path: Path, target: str) -> None:
    """Read a file for its digest, and put it where it shall be. In a folder it is on disk afterwards."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_READ_BYTES):
            digest.update(chunk)
    files.put_file(str(path), target)
    if files.protocol[0] == "file":
        with open(target, "rb") as copied:
            os.fsync(copied.fileno())


def _table_of_steps(found: dict[str, Measured]) -> Table:
    title = (
        f"{RANKS} ranks, a checkpoint every {STEPS} steps: the job relative to one without copies; median "
        "(95 % interval)"
    )
    table = Table("", "who copies", "step, ms", "whole job", "a copy costs, s", "steps during a copy", title=title)
    for place, measured in found.items():
        for who in (NOBODY, COPIER, BARE):
            step_ms = 1000 * median(epoch.step_s for epoch in measured.epochs if epoch.who == who)
            table.add_row(
                place, who, f"{step_ms:.1f}", _interval(measured.ratios(who)),
                "" if who == NOBODY else _interval(measured.costs_s(who)),
                "" if who == NOBODY else _interval(measured.ratios_while_copied(who)),
            )  # fmt: skip
    return table


def _interval(values: Sequence[float]) -> str:
    """The median, and in which range 95 % of the medians of resamples lie (a percentile bootstrap)."""
    if not values:
        return ""
    resamples = np.random.default_rng(1).choice(values, (_RESAMPLES, len(values)))
    least, most = np.percentile(np.median(resamples, axis=1), (2.5, 97.5))
    return f"{median(values):.3f} ({least:.3f} to {most:.3f})"


def _table_of_copies(found: dict[str, Measured]) -> Table:
    table = Table(
        "", "who copies", "checkpoint", "copies", "copied in, s", "MB/s while training", "MB/s alone", "CPU s/GB",
        "idle, % of a core", title="Copies: median (least to most)",
    )  # fmt: skip
    for place, measured in found.items():
        for who, copies in measured.copies.items():
            is_copier = who == COPIER
            table.add_row(
                place, who, f"{copies[0].bytes / 1e6:.1f} MB", str(len(copies)),
                _spread([copy.took_s for copy in copies]), _spread([copy.mb_per_s for copy in copies], 0),
                "" if is_copier else _spread([copy.mb_per_s for copy in measured.alone], 0),
                f"{measured.cpu_s_per_gb[who]:.1f}", f"{measured.idle_percent:.1f}" if is_copier else "",
            )  # fmt: skip
    return table


def _spread(values: Sequence[float], digits: int = 2) -> str:
    return f"{median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


if __name__ == "__main__":
    {"s3": lambda: _serve_s3(Path(sys.argv[2])), "bare": lambda: _copy_bare(sys.argv[2])}[sys.argv[1]]()
