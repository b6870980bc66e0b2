"""The script of one round: the jobs, the wishes of their people, and the faults. Only the seed decides them.

This module has no side effects. `tests.chaos.people` and `tests.chaos.monkey` carry the script out. A seed gives the
same round again, except for differences of milliseconds.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Harm(StrEnum):
    """What the monkey does. To kill is SIGKILL. To stop is SIGSTOP, and SIGCONT some time later.

    Disks, clocks and descriptors are set back some time later, too.
    """

    KILL_RANK = "kill a rank"
    STOP_RANK = "stop a rank"
    KILL_LAUNCHER = "kill a horovodrun"
    STOP_LAUNCHER = "stop a horovodrun"
    KILL_SUPERVISOR = "kill a supervisor"
    STOP_SUPERVISOR = "stop a supervisor"
    STOP_SUPERVISOR_LONG = "stop a supervisor beyond its lease"
    KILL_WORKER = "kill a worker"
    STOP_WORKER = "stop a worker"
    KILL_BROKER = "kill the broker"
    STOP_BROKER = "stop the broker"
    KILL_API = "kill an api"
    STOP_API = "stop an api"
    KILL_DATABASE = "kill the database server"
    STOP_DATABASE = "stop the database server"
    DROP_CONNECTIONS = "drop connections to the database"
    FREEZE = "stop worker, supervisors and ranks of a host beyond the lease"
    SWITCH_OVER = "kill the primary database for good"
    KILL_TWO = "kill two parts at once"
    STOP_TWO = "stop two parts at once"
    FILL_DISK = "fill the disk of a host"
    TAKE_INODES = "use up the inodes of a host's disk"
    SET_API_CLOCK = "set the clock of an api"
    SET_HOST_CLOCK = "set the clock of a host"
    SET_DATABASE_CLOCK = "set the clock of the database"
    TAKE_API_DESCRIPTORS = "use up the file descriptors of an api"
    TAKE_WORKER_DESCRIPTORS = "use up the file descriptors of a worker"
    ADD_FIFO = "put a FIFO into a dataset"


BEYOND_THE_LEASE = frozenset({Harm.STOP_SUPERVISOR_LONG, Harm.FREEZE})


@dataclass(frozen=True)
class Disturbance:
    """One harm. It comes when the share `at` of all training is over."""

    at: float
    harm: Harm
    pick: float  # 0..1, chooses the victim
    hold_s: float  # how long it lasts, for example until a stopped process continues; beyond the lease: after its end


class Moment(StrEnum):
    """When a person wants something: the job is queued, launching or running."""

    QUEUED = "queued"
    LAUNCHING = "launching"
    RUNNING = "running"


@dataclass(frozen=True)
class Wish:
    """A request of a person for a job, `delay_s` after the moment."""

    action: str  # cancel or pause
    moment: Moment
    delay_s: float
    resume_after_s: float | None = None  # only of a pause; None: the job stays paused


@dataclass(frozen=True)
class PlannedJob:
    """A job. A person submits it when the share `at` of all training is over."""

    number: int
    at: float
    spec: dict[str, Any]
    submit_twice: bool = False  # with the same idempotency key
    wish: Wish | None = None
    owner: str | None = None  # None: whoever runs the round

    @property
    def name(self) -> str:
        """The name of the job, also in reports."""
        return f"chaos-{self.number:02d}"

    @property
    def kind(self) -> tuple[str, int]:
        """The model and the GPUs. Jobs of one kind have the same loss after each epoch."""
        return self.spec["model"], self.spec["gpus"]


@dataclass(frozen=True)
class Script:
    """A whole round."""

    seed: int
    jobs: tuple[PlannedJob, ...]
    disturbances: tuple[Disturbance, ...]

    @property
    def owners(self) -> frozenset[str]:
        """The users who share the slots by the fair queue; empty: all jobs are of one."""
        return frozenset(job.owner for job in self.jobs if job.owner is not None)


def script_of(
    seed: int, *, jobs: int = 40, disturbances: int = len(Harm), harms: Sequence[Harm] = tuple(Harm)
) -> Script:
    """The round of a seed."""
    dice = random.Random(seed)  # noqa: S311 - the same seed must give the same draws
    wishes = _wishes(dice, jobs)
    planned = tuple(_job(dice, number, jobs, wishes.get(number)) for number in range(jobs))
    return Script(seed, planned, disturbances_of(dice, disturbances, harms))


def disturbances_of(dice: random.Random, number: int, harms: Sequence[Harm]) -> tuple[Disturbance, ...]:
    """So many disturbances, sorted by time. Every one of `harms` comes once before any comes a second time."""
    deck: list[Harm] = []
    while len(deck) < number:
        deck += dice.sample(harms, len(harms))
    times = sorted(dice.uniform(0.02, 0.85) for _ in range(number))
    return tuple(
        Disturbance(at, harm, dice.random(), dice.uniform(0.5, 3.0))
        for at, harm in zip(times, deck[:number], strict=True)
    )


def _wishes(dice: random.Random, jobs: int) -> dict[int, Wish]:
    """The wishes by job number. Of 40 jobs 7 are cancelled and 6 are paused. One of the 6 stays paused."""
    chosen = dice.sample(range(jobs), max(2, jobs // 3))
    cancelled, paused = chosen[: (len(chosen) + 1) // 2], chosen[(len(chosen) + 1) // 2 :]
    moments = list(Moment)
    wishes = {}
    for i, number in enumerate(cancelled):
        wishes[number] = Wish("cancel", moments[i % 3], dice.uniform(0.0, 2.0))
    for i, number in enumerate(paused):
        resume_after_s = None if i == 0 and jobs >= 20 else dice.uniform(0.2, 5.0)
        wishes[number] = Wish("pause", moments[-1 - i % 3], dice.uniform(0.0, 2.0), resume_after_s)
    return wishes


def _job(dice: random.Random, number: int, jobs: int, wish: Wish | None) -> PlannedJob:
    # Late jobs come while others train. Those with a high priority then preempt others.
    late = number >= 0.6 * jobs
    spec = {
        "name": f"chaos-{number:02d}",
        "dataset": "digits",
        "model": dice.choice(["mlp", "lenet5"]),
        "batch_size": 64,
        "learning_rate": 0.001,
        "gpus": dice.choice([1, 1, 1, 2]),
        "epochs": dice.randint(8, 30),
        "early_stopping": None,
        "checkpoint": {"every_epochs": dice.randint(1, 3)},
        "priority": dice.choice([50, 90, 90] if late else [10, 50, 50, 50, 90]),
        "max_restarts": 100,
        "stall_timeout_s": 30,
    }
    at = dice.uniform(0.0, 0.5) if late else 0.0
    return PlannedJob(number, at, spec, submit_twice=dice.random() < 0.25, wish=wish)
