"""What the steps spent their time on, and whether the ranks had equal shares of the work. Pure; called by `analyse`.

All ranks of a job make a step together: the last one to contribute its gradients decides when it ends. So a rank that
waits in the allreduce waits for the exchange itself, or for a peer that still waits for data or still computes. If a
peer's longer wait for data explains a wait, it counts as waiting for data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from jobs.insight.analysis.evidence import Floats, Steps
from jobs.telemetry.ingest import ALL_RANKS
from jobs.views.analysis import StepShares


@dataclass(frozen=True)
class Split:
    """Shares of the slots' time in some steps; they add up to 1."""

    data_wait: float = 0.0
    communication: float = 0.0
    compute: float = 1.0


@dataclass(frozen=True)
class Pattern:
    """Figures of a job's steps over all its attempts. Shares are of the time of all steps."""

    steps: int
    seconds: float
    step_time_s: float  # the median
    split: Split
    wait_without_longest: float  # the share of waiting for data, without the longest wait
    exchange: float  # the allreduce of the rank that came last, so waited for nobody
    exchange_p25: float  # in three of four steps it was at least this share


@dataclass(frozen=True)
class RankCompute:
    """The median time that each rank computes in a step, and the share of steps in which the slowest was slowest."""

    by_rank: Mapping[int, float]
    slowest_share: float
    step_time_s: float  # the median


def shares(steps: Sequence[Steps], *, in_graph: bool = False) -> list[StepShares]:
    """The shares over all ranks, then of each rank as it recorded them; empty if there are no steps.

    If one process averages `in_graph`, that time is not measured: it is a part of computing.
    """
    if not steps:
        return []
    most = max(one.ranks for one in steps)
    by_rank = [_shares(rank, [_of_rank(one, rank) for one in steps if one.ranks > rank]) for rank in range(most)]
    found = [_shares(ALL_RANKS, steps), *by_rank]
    return [one.model_copy(update={"allreduce": None}) for one in found] if in_graph else found


def split(steps: Sequence[Steps]) -> Split:
    """How the slots' time was spent. Without steps all of it counts as computing."""
    data, exchange, total = (sum(sums) for sums in zip(*map(_sums, steps), strict=True)) if steps else (0.0, 0.0, 0.0)
    return Split(data / total, exchange / total, 1 - (data + exchange) / total) if total else Split()


def pattern(steps: Sequence[Steps]) -> Pattern | None:
    """The figures by which the steps are judged; None if there are none."""
    if not steps:
        return None
    weights = np.concatenate([np.full(len(one.number), one.every) for one in steps])
    times = np.concatenate([_time(one).mean(axis=1) for one in steps])
    waits = np.concatenate([_longest_wait(one) for one in steps])
    exchanges = np.concatenate([one.allreduce_s.min(axis=1) for one in steps])
    seconds = float(weights @ times)
    parts = split(steps)
    return Pattern(
        steps=round(float(weights.sum())),
        seconds=seconds,
        step_time_s=float(np.median(times)),
        split=parts,
        wait_without_longest=parts.data_wait * (1 - float(waits.max()) / max(float(waits.sum()), _TINY)),
        exchange=float(weights @ exchanges) / max(seconds, _TINY),
        exchange_p25=float(np.percentile(exchanges / np.maximum(times, _TINY), 25)),
    )


def compute_of_ranks(steps: Sequence[Steps]) -> RankCompute | None:
    """How long each rank computes, in the attempt with the most steps; None if that has one rank."""
    most = max(steps, key=lambda one: len(one.number), default=None)
    if most is None or most.ranks == 1:
        return None
    compute = _time(most) - most.data_wait_s - most.allreduce_s
    medians = np.median(compute, axis=0)
    slowest = float(np.mean(compute.argmax(axis=1) == medians.argmax()))
    return RankCompute(dict(enumerate(medians.tolist())), slowest, float(np.median(most.time_s)))


_TINY = 1e-12


def _shares(rank: int, steps: Sequence[Steps]) -> StepShares:
    parts, count = split(steps), sum(len(one.number) * one.every for one in steps)
    time_s = sum(one.every * float(_time(one).mean(axis=1).sum()) for one in steps) / count
    return StepShares(
        rank=rank, steps=round(count), step_time_s=time_s,
        data_wait=parts.data_wait, allreduce=parts.communication, compute=parts.compute,
    )  # fmt: skip


def _of_rank(one: Steps, rank: int) -> Steps:
    """The times that one rank recorded."""
    column = slice(rank, rank + 1)
    arrays = (one.time_s[:, column], one.data_wait_s[:, column], one.allreduce_s[:, column])
    return Steps(one.attempt, one.number, *arrays, every=one.every, has_waits=one.has_waits)


def _time(one: Steps) -> Floats:
    """Times (step, rank), never less than the waits in them."""
    return np.maximum(one.time_s, one.data_wait_s + one.allreduce_s)


def _longest_wait(one: Steps) -> Floats:
    """The longest wait for data of any rank in each step (step,)."""
    longest: Floats = one.data_wait_s.max(axis=1)
    return longest


def _sums(one: Steps) -> tuple[float, float, float]:
    """Seconds over all ranks: waiting for data (also a peer's), the rest of the allreduce, and all time."""
    longer = _longest_wait(one)[:, None] - one.data_wait_s
    explained = float(np.minimum(one.allreduce_s, longer).sum())
    data, exchange = float(one.data_wait_s.sum()) + explained, float(one.allreduce_s.sum()) - explained
    return one.every * data, one.every * exchange, one.every * float(_time(one).sum())
