"""The knee of a throughput curve: where it stops growing with the batch. Pure; called by `proposal`."""

from collections.abc import Sequence
from statistics import median

FLAT = 0.9  # throughput within a tenth of the best counts as the best; a doubling that gains less is flat


def find_knee(throughputs: Sequence[float]) -> int | None:
    """Position of the smallest batch after which throughput (samples/s) hardly grows; None if it grows to the end.

    The batches double from one position to the next. The knee is the first one within a tenth of the best. One point
    that noise lifted or lowered does not move it by more than a position.
    """
    smooth = _smoothed(throughputs)
    if len(smooth) < 2:
        return None
    enough = FLAT * max(smooth)
    knee = next(position for position, throughput in enumerate(smooth) if throughput >= enough)
    return knee if knee < len(smooth) - 1 else None


def _smoothed(throughputs: Sequence[float]) -> list[float]:
    """The median of each value and its neighbours. A curve that only rises or only falls stays as it is.

    The ends have one neighbour. The smallest batch counts for no more than the next one. A jump of the largest batch
    after a doubling without gain is ignored.
    """
    if len(throughputs) < 3:
        return list(throughputs)
    first, *rest = throughputs
    values = [min(first, rest[0]), *rest]
    inner = [median(values[position - 1 : position + 2]) for position in range(1, len(values) - 1)]
    smooth = [values[0], *inner, values[-1]]
    if smooth[-3] >= FLAT * smooth[-2]:
        smooth[-1] = min(smooth[-1], smooth[-2])
    return smooth
