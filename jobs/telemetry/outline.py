"""Chooses the points of an old series that stay in the database. Called by `jobs.telemetry.thinning`.

Extremes stay, and nothing is averaged. `jobs.telemetry.downsampling` chooses the points that are shown.
"""

import math
from collections.abc import Iterator, Sequence


def _extremes(part: Sequence[float]) -> Iterator[int]:
    numbers = part
    if math.isnan(sum(part)):  # min and max are wrong if a value is NaN
        numbers = [value for value in part if not math.isnan(value)]
    if not numbers:
        yield 0
        return
    yield part.index(min(numbers))
    yield part.index(max(numbers))


def max_outline_points(columns: int, bins: int) -> int:
    """How many points `outline_indices` chooses at most."""
    return bins * (2 + 2 * columns)


def bin_start(number: int, *, span: int, bins: int) -> int:
    """The first offset of a bin. `bins` bins share the offsets from 0 to `span` equally."""
    return -(-number * (span + 1) // bins)


def bin_of(offset: int, *, span: int, bins: int) -> int:
    """The number of the bin that an offset from 0 to `span` lies in."""
    return offset * bins // (span + 1)


def outline_indices(
    offsets: Sequence[int], columns: Sequence[Sequence[float | None]], *, span: int, bins: int
) -> Sequence[int]:
    """Ascending indices of each bin's first and newest point, and of the least and greatest of each column.

    `offsets` ascend. The bins divide the offsets from 0 to `span`, not the points. So the outline of an outline is that
    outline, and whole bins can be thinned one by one.
    """
    indices: set[int] = set()
    numbers = [[math.nan if value is None else value for value in column] for column in columns]
    for start, end in _stretches([bin_of(offset, span=span, bins=bins) for offset in offsets]):
        indices.update((start, end - 1))
        for column in numbers:
            part = column[start:end]
            if not all(map(math.isnan, part)):
                indices.update(start + index for index in _extremes(part))
    return sorted(indices)


def _stretches(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Start and end of each run of equal numbers."""
    start = 0
    for at in range(1, len(numbers) + 1):
        if at == len(numbers) or numbers[at] != numbers[start]:
            yield start, at
            start = at
