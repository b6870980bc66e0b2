"""Replays a trace of jobs under several policies of a queue, and prints how long they waited.

Hora's own policies run through the pass of the dispatcher, in simulated time, and know no durations.
"""

import argparse
import json
import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table

from bench.queue_policies import Easy, Sorted, by_age, by_duration
from bench.queue_starts import Forecasting, StartFigures
from bench.queue_trace import TraceError, many_times, read_trace
from jobs.model.bursts import Bursts
from jobs.scheduling.simulated_pass import HoraScheduler
from jobs.scheduling.simulation import Scheduler, SimulatedJob, Simulation, alike_hosts

POLICIES: dict[str, Callable[[], Scheduler]] = {
    "fifo": lambda: Sorted(by_age, passes=False),
    "firstfit": lambda: Sorted(by_age, passes=True),
    "easy": Easy,
    "sjf": lambda: Sorted(by_duration, passes=True),
    "hora-fifo": lambda: HoraScheduler("fifo"),
    "hora-fair": lambda: HoraScheduler("fair"),
}
_BIG = 8  # GPUs
_SHORT_S = 600.0  # the slowdown of shorter jobs is that of a job so long
_COST_S = 60.0


@dataclass(frozen=True)
class Figures:
    """What a policy did. Waits are in seconds: end - submission - duration. `big` are jobs of 8 GPUs and more.

    `slowdown` is the mean of (end - submission) / max(duration, 600 s), each at least 1. `utilization` is the part of
    all slot-seconds, until the last end, in which jobs made progress. `lost_s` are the slot-seconds that preemptions
    cost.
    """

    policy: str
    mean_wait_s: float
    p50_wait_s: float
    p90_wait_s: float
    p99_wait_s: float
    big_mean_wait_s: float | None
    big_p50_wait_s: float | None
    big_p90_wait_s: float | None
    big_p99_wait_s: float | None
    slowdown: float
    utilization: float
    preemptions: int
    lost_s: float
    took_s: float  # of the computer
    users: dict[str, dict[str, float]]
    starts: StartFigures | None = None


