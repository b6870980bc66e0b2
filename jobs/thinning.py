"""Fewer points of a long series that still look like it: extremes are kept, nothing is averaged."""

from collections.abc import Sequence

FEWEST_POINTS = 4  # the first and the newest, and the least and the greatest of one bin


def kept(values: Sequence[float], most: int) -> Sequence[int]:
    """Indices, ascending, of at most `most` of `values`: the first, the newest, and each bin's extremes.

    NaN stands for a value that is not there; a bin of nothing else keeps one. `values` is an `array("d")` for
    speed. `most` is at least `FEWEST_POINTS`.
    """
    if len(values) <= most:
        return range(len(values))
    # numpy costs 20 MB: a process that never serves a long series never pays it.
    import numpy as np
    from tsdownsample import MinMaxDownsampler

    points = np.asarray(values, dtype=np.float64)
    extremes = MinMaxDownsampler().downsample(points, n_out=(most - 2) // 2 * 2)
    indices: list[int] = np.union1d(extremes, [0, len(points) - 1]).astype(int).tolist()
    return indices
