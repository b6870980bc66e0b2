"""Measures what copies to the store (`HORA_STORE`) cost a job, and how fast they are, beside bare copies.

The same job takes turns on a stack without a store, with a folder as the store, and with an S3 server. Two more sides
have no store: there a bare program copies each checkpoint as the copier does, at the same lowest priority. It reads the
file once for its SHA-256 and puts it into a folder, or into S3 with one call of s3fs. So it shows what the bytes alone
cost. Each round begins and ends without a store. What lies between these two runs is compared with their mean, and the
second relative to the first shows how far runs differ that do the same.

The S3 server has the lowest priority too, because in production it is another machine. It still takes what the ranks
leave of the cores. Figures about steps leave out the first epoch, in which nothing is copied.

`python -m bench.store s3 FOLDER` and `python -m bench.store bare URL` are the two programs of the lowest priority.
"""

import hashlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import mean, median
from typing import Any
from unittest.mock import patch

import fsspec
import psutil
from rich.console import Console
from rich.table import Table
from sqlalchemy import select as rows_of

from hora.service import Service
from hora.stack.control import Stack
from jobs.db.engine import engine_for, sessions_for
from jobs.db.tables import Attempt
from jobs.model.records import StepEnded, parse_record, rank_records_name
from jobs.runtime.checkpoint_folders import complete_below
from tests.s3 import s3_server
from tests.waiting import until
from worker.attempt.paths import AttemptPaths, paths_of
from worker.copies.process import be_last

RANKS, EPOCHS, STEPS = 2, 7, 80
SPEC = {
    "dataset": {"source": "synthetic:shape=96x96x3", "validation": 0.01}, "model": "mlp", "batch_size": 64,
    "learning_rate": 0.001, "optimizer": "adam", "gpus": RANKS, "epochs": EPOCHS, "steps_per_epoch": STEPS,
    "early_stopping": None,
}  # fmt: skip
BEFORE, AFTER = "no store", "no store, again"
SIDES = (BEFORE, "folder", "folder, bare", "S3", "S3, bare", AFTER)
_SETTLE_S = 4.0  # what a stack does after its start is over
_IDLE_S = 20.0
_PERIOD_S = 1.0  # as the copier
_READ_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Copy:
    """A checkpoint that was copied: when it was there, how long its bytes travelled, and how long after its saving."""

    at: float
    took_s: float
    after_save_s: float
    bytes: int
    is_last: bool  # the job had ended, so nothing else wanted the cores

    @property
    def mb_per_s(self) -> float:
        return self.bytes / self.took_s / 1e6


@dataclass(frozen=True)
class Training:
    """One run of the job. Step times are those from the second epoch on, without the first step of each epoch."""

    steps: Sequence[StepEnded]
    wall_s: float
    saves_s: float  # median of the times that a checkpoint took
    saved: int
    copies: Sequence[Copy] = ()
    cpu_s_per_gb: float = 0.0  # of the process that copies

    @property
    def step_s(self) -> float:
        return median(step.step_time_s for step in self.steps)

    @property
    def mean_step_s(self) -> float:
        return mean(step.step_time_s for step in self.steps)

    @property
    def while_copied(self) -> float | None:
        """The mean step while bytes travel, relative to the other steps of the same run."""
        windows = [(copy.at - copy.took_s, copy.at) for copy in self.copies]
        inside: list[float] = []
        outside: list[float] = []
        for step in self.steps:
            is_inside = any(start < step.at and step.at - step.step_time_s < end for start, end in windows)
            (inside if is_inside else outside).append(step.step_time_s)
        return mean(inside) / mean(outside) if inside and outside else None


@dataclass
class _Measured:
    trainings: dict[str, list[Training]] = field(default_factory=lambda: {side: [] for side in SIDES})
    alone_mb_per_s: dict[str, list[float]] = field(default_factory=dict)  # bare copies on an idle machine
    idle_percent: dict[str, float] = field(default_factory=dict)  # of a core, by the copier

    def ratios(self, side: str, figure: Callable[[Training], float]) -> list[float]:
        """By round: a figure relative to the runs without a store around it."""
        pairs = zip(self.trainings[BEFORE], self.trainings[AFTER], strict=True)
        around = [(figure(before), mean([figure(before), figure(after)])) for before, after in pairs]
        own = map(figure, self.trainings[side])
        return [value / (base[0] if side == AFTER else base[1]) for value, base in zip(own, around, strict=True)]


def main(*, rounds: int) -> None:
    """Measure in turns, and print the tables after each round."""
    console = Console()
    measured = _Measured()
    for number in range(rounds):
        for side in SIDES:
            console.print(f"store: round {number + 1} of {rounds}, {side}", style="dim")
            with tempfile.TemporaryDirectory(prefix="hora-bench-") as name:
                folder = Path(name)
                folder.chmod(0o755)
                _run_side(folder, side, measured, is_last=number == rounds - 1)
            console.print(_in_short(measured.trainings[side][-1]), style="dim")
        console.print(_table_of_steps(measured))  # a long run that is interrupted has shown something
        console.print(_table_of_copies(measured))