def main(argv: Sequence[str]) -> int:
    """Replay and print. Returns the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        trace = read_trace(arguments.trace, hosts=arguments.hosts, slots=arguments.slots, most=arguments.jobs)
    except TraceError as error:
        print(f"python -m bench queue: {error}", file=sys.stderr)
        return 2
    figures, jobs = [], list[SimulatedJob]()
    for policy in arguments.policies:
        jobs = trial(trace, arguments.hosts * arguments.slots, copies=arguments.copies, load=arguments.load)
        figures.append(
            replay(
                policy, jobs, arguments.hosts, arguments.slots, cost_s=arguments.preemption_s, starts=arguments.starts,
                every_s=arguments.pass_every_s,
            )
        )  # fmt: skip
    result = {
        "jobs": len(jobs),
        "offered_load": offered_load(jobs, arguments.hosts * arguments.slots),
        "policies": [asdict(one) for one in figures],
    }
    if arguments.json:
        print(json.dumps(result))
    else:
        _print(figures, result)
    return 0


def trial(
    trace: Sequence[SimulatedJob], slots: int, *, copies: int = 1, load: float | None = None
) -> list[SimulatedJob]:
    """New jobs for a replay: those of the trace, so many times. `load`: they come so fast that it is offered.

    Bursts are those of the times at which they come then.
    """
    jobs = many_times(trace, copies) if copies > 1 else [replace(job) for job in trace]
    before = offered_load(jobs, slots)
    if load is not None and before:
        for job in jobs:
            job.submitted_s = job.queued_s = job.submitted_s * before / load
    bursts = Bursts()
    for job in sorted(jobs, key=lambda job: job.order):
        job.burst = bursts.burst_of(job.job_id, (job.account, job.gpus), job.submitted_s)
    return jobs


def replay(
    policy: str,
    jobs: Sequence[SimulatedJob],
    hosts: int,
    slots: int,
    *,
    cost_s: float = _COST_S,
    starts: int | None = None,
    every_s: float = 0.0,
) -> Figures:
    """Replay jobs under a policy. A preemption costs `cost_s` of the slots that the job has.

    `starts`: under Hora's own policies, forecast the start of every so many-th job. `every_s` is the time between two
    passes; 0: there is one whenever something happens.
    """
    begun_s = time.perf_counter()
    for job in jobs:
        job.cost_s = cost_s
    scheduler = POLICIES[policy]()
    forecasting = Forecasting(scheduler, every=starts) if starts and isinstance(scheduler, HoraScheduler) else None
    Simulation(jobs, alike_hosts(hosts, slots), every_s=every_s).run(forecasting or scheduler)
    took_s = time.perf_counter() - begun_s
    waits, big = sorted(job.wait_s for job in jobs), sorted(job.wait_s for job in jobs if job.gpus >= _BIG)
    work = sum(job.duration_s * job.gpus for job in jobs)
    span_s = max(job.ended_s for job in jobs) - min(job.submitted_s for job in jobs)
    slowdowns = [max(1.0, (job.ended_s - job.submitted_s) / max(job.duration_s, _SHORT_S)) for job in jobs]
    p50_s, p90_s, p99_s = _quantiles(waits)
    big_p50_s, big_p90_s, big_p99_s = _quantiles(big)
    return Figures(
        policy=policy,
        mean_wait_s=sum(waits) / len(waits),
        p50_wait_s=p50_s or 0.0,
        p90_wait_s=p90_s or 0.0,
        p99_wait_s=p99_s or 0.0,
        big_mean_wait_s=sum(big) / len(big) if big else None,
        big_p50_wait_s=big_p50_s,
        big_p90_wait_s=big_p90_s,
        big_p99_wait_s=big_p99_s,
        slowdown=sum(slowdowns) / len(slowdowns),
        utilization=work / (hosts * slots * span_s) if span_s else 0.0,
        preemptions=sum(job.preemptions for job in jobs),
        lost_s=sum(job.preemptions * cost_s * job.gpus for job in jobs),
        took_s=took_s,
        users=_by_user(jobs),
        starts=forecasting.figures() if forecasting else None,
    )


def offered_load(jobs: Sequence[SimulatedJob], slots: int) -> float | None:
    """The work that is submitted relative to what the slots can do meanwhile. None if all is submitted at once."""
    times_s = [job.submitted_s for job in jobs]
    span_s = max(times_s) - min(times_s)
    return sum(job.duration_s * job.gpus for job in jobs) / (slots * span_s) if span_s else None


def _by_user(jobs: Sequence[SimulatedJob]) -> dict[str, dict[str, float]]:
    """Of each user: the number of jobs, the part of all slot-seconds, and the mean wait. Empty without users."""
    of_user = defaultdict(list)
    for job in jobs:
        if job.user or job.project:
            of_user["/".join(filter(None, job.account))].append(job)
    work = sum(job.duration_s * job.gpus for job in jobs) or 1.0
    return {
        user: {
            "jobs": len(own),
            "share": sum(job.duration_s * job.gpus for job in own) / work,
            "mean_wait_s": sum(job.wait_s for job in own) / len(own),
        }
        for user, own in sorted(of_user.items())
    }


def _quantiles(values: Sequence[float]) -> list[float | None]:
    """The median, p90 and p99 of sorted values: the smallest that at least so many of them do not exceed."""
    count = len(values)
    return [values[math.ceil(part * count) - 1] if values else None for part in (0.5, 0.9, 0.99)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench queue", description=__doc__)
    parser.add_argument("--trace", type=Path, required=True, help="CSV: timestamp,duration,num_gpus[,user][,project]")
    parser.add_argument("--hosts", type=_count, default=6, help="number of hosts (default: 6)")
    parser.add_argument("--slots", type=_count, default=8, help="slots of each host (default: 8)")
    parser.add_argument("--jobs", type=_count, help="replay only the first jobs (default: all)")
    parser.add_argument(
        "--policies", type=_policies, default=list(POLICIES), help=f"of: {','.join(POLICIES)} (default: all)"
    )
    parser.add_argument(
        "--preemption-s", type=_seconds, default=_COST_S, help="what a preemption costs (default: %(default)g)"
    )
    parser.add_argument("--copies", type=_count, default=1, help="so many times all jobs, with users of their own")
    parser.add_argument("--load", type=_load, help="jobs come as fast as makes this offered load (default: as in it)")
    parser.add_argument(
        "--pass-every-s", type=_seconds, default=0.0,
        help="time between two passes; for many hosts (default: whenever something happens)",
    )  # fmt: skip
    parser.add_argument(
        "--starts", type=_count, metavar="N", help="forecast the start of every N-th job, under Hora's own policies"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError
    return value


def _load(text: str) -> float:
    value = float(text)
    if not 0 < value <= 100:
        raise ValueError
    return value


def _policies(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in POLICIES]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; there are: {', '.join(POLICIES)}")
    return names


def _print(figures: Sequence[Figures], result: Mapping[str, object]) -> None:
    load = result["offered_load"]
    title = f"{result['jobs']} jobs" + (f", offered load {load:.2f}" if isinstance(load, float) else "")
    headers = ("mean", "median", "p90", "p99", f"{_BIG}+ GPUs", "slowdown", "utilization", "preempt", "lost slot-h")
    table = Table(Column("policy", no_wrap=True), *headers, title=f"{title}; waits in minutes")
    for one in figures:
        waits = [one.mean_wait_s, one.p50_wait_s, one.p90_wait_s, one.p99_wait_s, one.big_mean_wait_s]
        table.add_row(
            one.policy, *("-" if wait is None else f"{wait / 60:,.1f}" for wait in waits), f"{one.slowdown:,.2f}",
            f"{one.utilization:.1%}", f"{one.preemptions:,}", f"{one.lost_s / 3600:,.1f}",
        )  # fmt: skip
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    forecast = [(one.policy, one.starts) for one in figures if one.starts]
    if forecast:
        of_starts = ("median error", "within 2x", "waited over 1 min", "median error", "within 2x")
        by_policy = Table(
            Column("policy", no_wrap=True), "jobs", *of_starts, title="Expected starts, at the submission"
        )
        for policy, starts in forecast:
            by_policy.add_row(
                policy, f"{starts.jobs:,}", _times(starts.median_error), _part(starts.within_2), f"{starts.waited:,}",
                _times(starts.waited_median_error), _part(starts.waited_within_2),
            )  # fmt: skip
        console.print(by_policy)
    users = figures[0].users
    if users:
        policies = [one.policy for one in figures]
        by_user = Table(Column("user", no_wrap=True), "jobs", "share", *policies, title="Mean wait in minutes by user")
        for user, own in users.items():
            means = (f"{one.users[user]['mean_wait_s'] / 60:,.1f}" for one in figures)
            by_user.add_row(user, f"{own['jobs']:.0f}", f"{own['share']:.1%}", *means)
        console.print(by_user)


def _times(error: float | None) -> str:
    return "-" if error is None else f"{error:,.2f}x"


def _part(part: float | None) -> str:
    return "-" if part is None else f"{part:.0%}"
