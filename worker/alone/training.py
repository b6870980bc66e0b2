"""One attempt of a run, from the start of horovodrun to its ending.

`horovodrun` and the ranks run as in a pool, as steps of the job (`worker.attempt.layout`). There is no lease: Slurm
ends every process of the job when the script ends.
"""

import os
import subprocess
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from jobs.model.launch import launch_file_name
from jobs.model.plan import resolve_plan
from jobs.model.runs import Run
from jobs.model.spec import Spec
from jobs.model.states import EndReason
from jobs.runtime.processes import mark_of
from jobs.runtime.settings import Settings
from jobs.runtime.space import can_write
from worker.alone.progress import Progress
from worker.attempt import stop_file
from worker.attempt.ending import Ending, judge
from worker.attempt.launch_file import basic_launch
from worker.attempt.layout import Layout, horovodrun_argv
from worker.attempt.log_file import last_lines, opened_to_append
from worker.attempt.notes import exits_in, read_notes
from worker.attempt.paths import AttemptPaths
from worker.attempt.slurm_steps import variables_for_srun
from worker.host.inherited import rank_environment

_PERIOD_S = 0.2  # between two looks at the records
_LEAVE_GRACE_S = 10.0  # for the launcher and the other ranks, after a rank has exited


@dataclass(frozen=True)
class Training:
    """An attempt on nodes of Slurm. `spec` has as many GPUs as there are ranks."""

    run: Run
    spec: Spec
    layout: Layout
    paths: AttemptPaths
    settings: Settings

    def prepare(self) -> None:
        """Make the folders, and a launch file for each node. Raises `OSError`."""
        self.paths.create(range(self.layout.ranks))
        for share in self.layout.shares:
            launch = basic_launch(self.run.id, self.spec, self.paths, self.settings, self.layout, share)
            file = self.paths.launch_dir / launch_file_name(share.address)
            file.write_text(launch.model_dump_json(indent=2), "utf-8")

    def train(self, leave_signals: Collection[int], say: Callable[[str], None]) -> Ending:
        """Run the ranks to their end. A signal in `leave_signals` lets them save first."""
        progress = Progress(self.paths, ranks=self.layout.ranks, say=say)
        launcher = self._start()
        stopped_for = self._watch(launcher, progress, leave_signals)
        if stopped_for is not None:
            say(f"stopping: {stopped_for.error}")
        self._end(launcher, progress, stopped_for)
        progress.read_rest()
        ranks = range(self.layout.ranks)
        exits = exits_in(read_notes(self.paths.records, ranks)) | progress.exits
        plan = progress.plan or resolve_plan(self.spec, None)
        self.paths.tidy(None)
        no_space = None if can_write(self.paths.root) else "no space is left for the folder of the run"
        return judge(
            exits, ranks=len(ranks), started=len(progress.started | exits.keys()), stopped_for=stopped_for,
            launcher_code=launcher.returncode, launcher_says=last_lines(self.paths.launcher_log),
            per_gpu_batch=plan.per_gpu_batch, no_space=no_space,
        ).without_folders(self.paths.job_dir, self.settings.home)  # fmt: skip

    def _start(self) -> "subprocess.Popen[bytes]":
        environment = rank_environment(
            os.environ, mark=mark_of(self.run.id, self.paths.number), home=self.settings.home,
            scratch=self.paths.scratch, threads=self.layout.lead.threads_per_rank,
            variables=self.settings.rank_variables,
        )  # fmt: skip
        with opened_to_append(self.paths.launcher_log) as log:
            return subprocess.Popen(
                horovodrun_argv(self.layout, launch_dir=self.paths.launch_dir),
                env=environment | variables_for_srun(),
                cwd=self.paths.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # signals of the job come to this process alone
            )

    def _watch(
        self, launcher: "subprocess.Popen[bytes]", progress: Progress, leave_signals: Collection[int]
    ) -> Ending | None:
        """Wait until the launcher has exited, or there is a reason to stop it."""
        started_at, left_at = time.monotonic(), None
        limit_s, stall_s = self.spec.time_limit_s, self.spec.stall_timeout_s
        while launcher.poll() is None:
            progress.read()
            now = time.monotonic()
            if leave_signals:
                return Ending(EndReason.PREEMPTED, "Slurm takes its nodes back")
            if limit_s is not None and now - started_at > limit_s:
                return Ending(EndReason.TIME_LIMIT, f"still running after its time limit of {limit_s:g} s")
            if not progress.exits and now - progress.moved_at > stall_s:
                return Ending(EndReason.STALLED, f"no step from any rank for {stall_s:g} s")
            left_at = left_at or (now if progress.exits else None)
            if left_at is not None and now - left_at > _LEAVE_GRACE_S:
                return None  # without it the other ranks or the launcher hang
            time.sleep(_PERIOD_S)
        return None

    def _end(self, launcher: "subprocess.Popen[bytes]", progress: Progress, reason: Ending | None) -> None:
        """End the launcher, step by step. What it leaves, Slurm ends with the job."""
        settings = self.settings
        if reason is not None:
            stop_file.make(self.paths.stop_file)
            saves = reason.reason is EndReason.PREEMPTED
            _wait(launcher, progress, settings.save_grace_s if saves else settings.stop_file_grace_s)
        if launcher.poll() is None:
            launcher.terminate()
            _wait(launcher, progress, _LEAVE_GRACE_S)
        if launcher.poll() is None:
            launcher.kill()
            launcher.wait()


def _wait(launcher: "subprocess.Popen[bytes]", progress: Progress, limit_s: float) -> None:
    """Wait for the launcher, and read meanwhile what the ranks write."""
    give_up_at = time.monotonic() + limit_s
    while launcher.poll() is None and time.monotonic() < give_up_at:
        progress.read()
        time.sleep(_PERIOD_S)