def _run_side(folder: Path, side: str, measured: _Measured, *, is_last: bool) -> None:
    with ExitStack() as opened:
        (folder / "store").mkdir()
        store = f"file://{folder}/store"
        options: dict[str, Any] = {}
        if side.startswith("S3"):
            store, options = opened.enter_context(_s3(folder / "s3"))
        of_store = {"HORA_STORE": store, "HORA_STORE_OPTIONS": json.dumps(options)}
        has_store = side in ("folder", "S3")
        with patch.dict(os.environ, of_store):
            if not has_store:
                del os.environ["HORA_STORE"]
            stack = opened.enter_context(Stack(folder / "home", port=0, slots=RANKS))
        client = opened.enter_context(Service(stack.url, stack.token))
        time.sleep(_SETTLE_S)
        if "bare" in side:
            training, alone = _train_beside_bare(stack, client, store, of_store)
            measured.alone_mb_per_s.setdefault(side, []).append(alone)
        else:
            training = _train_with_copier(stack, client) if has_store else _train(stack, client)[0]
        measured.trainings[side].append(training)
        if has_store and is_last:
            began_s = _cpu_s(_copier(stack))
            time.sleep(_IDLE_S)
            measured.idle_percent[side] = 100 * (_cpu_s(_copier(stack)) - began_s) / _IDLE_S


def _train(stack: Stack, client: Service, on_job: Callable[[str], object] = lambda _: None) -> tuple[Training, str]:
    """Run the job to its end. Its figures, and its id."""
    job_id = client.submit(SPEC)["id"]
    on_job(job_id)
    ended = client.wait(job_id)
    assert ended["status"] == "succeeded", ended
    lines = (_paths(stack, job_id).records / rank_records_name(0)).read_bytes().splitlines()
    steps = [record for line in lines if isinstance(record := parse_record(line), StepEnded)]
    began_at = steps[STEPS - 1].at  # the end of the first epoch
    steady = [step for i, step in enumerate(steps) if i >= STEPS and i % STEPS]
    saves = [event["data"]["duration_s"] for event in client.events(job_id) if event["kind"] == "checkpoint_saved"]
    return Training(steady, steps[-1].at - began_at, median(saves), len(saves)), job_id


def _train_with_copier(stack: Stack, client: Service) -> Training:
    copier = _copier(stack)
    began_s = _cpu_s(copier)
    training, job_id = _train(stack, client)
    try:
        until(lambda: _has_all_copied(stack), what="all that the job left in the store")
    except AssertionError as error:
        raise RuntimeError(f"{error}: {stack.log_of('worker')[-4000:]}") from None
    used_s = _cpu_s(copier) - began_s
    events = client.events(job_id)
    saved_at = {event["data"]["step"]: _at(event) for event in events if event["kind"] == "checkpoint_saved"}
    copies = [
        Copy(
            _at(event), event["data"]["duration_s"], _at(event) - saved_at[event["data"]["step"]],
            event["data"]["bytes"], event["data"]["step"] == max(saved_at),
        )
        for event in events if event["kind"] == "checkpoint_copied"
    ]  # fmt: skip
    copied_bytes = sum(copy.bytes for copy in copies) + sum(file["bytes"] for file in client.artifacts(job_id))
    return _with(training, copies, used_s, copied_bytes)


def _train_beside_bare(stack: Stack, client: Service, store: str, of_store: dict[str, str]) -> tuple[Training, float]:
    """Run the job while a bare program copies its checkpoints. Also returns the program's MB/s after the job's end."""
    argv = [sys.executable, "-m", "bench.store", "bare", store]
    with _last_of_all(argv, of_store) as program:
        paths_in, said = program.stdin, program.stdout
        assert paths_in is not None
        assert said is not None
        said.readline()  # it is ready
        process = psutil.Process(program.pid)
        began_s = _cpu_s(process)

        def tell(job_id: str) -> None:
            paths_in.write(f"{_paths(stack, job_id).checkpoints}\n".encode())
            paths_in.flush()

        training, job_id = _train(stack, client, tell)
        saved_at = [_at(event) for event in client.events(job_id) if event["kind"] == "checkpoint_saved"]
        time.sleep(_SETTLE_S)  # the last one is copied
        used_s = _cpu_s(process) - began_s
        paths_in.close()
        lines = [json.loads(line) for line in said]
    *found, alone = lines  # at the end it copies the newest once more
    copies = []
    for copy in found:
        save = max(at for at in saved_at if at < copy["at"])
        copies.append(Copy(copy["at"], copy["took_s"], copy["at"] - save, copy["bytes"], save == max(saved_at)))
    return _with(training, copies, used_s, sum(copy.bytes for copy in copies)), alone["bytes"] / alone["took_s"] / 1e6


