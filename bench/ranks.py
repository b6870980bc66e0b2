"""Runs of the trainer without the service, and their records. Used by other measurements of `bench`."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jobs.model.launch import Launch, launch_file_name
from jobs.model.records import Record, parse_record, rank_records_name
from jobs.model.spec import spec_from
from worker.attempt.layout import horovodrun_argv, on_this_host
from worker.attempt.paths import AttemptPaths
from worker.host.inherited import rank_environment

Json = Mapping[str, Any]


def bare_horovodrun(ranks: int) -> list[str]:
    """Horovod's own command, with its defaults."""
    horovodrun = str(Path(sys.executable).with_name("horovodrun"))
    return [horovodrun, "-np", str(ranks), "-H", f"localhost:{ranks}", "--gloo", "--network-interfaces", "lo"]


class Run:
    """One run of a spec in a folder of its own, on `ranks` ranks of `threads` threads."""

    def __init__(self, folder: Path, spec: Json, *, ranks: int, threads: int, data_roots: Sequence[Path] = ()) -> None:
        self.paths = AttemptPaths(folder, 1)
        self.ranks = ranks
        self.paths.create()
        self.environment = rank_environment(
            os.environ, mark=f"bench.{folder.name}", home=folder, scratch=self.paths.scratch, threads=threads
        )  # fmt: skip
        launch = Launch(
            job_id="bench",
            attempt=1,
            spec=spec_from({**spec, "gpus": ranks}),
            gpus=ranks,
            device="cpu",
            threads_per_rank=threads,
            data_roots=[str(root) for root in data_roots],
            cache_dir=str(folder / "cache"),
            weights_dir=str(folder / "weights"),
            records_dir=str(self.paths.records),
            logs_dir=str(self.paths.logs),
            checkpoints_dir=str(self.paths.checkpoints),
            artifacts_dir=str(self.paths.artifacts),
            stop_path=str(self.paths.stop_file),
        )
        (self.paths.launch_dir / launch_file_name()).write_text(launch.model_dump_json())

    def start(self, launcher: Sequence[str] | None = None) -> "subprocess.Popen[bytes]":
        """Start the run with `launcher`. Without one, start it as the service does: one rank needs no horovodrun."""
        program = [sys.executable, "-m", "trainer", str(self.paths.launch_dir)]
        if launcher is not None:
            program = [*launcher, *program]
        elif self.ranks > 1:
            program = horovodrun_argv(on_this_host(self.ranks), launch_dir=self.paths.launch_dir)
        return self.start_program(program)

    def start_program(self, argv: Sequence[str]) -> "subprocess.Popen[bytes]":
        """Start any program in the environment of this run."""
        quiet = subprocess.DEVNULL
        return subprocess.Popen(argv, env=self.environment, stdout=quiet, stderr=quiet)

    def wait(self, process: "subprocess.Popen[bytes]") -> None:
        """Wait for the end. Raises RuntimeError with the log of a run that failed."""
        if process.wait() != 0:
            log = self.paths.logs / "rank-0.log"
            raise RuntimeError(f"the run failed: {log.read_text()[-2000:] if log.exists() else 'no log'}")

    def records(self, rank: int = 0) -> list[Record]:
        """The records of a rank."""
        lines = (self.paths.records / rank_records_name(rank)).read_bytes().splitlines()
        return [record for line in lines if (record := parse_record(line)) is not None]
