"""Seeded faults of a Slurm cluster, and of what runs on it, while jobs of a pool train. Their ranks are scripts."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hora.service import Service
from hora.stack.control import Stack
from jobs.runtime.processes import command_line, environment, pids
from tests.acceptance.conftest import no_process_left, points, rank_pids, supervisor_pids
from tests.acceptance.pools import POOL, stack_on
from tests.acceptance.test_scripts import submitted
from tests.slurm import Slurm, slurm
from tests.waiting import until

pytestmark = pytest.mark.long("hosts")

Json = dict[str, Any]
T = TypeVar("T")
SEED = 22
STEPS, SAVE_EACH, AT_ONCE = 60, 5, 4
SCRIPT = f"""
import sys, time, uuid
from hora import run

latest = run.latest_checkpoint()
done = 0 if latest is None else int((latest / "step").read_text())
me = uuid.uuid4().hex
for step in range(done + 1, {STEPS} + 1):
    began = time.time()
    time.sleep(0.1)
    run.report(step=step, mae=1 / step)
    if run.rank == 0:
        with (run.artifacts / "trace.txt").open("a") as trace:
            print(me, step, began, time.time(), file=trace)
    stopping = run.should_stop()
    if stopping or step % {SAVE_EACH} == 0:
        with run.checkpoint(step) as folder:
            (folder / "step").write_text(str(step))
    if stopping:
        sys.exit()