def _with(training: Training, copies: Sequence[Copy], used_s: float, copied_bytes: int) -> Training:
    return Training(
        training.steps, training.wall_s, training.saves_s, training.saved, copies, used_s / copied_bytes * 1e9
    )


def _paths(stack: Stack, job_id: str) -> AttemptPaths:
    return paths_of(stack.home / "runs", job_id, 1)


def _at(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["at"]).timestamp()


def _copier(stack: Stack) -> psutil.Process:
    return next(
        process
        for process in psutil.Process(stack.pid_of("worker")).children()
        if "worker.copies.process" in process.cmdline()
    )


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _has_all_copied(stack: Stack) -> bool:
    engine = engine_for(stack.database_url)
    with sessions_for(engine)() as session:
        has_all = session.scalar(rows_of(Attempt.id).where(Attempt.copied_at.is_(None)).limit(1)) is None
    engine.dispose()
    return has_all


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
    """Copy the newest checkpoint below the folder that the input names, until the input ends; then once more."""
    be_last()
    files, root = fsspec.core.url_to_fs(store, **json.loads(os.environ["HORA_STORE_OPTIONS"]))
    files.exists(root)
    print("ready", flush=True)
    checkpoints, copied = Path(sys.stdin.readline().strip()), None
    while True:
        has_ended = bool(select.select([sys.stdin], [], [], _PERIOD_S)[0])
        newest = next(iter(complete_below(checkpoints, of_script=False)), None)
        if newest is not None and (has_ended or newest.step != copied):
            began, copied = time.monotonic(), newest.step
            _copy_one(files, newest.path, f"{root.rstrip('/')}/bare")
            took_s = time.monotonic() - began
            said = {"at": time.time(), "took_s": took_s, "bytes": newest.path.stat().st_size}
            print(json.dumps(said), flush=True)
        if has_ended:
            return


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


def _in_short(training: Training) -> str:
    copies = ", ".join(f"{copy.took_s:.2f}" for copy in training.copies)
    return (
        f"  step {1000 * training.step_s:.1f} ms, mean {1000 * training.mean_step_s:.1f}, {training.wall_s:.1f} s"
        f"; load {os.getloadavg()[0]:.1f}; copies in {copies or '-'} s"
    )


def _spread(values: Sequence[float], digits: int = 2) -> str:
    if not values:
        return ""
    return f"{median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def _table_of_steps(measured: _Measured) -> Table:
    title = f"{RANKS} ranks, a checkpoint every {STEPS} steps: median (least to most); relative to no store"
    table = Table(
        "", "steady step, ms", "step", "mean step", "wall time", "steps during a copy / others", "save", title=title
    )
    for side, trainings in measured.trainings.items():
        inside = [share for training in trainings if (share := training.while_copied) is not None]
        ratios = [
            _spread(measured.ratios(side, figure), 3) if side != BEFORE else "1"
            for figure in (lambda t: t.step_s, lambda t: t.mean_step_s, lambda t: t.wall_s)
        ]
        steps_ms = [1000 * training.step_s for training in trainings]
        saves_ms = [1000 * training.saves_s for training in trainings]
        table.add_row(side, _spread(steps_ms, 1), *ratios, _spread(inside, 3), f"{_spread(saves_ms, 0)} ms")
    return table


def _table_of_copies(measured: _Measured) -> Table:
    table = Table(
        "", "checkpoint", "copied / saved", "after its save, s", "copied in, s", "MB/s while training",
        "MB/s after the end", "MB/s alone", "CPU s/GB", "idle, % of a core", title="Copies: median (least to most)",
    )  # fmt: skip
    for side, trainings in measured.trainings.items():
        copies = [copy for training in trainings for copy in training.copies]
        if not copies:
            continue
        training, last = [[copy for copy in copies if copy.is_last is is_last] for is_last in (False, True)]
        table.add_row(
            side, f"{copies[0].bytes / 1e6:.1f} MB", f"{len(copies)} / {sum(t.saved for t in trainings)}",
            _spread([copy.after_save_s for copy in training]), _spread([copy.took_s for copy in training]),
            _spread([copy.mb_per_s for copy in training], 0), _spread([copy.mb_per_s for copy in last], 0),
            _spread(measured.alone_mb_per_s.get(side, []), 0), _spread([t.cpu_s_per_gb for t in trainings], 1),
            f"{measured.idle_percent[side]:.1f}" if side in measured.idle_percent else "",
        )  # fmt: skip
    return table


if __name__ == "__main__":
    {"s3": lambda: _serve_s3(Path(sys.argv[2])), "bare": lambda: _copy_bare(sys.argv[2])}[sys.argv[1]]()
