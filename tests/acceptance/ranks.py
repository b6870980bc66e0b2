"""Runs of the trainer alone, under a real horovodrun but without the service."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from jobs.model.launch import Launch, launch_file_name
from jobs.model.records import (
    CheckpointSaved,
    EpochEnded,
    RankExited,
    RankStarted,
    Record,
    StepEnded,
    parse_record,
    rank_log_name,
    rank_records_name,
)
from jobs.model.spec import spec_from
from tests.waiting import until
from worker.attempt.layout import horovodrun_argv, on_this_host

T = TypeVar("T", bound=Record)

ROOT = Path(__file__).parents[2]
_FOLDERS = ("cache", "weights", "records", "logs", "checkpoints", "artifacts")
LIMIT_S = 600  # only what never ends reaches it


class Run:
    """A job's folder, and the files that its ranks wrote there.

    It gets as many `gpus` as the spec asks for, or this number. `network` is the source of `own_network:build`;
    `launch` has further fields of the launch file.
    `environment` is added to the environment of the ranks. `program` is the module that a rank runs.
    """

    def __init__(
        self,
        folder: Path,
        spec: Mapping[str, Any],
        *,
        gpus: int | None = None,
        network: str = "",
        environment: Mapping[str, str] = MappingProxyType({}),
        launch: Mapping[str, Any] = MappingProxyType({}),
        program: str = "trainer",
    ) -> None:
        parsed, gpus = spec_from({**spec}), gpus or spec["gpus"]
        self.folder, self.ranks = folder, parsed.ranks_on(gpus)
        self._environment, self._program = environment, program
        self.stop_path = folder / "stop"
        self.launch_dir = folder
        folder.mkdir()
        (folder / "own_network.py").write_text(network)
        self._launch = Launch(
            job_id="job",
            attempt=0,
            spec=parsed,
            gpus=gpus,
            device="cpu",
            threads_per_rank=gpus // self.ranks,
            data_roots=[],
            models=["own_network:build"],
            stop_path=str(self.stop_path),
            **{f"{part}_dir": str(folder / part) for part in _FOLDERS},
        ).model_copy(update=dict(launch))

    def start(self) -> "subprocess.Popen[bytes]":
        """Start the ranks of the next attempt as the service does; one rank needs no launcher."""
        self.write_launch()
        argv = [sys.executable, "-m", "trainer", str(self.launch_dir)]
        if self.ranks > 1:
            argv = horovodrun_argv(on_this_host(self.ranks), launch_dir=self.launch_dir)
        return subprocess.Popen(
            [self._program if word == "trainer" else word for word in argv],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{self.folder}", **self._environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def write_launch(self) -> Launch:
        """Write the launch file of the next attempt."""
        self._launch = self._launch.model_copy(update={"attempt": self._launch.attempt + 1})
        (self.launch_dir / launch_file_name()).write_text(self._launch.model_dump_json())
        return self._launch

    def train(self) -> int:
        """Run the next attempt to its end. Returns the exit code."""
        with self.start() as process:
            return process.wait(LIMIT_S)

    def records(self, rank: int) -> list[Record]:
        """The records of a rank. All lines must be valid; a line that is still being written is left out."""
        path = self.folder / "records" / rank_records_name(rank)
        written = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
        records = [parse_record(line) for line in written.splitlines()]
        assert None not in records
        return [record for record in records if record is not None]

    def log(self, rank: int) -> str:
        """The log of a rank."""
        return (self.folder / "logs" / rank_log_name(rank)).read_text()

    def of_job(self, kind: type[T]) -> list[T]:
        """The records of one kind that rank 0 has written."""
        return [record for record in self.records(0) if isinstance(record, kind)]

    def exits(self) -> list[RankExited]:
        """The last record of each rank."""
        last = [self.records(rank)[-1] for rank in range(self.ranks)]
        assert all(isinstance(record, RankExited) for record in last)
        return [record for record in last if isinstance(record, RankExited)]

    def losses(self) -> dict[int, float]:
        """The loss of each step, averaged over the ranks. If a step was repeated, the later loss counts."""
        of_rank: list[dict[int, float]] = []
        for rank in range(self.ranks):
            steps = [record for record in self.records(rank) if isinstance(record, StepEnded)]
            of_rank.append({record.step: record.metrics["loss"] for record in steps})
            assert all(later.step == before.step + 1 or later.step <= before.step for before, later in pairwise(steps))
        assert all(losses.keys() == of_rank[0].keys() for losses in of_rank)
        return {step: sum(losses[step] for losses in of_rank) / self.ranks for step in of_rank[0]}

    def epochs(self) -> list[dict[str, float]]:
        """The metrics of all epochs; none may be missing. If an epoch was repeated, the later metrics count."""
        ended = {record.epoch: record.metrics for record in self.of_job(EpochEnded)}
        assert list(ended) == list(range(1, len(ended) + 1))
        return list(ended.values())

    def kill_at_some_step(self, *, rank: int) -> None:
        """Run the next attempt, and SIGKILL a rank at an arbitrary step after the attempt's second checkpoint."""
        before = len(self.of_job(CheckpointSaved))
        with self.start() as process:
            wait_until(lambda: len(self.of_job(CheckpointSaved)) >= before + 2)
            pid = [record.pid for record in self.records(rank) if isinstance(record, RankStarted)][-1]
            os.kill(pid, signal.SIGKILL)
            assert process.wait(LIMIT_S) != 0


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, with a limit."""
    until(condition, within_s=LIMIT_S)
