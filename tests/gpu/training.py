"""Trainings on the cards of this machine, without the service, and their figures. Used by `tests.gpu.checks`."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

from bench.ranks import bare_horovodrun
from jobs.model.launch import launch_file_name
from jobs.model.records import PhaseEnded, RankStarted, StepEnded
from jobs.model.states import EndReason
from tests.acceptance.ranks import Run
from worker.host.gpus import Gpu

LIMIT_S = 1200.0  # of one training: the first step of a large network is compiled for minutes
_WARM_UP_STEPS = 10


@dataclass(frozen=True)
class Load:
    """A network, the shape of its images, the batch of a rank, and the number of steps."""

    model: str
    shape: str
    batch: int
    steps: int

    def spec(self, **fields: Any) -> dict[str, Any]:
        """As a spec: one epoch of generated images."""
        samples = max(20, self.batch * 8)
        return {
            "dataset": {"source": f"synthetic:samples={samples},classes=10,shape={self.shape}", "validation": 0.05},
            "model": self.model, "batch_size": self.batch, "learning_rate": 0.001, "epochs": 1,
            "steps_per_epoch": self.steps, "early_stopping": None,
        } | fields  # fmt: skip


@dataclass(frozen=True)
class Figures:
    """What a training came to: medians of rank 0 after the first steps."""

    samples_per_s: float
    text: str

    def __str__(self) -> str:
        return self.text


class TrainingFailed(Exception):
    """A training did not end as completed; the text says how it ended."""


@dataclass(frozen=True)
class Trainer:
    """Trains in folders of its own below `folder`."""

    folder: Path
    device: Literal["gpu", "cpu"]

    def run(
        self, spec: Mapping[str, Any], cards: Sequence[Gpu | None], *, program: str = "trainer", **environment: str
    ) -> Run:
        """A run with one rank on each of these cards; on a CPU a card is None."""
        uuids = [card.uuid for card in cards if card is not None]
        number = len(list(self.folder.iterdir()))
        return Run(
            self.folder / f"run-{number}",
            {**spec, "gpus": len(cards)},
            launch={"device": self.device, "gpu_uuids": uuids, "threads_per_rank": _threads(len(cards))},
            program=program,
            environment=environment,
        )

    def train(
        self, spec: Mapping[str, Any], cards: Sequence[Gpu | None], *, program: str = "trainer", **environment: str
    ) -> Figures:
        """Train to the end. Raises `TrainingFailed`."""
        run = self.run(spec, cards, program=program, **environment)
        with run.start() as process:
            _wait(process)
        return figures_of(run)

    @contextmanager
    def training(self, spec: Mapping[str, Any], cards: Sequence[Gpu | None]) -> Iterator[int]:
        """A training that has made some steps and goes on, and is then killed. The process of its rank 0."""
        run = self.run(spec, cards)
        with run.start() as process:
            try:
                deadline = time.monotonic() + LIMIT_S
                while len(run.of_job(StepEnded)) < _WARM_UP_STEPS:
                    if process.poll() is not None or time.monotonic() > deadline:
                        raise TrainingFailed(_end_of(run))
                    time.sleep(0.1)
                yield run.of_job(RankStarted)[-1].pid
            finally:
                process.kill()

    def bare(self, spec: Mapping[str, Any], cards: Sequence[Gpu | None]) -> float:
        """Samples/s of bare Horovod with the same network and batch."""
        run = self.run(spec, cards)
        launch = run.write_launch()
        Path(launch.artifacts_dir).mkdir()
        launcher = bare_horovodrun(len(cards)) if len(cards) > 1 else []
        visible = ",".join(launch.gpu_uuids) or "-1"
        log = run.folder / "bare.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*launcher, sys.executable, "-m", "tests.gpu.bare", str(run.launch_dir / launch_file_name())],
                env={**os.environ, "CUDA_VISIBLE_DEVICES": visible},
                stdout=output,
                stderr=output,
            )
            _wait(process)
        if process.returncode != 0:
            raise TrainingFailed(f"bare Horovod: {log.read_text(errors='replace')[-500:]}")
        return float(Path(launch.artifacts_dir, "samples_per_s").read_text())


def figures_of(run: Run) -> Figures:
    """The figures of a run that has ended. Raises `TrainingFailed` if it did not complete."""
    if not run.folder.joinpath("records").exists() or any(end.reason is not EndReason.COMPLETED for end in run.exits()):
        raise TrainingFailed(_end_of(run))
    steps = run.of_job(StepEnded)[_WARM_UP_STEPS:]
    (first_step_s,) = [phase.duration_s for phase in run.of_job(PhaseEnded) if phase.name == "first_step"]
    rate, *times_s = (
        median(getattr(step, figure) for step in steps)
        for figure in ("samples_per_s", "step_time_s", "allreduce_s", "data_wait_s")
    )
    step_ms, allreduce_ms, data_ms = (f"{1000 * time_s:.1f} ms" for time_s in times_s)
    return Figures(
        rate,
        f"{rate:.0f} samples/s, {step_ms} a step, of which allreduce {allreduce_ms} and data {data_ms};"
        f" first step {first_step_s:.0f} s",
    )


def _end_of(run: Run) -> str:
    """How the ranks ended, or the end of the log if they did not say."""
    try:
        return "; ".join(f"{end.reason}: {end.message}" for end in run.exits())
    except (AssertionError, IndexError):
        log = run.folder / "logs" / "rank-0.log"
        return log.read_text(errors="replace")[-500:] if log.exists() else "it wrote nothing"


def _threads(ranks: int) -> int:
    return max(1, (os.cpu_count() or 1) // ranks)


def _wait(process: "subprocess.Popen[bytes]") -> None:
    """Wait for the end, and end it if that takes too long."""
    try:
        process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise TrainingFailed(f"it did not end within {LIMIT_S:.0f} s") from None
