"""Members on nodes of Slurm: what they sample, what they say when the node is taken back, and which of them failed."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from jobs.lifecycle.store import Lease
from jobs.model.spec import spec_from
from jobs.runtime.settings import Settings
from tests.waiting import until
from worker.attempt import lease_file
from worker.attempt.layout import HostShare, Layout
from worker.attempt.member_connection import MemberFailed
from worker.attempt.members import Members, MembersLaunch
from worker.attempt.node_samples import rows_of
from worker.attempt.paths import paths_of
from worker.attempt.processes import pids_with_mark
from worker.attempt.shares import member_task, members_launch
from worker.attempt.supervisor_task import launch_of
from worker.sampling.node_sampler import match

MEMBER = [sys.executable, "-m", "worker.member"]
LEASE = Lease(1, "token", "j", 1)
Start = Callable[..., Members]


@pytest.fixture
def start(tmp_path: Path, mark: str, drivers: dict[str, Path], started: list[Members]) -> Start:
    """Starts a member for two GPU ranks on node n1, as srun would: with the GPUs that Slurm gave in its environment."""
    paths = paths_of(tmp_path, "j", 1)
    paths.create()

    def start(command: list[str] = MEMBER, *, given: str = "1,3") -> Members:
        lease_file.extend(paths.lease_file, time.monotonic() + 120)
        layout = Layout([HostShare("n1", "n1", [0, 1], (), 0, own_gpus=2)], "lo", slurm_job=7)
        launch = launch_of("j", spec_from({"dataset": "digits"}), paths, Settings(), layout)
        task = member_task(launch, layout.lead, paths, mark=mark, sample_period_s=0.1)
        made = members_launch([task], layout, paths, ssh=(), environment=os.environ, ready_within_s=120.0)
        variables = {"LD_LIBRARY_PATH": str(drivers["new"]), "NVML_STUB": "wpww", "CUDA_VISIBLE_DEVICES": given}
        changes = {"commands": [["setsid", *command]], "environment": os.environ | variables}  # a session of its own
        launch_of_members = MembersLaunch(**{**vars(made), **changes})
        started.append(Members.start(launch_of_members))
        return started[-1]

    return start


def test_a_member_samples_the_gpus_and_processes_of_its_ranks(start: Start, mark: str) -> None:
    members = start()
    rank = subprocess.Popen(["sleep", "600"], env={**os.environ, "HORA_ATTEMPT": mark, "HOROVOD_RANK": "1"})
    until(lambda: pids_with_mark(mark), what="a rank")
    seen = []

    def sees_rank() -> bool:
        seen.extend(members.take_samples())
        return bool(seen) and "memory_bytes" in seen[-1].values_by_rank[1]

    until(sees_rank, what="a sample of the rank")
    rank.kill()
    rank.wait()
    sample = seen[-1]
    assert sample.node == "n1"
    assert abs(sample.at - time.time()) < 60
    assert sample.values_by_rank[0]["gpu_percent"] is not None
    first, second = rows_of(LEASE, [sample], {"step": 41, "epoch": 3})
    assert (first.host, first.slot, first.rank, first.step) == ("n1", 0, 0, 41)
    assert (second.slot, second.rank, second.epoch) == (1, 1, 3)
    # Only on card 1 of the stub is a process, so the two readings show which cards the ranks have.
    assert (first.values["gpu_processes"], second.values["gpu_processes"]) == (1, 0)
    assert first.values.keys() >= {"gpu_percent", "gpu_power_w"}


WITH_READY_SAMPLES = """
import sys
from worker import member

class Sampler:
    def __init__(self, *args, **options): pass
    def start(self): pass
    def take(self):
        member.HERE_PERIOD_S = 3600.0  # after the first one
        return [{"at": 1.0, "ranks": {"0": {}}}]

member.NodeSampler = Sampler
sys.exit(member.main())
"""


def test_a_member_sends_its_samples_before_it_says_that_no_process_is_left(start: Start) -> None:
    members = start([sys.executable, "-c", WITH_READY_SAMPLES])
    assert members.take_samples()
    until(members.are_gone, what="the answer that no process is left")
    assert members.take_samples()


def test_a_member_outlives_sigterm_and_says_that_its_node_is_taken_back(start: Start) -> None:
    members = start()
    assert not members.is_leaving()
    (pid,) = members.pids()
    os.kill(pid, signal.SIGTERM)
    until(members.is_leaving, what="the word of the member")
    assert members.why_lost() is None
    assert members.faulty_host("Slurm takes its nodes back") is None
    members.signal(signal.SIGKILL)
    until(members.are_gone, what="an answer after that")


def test_a_node_that_stays_silent_is_to_blame_though_its_silence_becomes_longer(start: Start) -> None:
    members = start()
    assert members.faulty_host("host n1: silent for 9 s") is None
    members.extend(0.0)
    (pid,) = members.pids()
    os.kill(pid, signal.SIGSTOP)
    until(members.why_lost, what="the loss of the silent node")
    loss = members.why_lost()
    assert loss is not None
    until(lambda: members.why_lost() != loss, what="a longer silence")
    assert members.faulty_host(loss) == "n1"
    assert members.faulty_host("host n2: silent for 9 s") is None


@pytest.mark.parametrize(
    ("said", "is_lost", "to_blame"),
    [
        (["srun: error: Task launch for StepId=2.0 failed on node n1: Communication failure"], True, "n1"),
        (["srun: error: Unable to contact slurm controller (connect failure)"], True, None),
        (["env: '/x/python': No such file", "srun: error: n1: task 0: Exited with exit code 1"], False, "n1"),
    ],
)
def test_a_node_where_slurm_starts_no_member_is_lost_and_one_that_cannot_run_it_is_faulty(
    start: Start, said: list[str], is_lost: bool, to_blame: str | None
) -> None:
    with pytest.raises(MemberFailed) as failure:
        start(["sh", "-c", f"printf '%s\\n' {shlex.join(said)} >&2; exit 1"])
    members, error = Members(failure=failure.value), str(failure.value)
    assert members.why_lost() == (error if is_lost else None)
    assert members.faulty_host(error) == to_blame
    assert members.faulty_host("host slurm:main is shutting down") is None
    assert is_lost or "No such file" in error


def test_a_node_with_too_few_gpus_is_faulty_and_says_why(start: Start) -> None:
    with pytest.raises(MemberFailed, match="Slurm gave 1 GPUs") as refusal:
        start(given="1")
    refusing = Members(failure=refusal.value)
    assert (refusing.why_lost(), refusing.faulty_host(f"no rank started: {refusal.value}")) == (None, "n1")


CARDS = [SimpleNamespace(index=index, uuid=f"GPU-{index}abc") for index in range(4)]


@pytest.mark.parametrize(
    ("named", "found", "indices"),
    [
        (["2", "3"], CARDS, [2, 3]),  # all cards are seen: the numbers are NVML's own
        (["0", "1"], CARDS[2:], [2, 3]),  # control groups hide the others: Slurm counts from 0
        (["GPU-3abc", "GPU-1"], CARDS, [3, 1]),
        (["7", "GPU-9"], CARDS, [None, None]),
        (["0"], [], [None]),
    ],
)
def test_slurm_names_cards_of_ranks(named: list[str], found: list[SimpleNamespace], indices: list[int | None]) -> None:
    assert [None if gpu is None else gpu.index for gpu in match(named, found)] == indices  # type: ignore[arg-type]
