"""Finds figures in which the ranks of a job differ too much. Pure; called by `analyse`."""

from collections.abc import Callable, Mapping, Sequence

from jobs.insight.analysis.evidence import SlotSamples
from jobs.insight.analysis.steps import RankCompute
from jobs.views.analysis import Imbalance

_MEMORY_RATIO, _MEMORY_BYTES = 2.0, 2**30  # both: rank 0 holds a little more, and small numbers differ easily
_COMPUTE_RATIO, _COMPUTE_SHARE = 1.3, 0.1  # both: of the least, and of a step's time
_SLOWEST_SHARE = 0.8  # the same rank is the slowest in this share of the steps: not by chance
_BUSY_RATIO, _BUSY_PERCENT = 1.3, 20.0


def imbalances(samples: Sequence[SlotSamples], compute: RankCompute | None, *, on_gpu: bool) -> list[Imbalance]:
    """Imbalances of memory, load and computing. `samples` cover the training; those of the newest attempt count."""
    newest = max((slot.attempt for slot in samples), default=0)
    slots = [slot for slot in samples if slot.attempt == newest and len(slot.busy)]
    differences = [
        _memory("gpu_memory_bytes", "GPU memory", slots, lambda slot: slot.gpu_memory_bytes),
        _memory("memory_bytes", "memory", slots, lambda slot: slot.memory_bytes),
    ]
    if on_gpu:  # there a rank's own time of a step holds little of what its GPU does
        differences.append(
            _load({slot.rank: float(slot.busy.mean()) for slot in slots if slot.metric == "gpu_percent"})
        )
    elif compute is not None:
        differences.append(_computing(compute))
    return [imbalance for imbalance in differences if imbalance is not None]


def _memory(
    figure: str, words: str, slots: Sequence[SlotSamples], of: Callable[[SlotSamples], int | None]
) -> Imbalance | None:
    by_rank = {one.rank: float(value) for one in slots if (value := of(one))}
    least, greatest = _ends(by_rank)
    if greatest < _MEMORY_RATIO * least or greatest - least < _MEMORY_BYTES:
        return None
    most, fewest = (f"{value / 2**20:,.0f} MiB" for value in (greatest, least))
    return _imbalance(
        figure, by_rank, f"Rank {_at(by_rank, greatest)} held {most} of {words}, rank {_at(by_rank, least)} {fewest}."
    )


def _computing(compute: RankCompute) -> Imbalance | None:
    by_rank = compute.by_rank
    least, greatest = _ends(by_rank)
    matters = greatest >= _COMPUTE_RATIO * least and greatest - least >= _COMPUTE_SHARE * compute.step_time_s
    if least <= 0 or not matters or compute.slowest_share < _SLOWEST_SHARE:
        return None
    return _imbalance(
        "compute_s", by_rank,
        f"Rank {_at(by_rank, greatest)} computes {1000 * greatest:.3g} ms in a step, rank {_at(by_rank, least)}"
        f" {1000 * least:.3g} ms. Rank {_at(by_rank, greatest)} is the slowest in {100 * compute.slowest_share:.0f} %"
        f" of the steps.",
    )  # fmt: skip


def _load(by_rank: Mapping[int, float]) -> Imbalance | None:
    least, greatest = _ends(by_rank)
    if least <= 0 or greatest < _BUSY_RATIO * least or greatest - least < _BUSY_PERCENT:
        return None
    return _imbalance(
        "gpu_percent", by_rank,
        f"The GPU of rank {_at(by_rank, greatest)} is busy {greatest:.0f} % of the time,"
        f" that of rank {_at(by_rank, least)} {least:.0f} %.",
    )  # fmt: skip


def _ends(by_rank: Mapping[int, float]) -> tuple[float, float]:
    values = by_rank.values() if len(by_rank) > 1 else (0.0,)
    return min(values), max(values)


def _at(by_rank: Mapping[int, float], value: float) -> int:
    return next(rank for rank, own in by_rank.items() if own == value)


def _imbalance(figure: str, by_rank: Mapping[int, float], text: str) -> Imbalance:
    least, greatest = _ends(by_rank)
    return Imbalance(figure=figure, by_rank=dict(by_rank), ratio=greatest / least, text=text)