"""

JOB = {
    "script": SCRIPT, "command": ["python", "train.py"], "goal": {"metric": "mae"},
    "pool": POOL, "device": "cpu", "placement": "spread", "max_restarts": 100,
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    """Three nodes with two cores each: room for three of the jobs."""
    with slurm(nodes=3, patience_s=4) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def login(cluster: Slurm, session_folder: Path) -> Iterator[Stack]:
    """A stack on the login node of the cluster, with no slots of its own, that runs the code of its users."""
    settings = {"HORA_CODE": "on", "HORA_RESTART_BACKOFF_S": "0.1", "HORA_RESTART_BACKOFF_LIMIT_S": "0.5"}
    with stack_on(cluster, session_folder / "faulty-login", **settings) as stack:
        yield stack


class Site:
    """The jobs, and the faults that are to be mended after a while."""

    def __init__(self, cluster: Slurm, stack: Stack, client: Service, chance: random.Random) -> None:
        self.cluster = cluster
        self.client = client
        self.chance = chance
        self.jobs: list[str] = []
        self.whole_nodes = list(cluster.nodes)
        self.is_away = False  # the controller
        self.away_s = [5.0, 60.0]  # how long it is down, the last one first
        self._stack = stack
        self._repairs: list[tuple[float, Callable[[], None]]] = []

    def keep_busy(self) -> None:
        """Submit jobs until enough of them have not ended."""
        live = [job_id for job_id in self.jobs if self.client.job(job_id)["ended_at"] is None]
        for _ in range(AT_ONCE - len(live)):
            first = self.client.job(self.jobs[0])["spec"] if self.jobs else None
            self.jobs.append(self.client.submit(first)["id"] if first else submitted(self._stack, **JOB))

    def running(self) -> tuple[str, int]:
        """A job that trains, and the number of its attempt."""

        def one() -> tuple[str, int] | None:
            self.repair()
            self.keep_busy()
            jobs = [self.client.job(job_id) for job_id in self.jobs]
            train = [job for job in jobs if job["status"] == "running" and job["progress"]]
            if not train:
                return None
            job = self.chance.choice(train)
            return job["id"], job["attempt"]

        return self.until(one, "a job that trains")

    def until(self, condition: Callable[[], T], what: str) -> T:
        """Wait for a condition. A failure says how far the jobs are."""
        try:
            return until(condition, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self}") from None

    def __str__(self) -> str:
        """How far the jobs are, for the message of a failure."""
        jobs = [self.client.job(job_id) for job_id in self.jobs]
        lines = [f"{job['id']} {job['status']} {job['waiting'] or job['progress']}" for job in jobs]
        for job in jobs:
            ends = [f"{one['end_reason']}: {one['error']}" for one in self.client.attempts(job["id"])]
            lines += [f"{job['id']} {number} {end}" for number, end in enumerate(ends, 1)]
        return "\n".join([*lines, self.cluster.run("sinfo", "-N"), self.cluster.run("squeue", "--states=all")])

    def later(self, seconds: float, repair: Callable[[], None]) -> None:
        self._repairs.append((time.monotonic() + seconds, repair))

    def repair(self) -> bool:
        """Mend what is due. Without the controller nothing else can be mended. Returns whether all is whole."""
        for due_at, repair in list(self._repairs):
            if time.monotonic() >= due_at and (not self.is_away or repair == self.bring_controller_back):
                self._repairs.remove((due_at, repair))
                repair()
        return not self._repairs

    def bring_controller_back(self) -> None:
        self.cluster.start_controller()
        self.is_away = False

    def break_node(self, repair: Callable[[str], None]) -> str:
        """A node that is whole. It is mended in some seconds."""
        node = self.chance.choice(self.whole_nodes)
        self.whole_nodes.remove(node)

        def mend() -> None:
            repair(node)
            self.whole_nodes.append(node)

        self.later(self.chance.uniform(1, 8), mend)
        return node

    def in_slurm(self, *argv: str) -> None:
        """Run a command of Slurm on the job of an attempt that trains. {} stands for its number there."""

        def is_done() -> bool:
            job_id, attempt = self.running()
            name = f"--name=hora-{job_id}-{attempt}"
            number = self.cluster.run("squeue", "--noheader", "--states=running", name, "--format=%i").strip()
            with suppress(AssertionError):  # it ended in this moment
                self.cluster.run(*(part.format(number) for part in argv))
                return bool(number)
            return False

        until(is_done, what=f"{argv}")


def a_rank_is_killed(site: Site) -> None:
    job_id, attempt = site.running()
    kill(*rank_pids(site.client, job_id, attempt).values())


def a_supervisor_is_killed(site: Site) -> None:
    job_id, _ = site.running()
    kill(supervisor_pids(site.client, job_id)[-1])


def a_member_is_killed(site: Site) -> None:
    ours = f"SLURM_CONF={site.cluster.environment['SLURM_CONF']}".encode()  # other tests have clusters at this time too

    def members() -> list[int]:
        site.running()
        commands = {pid: command_line(pid) for pid in pids()}
        found = [pid for pid, command in commands.items() if b"worker.member" in command and b"srun" not in command]
        return [pid for pid in found if ours in environment(pid)]

    kill(site.chance.choice(site.until(members, "a member")))


def a_slurmd_is_killed(site: Site) -> None:
    site.running()
    site.cluster.kill_node(site.break_node(site.cluster.start_node))


def the_controller_is_down(site: Site) -> None:
    site.running()
    site.cluster.stop_controller()
    site.is_away = True
    site.later(site.away_s.pop(), site.bring_controller_back)


def in_slurm(name: str, *argv: str) -> Callable[[Site], None]:
    def fault(site: Site) -> None:
        site.in_slurm(*argv)

    fault.__name__ = name
    return fault


def a_node_is(state: str) -> Callable[[Site], None]:
    def a_node_changes(site: Site) -> None:
        site.running()
        site.cluster.set_node(site.break_node(site.cluster.resume_node), state)

    a_node_changes.__name__ = f"a_node_is_{state}"
    return a_node_changes


NEED_SLURM = [
    in_slurm("an attempt is cancelled", "scancel", "{}"),
    in_slurm("an attempt is requeued", "sh", "-c", "scontrol update JobId={0} Requeue=1 && scontrol requeue {0}"),
    in_slurm("the time of an attempt is nearly over", "scontrol", "update", "JobId={}", "TimeLimit=1"),
    in_slurm("Slurm asks for the nodes", "scancel", "--signal=USR2", "--batch", "{}"),
    a_node_is("drain"), a_node_is("down"), the_controller_is_down, a_slurmd_is_killed,
]  # fmt: skip
KINDS = [*NEED_SLURM, a_rank_is_killed, a_supervisor_is_killed, a_member_is_killed]


def kill(*processes: int) -> None:
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_no_fault_loses_a_job_doubles_a_step_or_leaves_a_process(cluster: Slurm, login: Stack) -> None:
    chance = random.Random(SEED)  # noqa: S311 - no secret
    faults = [*KINDS, *KINDS]
    chance.shuffle(faults)
    with Service(login.url, login.token) as client:
        site = Site(cluster, login, client, chance)
        for fault in faults:
            if fault in NEED_SLURM:
                until(lambda: site.repair() or not site.is_away, what="the controller")
            until(lambda: site.repair() or site.whole_nodes, what="a whole node")
            print(f"{time.strftime('%X')} {fault.__name__}")  # noqa: T201 - pytest shows it if the test fails
            fault(site)
        until(site.repair, what="the repairs")
        jobs = [
            site.until(lambda one=job_id: job_if_ended(client, one), f"the end of {job_id}") for job_id in site.jobs
        ]
        assert {job["status"] for job in jobs} == {"succeeded"}, [(job["id"], job["error"]) for job in jobs]
        for job in jobs:
            assert points(client, job["id"], "mae", axis="step", rank=0) == {
                step: 1 / step for step in range(1, STEPS + 1)
            }
            assert_one_attempt_at_a_time(login.home / "runs" / job["id"] / "artifacts" / "trace.txt")
            no_process_left(client, job["id"])
        until(cluster.are_idle, what="idle nodes")
        until(lambda: client.host(POOL)["slots"] == [], what="free slots")


def job_if_ended(client: Service, job_id: str) -> Json | None:
    job = client.job(job_id)
    return job if job["ended_at"] else None


def assert_one_attempt_at_a_time(trace: Path) -> None:
    """Fail if a step of one attempt ended after another attempt had begun one."""
    spans: dict[str, tuple[float, float]] = {}
    for line in trace.read_text().splitlines():
        who, _, began, over = line.split()
        spans[who] = (spans.get(who, (float(began), 0.0))[0], float(over))
    in_turn = sorted(spans.values())
    assert all(before[1] <= after[0] for before, after in pairwise(in_turn)), in_turn
