"""The desk of a pool: a thread that asks Slurm for nodes, watches what becomes of that, and gives them back.

All commands of Slurm run here, one after the other, because each may hang while the controller is away. One `squeue`
answers for all jobs of the pool, at most once a second. What Slurm does not answer counts as nothing: no allocation is
taken for ended because it is missing in one answer, and none is asked for twice because an answer was lost.
"""

import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from jobs.db.engine import Sessions
from jobs.runtime.settings import Settings
from jobs.scheduling import allocations
from jobs.scheduling.allocations import LiveAllocation
from worker.attempt.allocation_files import files_of
from worker.attempt.launcher import Launcher
from worker.periodic import PeriodicThread
from worker.slurm import batch, commands
from worker.slurm.commands import SlurmAway, SlurmJob, SlurmPartition, SlurmRefused
from worker.slurm.exclusion import Exclusion
from worker.slurm.terms import Terms

_log = logging.getLogger(__name__)

Answer = TypeVar("Answer")
Action = Callable[[LiveAllocation], None]

_PERIOD_S = 1.0
_LONGEST_PAUSE_S = 15.0  # while Slurm is away
_IDLE_S = 30.0  # between two questions if nothing is handed to the pool
_PARTITION_S = 15.0  # between two looks at the nodes
_SIGN_S = 30.0  # between two signs of life for the scripts
_FIRST_RETRY_S, _LONGEST_RETRY_S = 2.0, 300.0  # after Slurm refused an allocation, or gave one up
_TELLING_S = 10.0  # in one pass: to submit jobs, and to change those that wait
_LOST_ANSWER_S = 60.0  # a submission that was cut off may still arrive
_MISSING_ANSWERS = 3  # in a row, until the controller is asked whether it knows a job
_FAULTS_OF_NODES = frozenset({"NODE_FAIL", "BOOT_FAIL"})


