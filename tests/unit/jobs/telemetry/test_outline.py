"""The outline of a series: bounded, ascending, and with every extreme."""

from itertools import accumulate, pairwise
from math import isnan, nan

from hypothesis import given
from hypothesis import strategies as st

from jobs.telemetry.outline import bin_of, bin_start, max_outline_points, outline_indices

steps = st.lists(st.integers(1, 5), min_size=1, max_size=200).map(lambda gaps: [0, *accumulate(gaps)])


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[int], list[list[float | None]]]:
    offsets = draw(steps)
    column = st.lists(
        st.integers(-5, 5).map(float) | st.just(nan) | st.none(), min_size=len(offsets), max_size=len(offsets)
    )
    return offsets, draw(st.lists(column, min_size=1, max_size=3))


@given(rows(), st.integers(1, 30))
def test_outline_keeps_the_ends_and_extremes_of_every_bin_and_the_outline_of_an_outline_is_itself(
    series: tuple[list[int], list[list[float | None]]], bins: int
) -> None:
    offsets, columns = series
    span = offsets[-1]
    indices = outline_indices(offsets, columns, span=span, bins=bins)

    assert list(indices) == sorted(set(indices))
    assert len(indices) <= max_outline_points(len(columns), bins)
    for number in range(bins):
        inside = [i for i, offset in enumerate(offsets) if bin_of(offset, span=span, bins=bins) == number]
        assert not inside or {inside[0], inside[-1]} <= set(indices)
        for column in columns:
            was, still = ([v for i in some if (v := column[i]) is not None and not isnan(v)] for some in
                          (inside, sorted(set(inside) & set(indices))))  # fmt: skip
            assert (min(was, default=None), max(was, default=None)) == (
                min(still, default=None),
                max(still, default=None),
            )
    shorter = [[column[i] for i in indices] for column in columns]
    again = outline_indices([offsets[i] for i in indices], shorter, span=span, bins=bins)
    assert list(again) == list(range(len(indices)))


@given(st.integers(0, 10_000), st.integers(1, 200))
def test_bins_cover_all_offsets_without_overlap(span: int, bins: int) -> None:
    starts = [bin_start(number, span=span, bins=bins) for number in range(bins + 1)]

    assert (starts[0], starts[-1]) == (0, span + 1)
    for number, (start, end) in enumerate(pairwise(starts)):
        if start < end:
            assert {bin_of(start, span=span, bins=bins), bin_of(end - 1, span=span, bins=bins)} == {number}
