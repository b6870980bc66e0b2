"""Fewer points of a long series that still look like it: extremes are kept, nothing is averaged.

In plain Python on purpose: a point costs some 50 ns, and the api process is spared numpy's 12 MB.
"""

import math
from collections.abc import Iterator, Sequence

FEWEST_POINTS = 4  # the first and the newest, and the least and the greatest of one bin


def kept(values: Sequence[float | None], most: int) -> Sequence[int]:
    """Indices, ascending, of at most `most` of `values`: the first, the newest, and each bin's least and greatest.

    None and NaN are values that are not there; a bin of nothing else keeps one. `most` is at least `FEWEST_POINTS`.
    """
    count, bins = len(values), (most - 2) // 2
    if count <= most:
        return range(count)
    numbers = [math.nan if value is None else value for value in values] if None in values else values
    indices = {0, count - 1}
    for number in range(bins):
        start, end = number * count // bins, (number + 1) * count // bins
        indices.update(start + index for index in _extremes(numbers[start:end]))  # type: ignore[arg-type]
    return sorted(indices)


def _extremes(part: Sequence[float]) -> Iterator[int]:
    present = part
    if math.isnan(sum(part)):  # min and max are not to be trusted where one is NaN
        present = [value for value in part if not math.isnan(value)]
    if not present:
        yield 0
        return
    yield part.index(min(present))
    yield part.index(max(present))
