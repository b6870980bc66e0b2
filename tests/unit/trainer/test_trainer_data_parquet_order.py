"""The order of row groups, and the rows that a split or a rank takes from each."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.data.interfaces import Indices, SampleSchedule
from trainer.data.parquet.shuffling import Piece, Spread, Stretch, mixes, pass_of

groups_of = st.lists(st.integers(1, 60), min_size=1, max_size=12)


def rows_of(stretch: Stretch, start: int, stop: int) -> list[int]:
    """The numbers, in the collection, of the rows start..stop."""
    bases = np.cumsum(stretch.spread.rows) - stretch.spread.rows
    pieces = stretch.pieces(start, stop)
    return [int(row) for piece in pieces for row in bases[piece.group] + np.flatnonzero(stretch.mask(piece))]


@given(groups=st.lists(st.integers(20, 60), min_size=1, max_size=12), share=st.floats(0.1, 0.9))
@settings(max_examples=40)
def test_a_stretch_takes_its_share_of_every_row_group(groups: list[int], share: float) -> None:
    spread = Spread(np.array(groups), 1)
    taken = spread.counts(round(share * len(spread)))
    assert np.abs(taken - share * spread.rows).max() <= 2
    few = np.flatnonzero(Spread(np.ones(1000, np.int64), 1).counts(10))  # from all over the data
    assert len(few) == 10
    assert np.diff([0, *few, 1000]).max() < 200


@given(groups=groups_of, ranks=st.integers(1, 7), seed=st.integers(0, 9), share=st.floats(0.3, 1))
@settings(max_examples=40)
def test_a_pass_gives_each_row_to_one_rank(groups: list[int], ranks: int, seed: int, share: float) -> None:
    spread = Spread(np.array(groups), 0)
    stretch = Stretch(spread, 0, round(share * len(spread)))
    bases = np.cumsum(spread.rows) - spread.rows
    row_counts: Counter[int] = Counter()
    sizes = []
    for rank in range(ranks):
        schedule = SampleSchedule(len(stretch), rank, ranks, per_rank=1, steps=1, seed=seed)
        rank_pass = pass_of(stretch, schedule, epoch=3, number=1)
        rows = [bases[piece.group] + np.flatnonzero(rank_pass.mask(piece)) for piece in rank_pass.pieces()]
        row_counts.update(int(row) for of_piece in rows for row in of_piece)
        sizes.append(sum(map(len, rows)))
    assert row_counts == Counter(rows_of(stretch, 0, len(stretch)))
    assert max(sizes) - min(sizes) <= 1


def order_of(schedule: SampleSchedule, *, epoch: int, number: int, groups: Indices) -> list[Piece]:
    spread = Spread(groups, 0)
    return pass_of(Stretch(spread, 0, len(spread)), schedule, epoch=epoch, number=number).pieces()


def test_order_of_row_groups_depends_on_seed_epoch_pass_and_rank() -> None:
    """The rank matters only with `sharding: steps`."""
    groups = np.full(20, 10)
    alone = SampleSchedule(200, 0, 1, 1, 1, seed=1)
    orders = [
        order_of(SampleSchedule(200, 0, 1, 1, 1, seed=seed), epoch=epoch, number=number, groups=groups)
        for seed in (1, 2)
        for epoch in (1, 2)
        for number in (0, 1)
    ]
    orders += [
        order_of(SampleSchedule(200, rank, 2, 1, 1, seed=1, sharding="steps"), epoch=1, number=0, groups=groups)
        for rank in (0, 1)
    ]
    assert all(sum(piece.rows for piece in order) == 200 for order in orders)
    assert len({tuple(piece.group for piece in order) for order in orders}) == len(orders)
    assert order_of(alone, epoch=1, number=0, groups=groups) == orders[0]


def pieces(rows: list[int]) -> list[Piece]:
    return [Piece(group, 0, size, size) for group, size in enumerate(rows)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([3] * 40, [(40, 1)]),  # tiny row groups: all of them, until there are enough rows
        ([100] * 40, [(16, 1), (16, 1), (8, 1)]),  # 16 of them
        ([1000] * 20, [(8, 4), (8, 4), (4, 2)]),  # 8 large ones, in windows of 2000 rows
        ([9000], [(1, 5)]),
        ([], []),
    ],
)
def test_row_groups_are_mixed_until_rows_or_memory_are_enough(rows: list[int], expected: list[tuple[int, int]]) -> None:
    mixed = list(mixes(pieces(rows), rows, groups=16, open_groups=8, rows=500, window_bytes=2000))
    assert [(len(mix.pieces), mix.windows) for mix in mixed] == expected
    assert [piece for mix in mixed for piece in mix.pieces] == pieces(rows)
