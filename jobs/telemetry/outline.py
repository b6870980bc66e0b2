"""Which points of a long series stay for good: extremes do, nothing is averaged. Called by `jobs.telemetry.thinning`.

What is read and shown is chosen by `jobs.telemetry.downsampling`.
"""

import math
from collections.abc import Iterator, Sequence


def _extremes(part: Sequence[float]) -> Iterator[int]:
    present = part
    if math.isnan(sum(part)):  # min and max are not to be trusted where one is NaN
        present = [value for value in part if not math.isnan(value)]
    if not present:
        yield 0
        return
    yield part.index(min(present))
    yield part.index(max(present))


def most_of_outline(columns: int, bins: int) -> int:
    """How many points `outline` leaves at most."""
    return bins * (2 + 2 * columns)


def bin_start(number: int, *, span: int, bins: int) -> int:
    """The first offset of a bin, of `bins` that share the offsets from 0 to `span` equally."""
    return -(-number * (span + 1) // bins)


def bin_of(offset: int, *, span: int, bins: int) -> int:
    """The number of the bin that an offset from 0 to `span` lies in."""
    return offset * bins // (span + 1)


def outline(
    offsets: Sequence[int], columns: Sequence[Sequence[float | None]], *, span: int, bins: int
) -> Sequence[int]:
    """Indices, ascending, of each bin's first and newest point, and of the least and greatest of each column.

    `offsets` ascend. The bins share the offsets from 0 to `span`, not the points that are there: so the outline of an
    outline is that outline itself, and whole bins can be looked at by themselves.
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
    """Start and end of each stretch of equal numbers."""
    start = 0
    for at in range(1, len(numbers) + 1):
        if at == len(numbers) or numbers[at] != numbers[start]:
            yield start, at
            start = at