class Desk(PeriodicThread):
    """Asks Slurm for the allocations of one pool until it is stopped. `partition` is what it last saw of the nodes.

    Of several workers that offer the same pool only the first does anything, as long as it lives: `has_lock`.
    """

    def __init__(self, sessions: Sessions, settings: Settings, *, launcher: Launcher) -> None:
        super().__init__("slurm", period_s=_PERIOD_S, rests_first=False)
        self.partition: SlurmPartition | None = None
        self.exclusion = Exclusion(sessions, settings)
        self._terms = Terms(settings)
        self.problem: str | None = "Slurm has not answered yet"  # why it cannot be used now
        self.on_change: Callable[[], None] = lambda: None
        self._sessions = sessions
        self._settings = settings
        self._launcher = launcher
        self._files = files_of(settings)
        self._lock: int | None = None
        self._failures = 0
        self._asked_at = self._looked_at = self._signed_at = float("-inf")
        self._missing: dict[int, int] = {}  # in how many answers in a row, by allocation
        self._finishing: dict[int, float] = {}  # when its script was told to end, by allocation

    @property
    def has_lock(self) -> bool:
        """Whether this worker is the one that offers the pool."""
        return self._lock is not None

    def close(self) -> None:
        """Let another worker offer the pool. Nothing may be called after that."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def pause_s(self) -> float:
        """A second; longer while Slurm is away."""
        return min(_PERIOD_S * 2.0 ** min(self._failures, 16), _LONGEST_PAUSE_S)

    def once(self) -> None:
        """One pass. If Slurm is away, nothing changes but `problem`."""
        if self._lock is None:
            self._lock = self._files.lock()
        if self._lock is None:
            self._say("another worker offers this pool")
            return
        try:
            self._sign()
            self._look_at_partition()
            self._serve()
        except (SlurmAway, SlurmRefused) as error:
            self._failures += 1
            self._say(str(error))
            return
        self._failures = 0
        self._say(None)

    def _say(self, problem: str | None) -> None:
        if problem != self.problem:
            self.problem = problem
            if problem is not None:
                _log.warning("Slurm cannot be used: %s", problem)
            self.on_change()

    def _sign(self) -> None:
        """Show the scripts that the worker is there. While it is not, attempts go on, and show it themselves."""
        if time.monotonic() - self._signed_at >= _SIGN_S:
            self._files.touch()
            self._signed_at = time.monotonic()

    def _look_at_partition(self) -> None:
        if time.monotonic() - self._looked_at >= _PARTITION_S:
            before = (self.partition, self.exclusion.failing)
            self.partition = commands.partition(self._settings.slurm_partition or "")
            self.exclusion.look()
            if (self.partition, self.exclusion.failing) != before:
                self.on_change()
            self._looked_at = time.monotonic()

    def _serve(self) -> None:
        with self._sessions() as session:
            live = allocations.live_allocations(session, self._settings.host)
        if not live and time.monotonic() - self._asked_at < _IDLE_S:
            return
        answer = commands.jobs()
        self._asked_at = time.monotonic()
        by_name: dict[str, list[SlurmJob]] = {}
        for job in answer:
            by_name.setdefault(job.name, []).append(job)
        kept = {allocation.id for allocation in live}
        self._missing = {id_: count for id_, count in self._missing.items() if id_ in kept}
        self._finishing = {id_: at for id_, at in self._finishing.items() if id_ in kept}
        self.exclusion.keep(live)
        self._terms.keep(live)
        later = [
            (allocation, action)
            for allocation in live
            if (action := self._isolated(allocation, lambda one: self._serve_one(one, by_name.get(one.name, []))))
        ]
        # These come last, and not too many at once: what Slurm has given must not wait for them.
        until = time.monotonic() + _TELLING_S
        if later:
            self.exclusion.look()
        for allocation, action in later:
            if time.monotonic() > until:
                break
            self._isolated(allocation, action)

    def _isolated(self, allocation: LiveAllocation, action: Callable[[LiveAllocation], Answer]) -> Answer | None:
        """What `action` returns. A refusal or a fault of one allocation does not keep the others waiting."""
        try:
            return action(allocation)
        except SlurmAway:
            raise
        except (SlurmRefused, OSError) as error:
            tags = {"job": allocation.job_id, "attempt": allocation.number}
            _log.warning("%s cannot be served, the next pass tries again: %s", allocation.name, error, extra=tags)
            return None

    def _serve_one(self, allocation: LiveAllocation, found: Sequence[SlurmJob]) -> Action | None:
        """Do what the answer asks for. `found` are Slurm's jobs of this name. Returns what is to be done last."""
        job = _of(allocation, found)
        for other in found:
            if job is not None and other.id != job.id and not other.is_over:
                _log.warning("Slurm has %s twice: its job %d is cancelled", allocation.name, other.id)
                commands.cancel(other.id)
        if job is None:
            return self._serve_unlisted(allocation)
        self._missing.pop(allocation.id, None)
        if allocation.slurm_job is None:  # the answer to its submission was lost
            with self._sessions.begin() as session:
                allocations.taken(session, allocation.id, job.id)
        self._note(allocation, job)
        if job.is_over:
            self._note_fault(allocation, job)
            self._end(allocation, f"Slurm ended its job {job.id} before the attempt began: {job.state}")
        elif not _is_needed(allocation) or self._is_finishing(allocation):
            self._give_back(allocation, job)
        elif job.state == "RUNNING" and allocation.attempt_id is None:
            self._begin(allocation, job)
        elif job.state == "PENDING" and self._is_old(allocation):
            return partial(self._tell, slurm_job=job.id)
        return None

    def _is_finishing(self, allocation: LiveAllocation) -> bool:
        """Whether its script was told to end before an attempt began. If its job waits again, it gets a new one."""
        return allocation.attempt_id is None and self._files.is_finishing(allocation.name)

    def _serve_unlisted(self, allocation: LiveAllocation) -> Action | None:
        """Slurm did not list it: it has not got it, or has forgotten it, or answered in part."""
        if allocation.slurm_job is None:
            if _is_needed(allocation):
                is_due = allocation.tried_s is None or allocation.tried_s > _retry_s(allocation)
                return self._submit if is_due else None
            if allocation.tried_s is None or allocation.tried_s > _LOST_ANSWER_S:
                self._over(allocation)
            return None
        self._missing[allocation.id] = self._missing.get(allocation.id, 0) + 1
        if self._missing[allocation.id] >= _MISSING_ANSWERS and not commands.knows(allocation.slurm_job):
            self._end(allocation, f"Slurm has forgotten its job {allocation.slurm_job}")
        return None

    def _submit(self, allocation: LiveAllocation) -> None:
        assert self.partition is not None  # it is seen before anything is served
        self._files.prepare(allocation.name)
        script = batch.script(allocation, self._files, self._settings)
        options = batch.options(
            allocation, self._files, self._settings, partition_limit=self.partition.time_limit,
            without=self.exclusion.nodes_for(allocation, self.partition.nodes),
        )  # fmt: skip
        with self._sessions.begin() as session:
            allocations.tries(session, allocation.id)
        try:
            slurm_job = commands.submit(script, options)
        except SlurmRefused as refusal:
            with self._sessions.begin() as session:
                allocations.failed(session, allocation.id, f"Slurm refused it: {refusal}")
            return
        with self._sessions.begin() as session:
            allocations.taken(session, allocation.id, slurm_job)
        self.exclusion.is_told(allocation)
        self._terms.are_told(allocation, self.partition.time_limit)
        _log.info("Slurm's job %d is %s", slurm_job, allocation.name, extra={"job": allocation.job_id})

    def _is_old(self, allocation: LiveAllocation) -> bool:
        """Whether Slurm was told something else of a job that waits there."""
        assert self.partition is not None
        return self.exclusion.is_old(allocation) or self._terms.are_old(allocation, self.partition.time_limit)

    def _tell(self, allocation: LiveAllocation, *, slurm_job: int) -> None:
        """Tell Slurm the priority and time limit of a job that waits there, and which nodes it avoids now."""
        assert self.partition is not None
        if self._terms.are_old(allocation, self.partition.time_limit):
            self._terms.tell(allocation, slurm_job, self.partition.time_limit)
        if self.exclusion.is_old(allocation):
            commands.exclude(slurm_job, self.exclusion.nodes_for(allocation, self.partition.nodes))
            self.exclusion.is_told(allocation)

    def _note(self, allocation: LiveAllocation, job: SlurmJob) -> None:
        """Store what Slurm says, if it says something new."""
        expected_at = job.starts_at if job.state == "PENDING" else None
        news = {"state": job.state, "reason": job.reason, "expected_at": expected_at}
        before = {"state": allocation.state, "reason": allocation.reason, "expected_at": allocation.expected_at}
        if news != before:
            with self._sessions.begin() as session:
                allocations.note(session, allocation.id, **news)

    def _note_fault(self, allocation: LiveAllocation, job: SlurmJob) -> None:
        """If Slurm or a person ended the job of an attempt, store which nodes failed: those that are down, or none."""
        if allocation.attempt_id is None or self._files.is_finishing(allocation.name):
            return
        failed: list[str] = []
        if job.state in _FAULTS_OF_NODES:
            of_job = commands.hostnames(job.nodes)
            nodes = commands.partition(self._settings.slurm_partition or "").nodes
            down = [node.name for node in nodes if node.name in of_job and node.is_down]
            failed = of_job if len(of_job) == 1 else down
            if not failed:
                return
        with self._sessions.begin() as session:
            allocations.note(session, allocation.id, lost_nodes=failed)

    def _begin(self, allocation: LiveAllocation, job: SlurmJob) -> None:
        nodes = commands.hostnames(job.nodes)
        with self._sessions.begin() as session:
            lease = allocations.begin(
                session, allocation, nodes, login=socket.gethostname(), lease_s=self._settings.lease_s
            )
        if lease is not None:
            self._launcher.launch(lease.attempt_id)

    def _give_back(self, allocation: LiveAllocation, job: SlurmJob) -> None:
        """End its job in Slurm. A script that runs ends itself, so that Slurm does not count it as cancelled."""
        if job.state == "COMPLETING":  # Slurm has ended it
            return
        told_at = self._finishing.setdefault(allocation.id, time.monotonic())
        self._files.finish(allocation.name)
        if job.waits or time.monotonic() - told_at > _LOST_ANSWER_S / 4:
            commands.cancel(job.id)

    def _end(self, allocation: LiveAllocation, why: str) -> None:
        """Slurm has nothing left of it. If its job still waits for it, it is asked for again."""
        if allocation.is_wanted and allocation.attempt_id is None:
            with self._sessions.begin() as session:
                allocations.failed(session, allocation.id, why)
        else:
            self._over(allocation)

    def _over(self, allocation: LiveAllocation) -> None:
        with self._sessions.begin() as session:
            allocations.over(session, allocation.id)
        self._files.remove(allocation.name)


def _of(allocation: LiveAllocation, found: Sequence[SlurmJob]) -> SlurmJob | None:
    """The job in Slurm of an allocation. If the answer to its submission was lost: the first that has not ended."""
    if allocation.slurm_job is not None:
        return next((job for job in found if job.id == allocation.slurm_job), None)
    if allocation.tried_s is None:
        return None
    return min((job for job in found if not job.is_over), key=lambda job: job.id, default=None)


def _is_needed(allocation: LiveAllocation) -> bool:
    """Whether its job waits for it, or its attempt runs on it."""
    if allocation.attempt_id is not None:
        return not allocation.attempt_ended
    return allocation.is_wanted


def _retry_s(allocation: LiveAllocation) -> float:
    if allocation.problem is None:  # nobody knows what became of the last submission
        return _LOST_ANSWER_S
    return min(_FIRST_RETRY_S * 2.0 ** min(allocation.failures - 1, 32), _LONGEST_RETRY_S)
