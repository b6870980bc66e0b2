"""Samples streamed from Parquet files: which rows a rank gets, in which order, through windows of bounded memory."""

import os
import resource
from contextlib import closing
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.tables import numbered, part, write
from tests.unit.trainer.reading import evaluated
from trainer.data.interfaces import Indices, SampleSchedule, Selection
from trainer.data.parquet import part as parquet_part
from trainer.data.parquet import windows
from trainer.data.parquet.part import ParquetPart
from trainer.data.parquet.shuffling import Piece, Spread, Stretch, mixes, pass_of
from trainer.errors import BadData

UNEVEN = (17, 1000, 3, 2500)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data root with numbered rows, in a file of uneven row groups and in two files."""
    root = tmp_path_factory.mktemp("data")
    table = numbered(sum(UNEVEN))
    write(root / "uneven.parquet", table, UNEVEN)
    write(root / "two" / "a.parquet", table.slice(0, 1017), UNEVEN[:2])
    write(root / "two" / "b.parquet", table.slice(1017), UNEVEN[2:])
    write(root / "sorted.parquet", numbered(4000), [4000])
    return root


def schedule(
    samples: int, *, rank: int = 0, ranks: int = 1, per_rank: int = 4, steps: int = 0, **more: object
) -> SampleSchedule:
    """A schedule, by default of one pass in an epoch."""
    steps = steps or samples // (per_rank * ranks)
    return SampleSchedule(samples, rank, ranks, per_rank, steps, **({"seed": 7} | more))  # type: ignore[arg-type]


def ids(
    part: ParquetPart, schedule: SampleSchedule, *, epoch: int = 1, first: int = 0, steps: int | None = None
) -> NDArray[np.int64]:
    """(step, sample): the numbers of the rows in the next steps, by default to the end of the epoch."""
    with closing(part.train(schedule, epoch=epoch, first=first)) as batches:
        taken = list(islice(batches, schedule.steps - first if steps is None else steps))
    return np.array([batch.features[:, 0] for batch in taken], np.int64).reshape(-1, schedule.per_rank)


@pytest.mark.parametrize(
    ("source", "ranks", "window_rows"),
    [
        ("uneven.parquet", 1, 100_000),
        ("uneven.parquet", 3, 100_000),
        ("uneven.parquet", 7, 600),  # most row groups come in slices
        ("two", 2, 600),
        ("two", 7, 100_000),
        ("sorted.parquet", 5, 100_000),  # fewer row groups than ranks
    ],
)
def test_every_row_is_seen_once_an_epoch_with_its_label(
    root: Path, source: str, ranks: int, window_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "WINDOW_BYTES", window_rows * 8)
    opened = part(source, root)
    rows, taken = len(opened), []
    for rank in range(ranks):
        mine = schedule(rows, rank=rank, ranks=ranks)
        with closing(opened.train(mine, epoch=1, first=0)) as batches:
            taken += list(islice(batches, mine.steps))
    seen, labels = (np.concatenate(values) for values in zip(*taken, strict=True))
    assert len(np.unique(seen[:, 0])) == len(seen) == rows // (4 * ranks) * 4 * ranks
    assert (seen[:, 0].astype(int) * 4 // rows == labels).all()
    assert (seen[:, 1] == labels).all()


def test_a_rank_sees_other_rows_of_a_row_group_in_every_epoch_or_draws_for_itself(root: Path) -> None:
    opened = part("sorted.parquet", root)
    epochs = [ids(opened, schedule(4000, ranks=2), epoch=epoch) for epoch in (1, 2)]
    own = [ids(opened, schedule(4000, rank=rank, ranks=2, per_rank=20, sharding="steps")) for rank in (0, 1)]
    for pair in (epochs, own):
        assert all(len(np.unique(seen)) == 2000 for seen in pair)
        assert 800 < len(np.intersect1d(*pair)) < 1200


def test_many_files_are_read_with_few_open_at_a_time(tmp_path: Path) -> None:
    for number in range(100):
        write(tmp_path / "set" / f"{number}.parquet", numbered(3, first=3 * number, classes=3), [3])
    opened = part("set", tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 40, limits[1]))
    try:
        assert sorted(ids(opened, schedule(300)).ravel()) == list(range(300))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@given(
    groups=st.lists(st.integers(1, 60), min_size=1, max_size=20),
    ranks=st.integers(1, 4),
    per_rank=st.integers(1, 5),
    steps=st.integers(1, 30),
    first=st.integers(0, 30),
    epoch=st.integers(1, 3),
    more=st.fixed_dictionaries(
        {"sharding": st.sampled_from(["shard", "steps"]), "shuffle_buffer": st.sampled_from([1, 50])}
    ),
    window_rows=st.sampled_from([15, 100_000]),
)
@settings(max_examples=15)
def test_epoch_continues_where_it_was_left(
    tmp_path_factory: pytest.TempPathFactory,
    groups: list[int],
    ranks: int,
    per_rank: int,
    steps: int,
    first: int,
    epoch: int,
    more: dict[str, object],
    window_rows: int,
) -> None:
    root = tmp_path_factory.mktemp("resume")
    samples = max(sum(groups), 8)
    write(root / "a.parquet", numbered(samples), groups)
    first = min(first, steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "WINDOW_BYTES", window_rows * 8)
        opened = part("a.parquet", root)
        for rank in range(ranks):
            mine = schedule(samples, rank=rank, ranks=ranks, per_rank=per_rank, steps=steps, **more)
            whole = ids(opened, mine, epoch=epoch, steps=steps + 3)
            rest = ids(opened, mine, epoch=epoch, first=first, steps=steps + 3 - first)
            assert (whole[first:] == rest).all()
            assert (whole[steps:] == ids(opened, mine, epoch=epoch + 1, steps=3)).all()


def test_passes_follow_each_other_in_a_long_epoch(root: Path) -> None:
    seen = ids(part("uneven.parquet", root), schedule(3520, per_rank=32, steps=220)).ravel()
    assert sorted(seen[:3520]) == sorted(seen[3520:]) == list(range(3520))
    assert (seen[:3520] != seen[3520:]).any()


def test_split_has_exact_sizes_even_classes_and_no_overlap(root: Path) -> None:
    share = 0.37
    rows_by_side: list[set[int]] = []
    for side in ("train", "validation"):
        opened = part("sorted.parquet", root, Selection(side, share, 5))  # type: ignore[arg-type]
        rows = evaluated(opened, ranks=1, per_rank=64)[0][:, 0].astype(int).tolist()
        assert len(rows) == len(opened) == Selection(side, share).size_of(4000)  # type: ignore[arg-type]
        times = np.bincount(np.array(rows) // 1000, minlength=4)  # by class
        assert times.min() > 0.8 * times.max()
        rows_by_side.append(set(rows))
    assert not rows_by_side[0] & rows_by_side[1]
    assert len(rows_by_side[0] | rows_by_side[1]) == 4000


@pytest.mark.parametrize(("ranks", "per_rank"), [(1, 7), (3, 64), (7, 1000)])
@pytest.mark.parametrize("kept_bytes", [0, 10**6])
def test_an_evaluation_counts_every_row_once_in_equal_steps(
    root: Path, ranks: int, per_rank: int, kept_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_part, "KEPT_BYTES", kept_bytes)
    opened = part("uneven.parquet", root, Selection("validation", 0.3, 1))
    for _ in range(2):  # the second time from memory, if it was kept
        counted, _, steps = evaluated(opened, ranks=ranks, per_rank=per_rank)
        assert len(counted) == len(np.unique(counted[:, 0])) == len(opened)
        assert steps == -(-len(opened) // (ranks * per_rank))


@pytest.mark.parametrize("samples", [None, 1000])
def test_ranks_that_share_the_rows_in_any_way_have_them_in_one_sequence(root: Path, samples: int | None) -> None:
    opened = part("uneven.parquet", root, Selection("train", 0.1, 3))
    whole = len(opened) if samples is None else samples

    def shared_by(ranks: int) -> list[int]:
        cuts = [whole * rank // ranks for rank in range(ranks + 1)]
        shares = (opened.rows(start, stop, of=samples) for start, stop in pairwise(cuts))
        return [int(row) for share in shares for batch in share for row in batch.features[:, 0]]

    rows = shared_by(1)
    assert len(set(rows)) == whole
    assert [shared_by(ranks) for ranks in (2, 3, 7)] == [rows] * 3
    trained = ids(opened, schedule(whole, per_rank=1)).ravel().tolist()
    assert sorted(trained) == sorted(rows)


def test_rows_that_are_evaluated_again_are_not_read_again(root: Path) -> None:
    path = write(root / "passing.parquet", numbered(100), [100])
    opened = part("passing.parquet", root)
    first, _, _ = evaluated(opened, ranks=1, per_rank=10)
    path.unlink()
    assert (evaluated(opened, ranks=1, per_rank=10)[0] == first).all()


@pytest.mark.parametrize("samples", [3200, 400])  # most rows of each row group, and few
def test_values_of_rows_that_are_not_used_do_not_matter(tmp_path: Path, samples: int) -> None:
    table = numbered(4000)
    opened = part("t.parquet", write(tmp_path / "t.parquet", table, [4000]).parent)
    used = ids(opened, schedule(samples))
    values = np.full(4000, np.nan, np.float32)
    values[used.ravel()] = 0
    write(tmp_path / "t.parquet", table.set_column(1, "x", pa.array(values)), [4000])
    assert (ids(opened, schedule(samples)) == used).all()
    values[used[0, 0]] = np.inf
    write(tmp_path / "t.parquet", table.set_column(1, "x", pa.array(values)), [4000])
    with pytest.raises(BadData, match="'x' has values that are NaN"):
        ids(opened, schedule(samples))


@pytest.mark.parametrize(
    ("groups", "window_rows"),
    [
        ([4000], 100_000),  # a single row group
        ([1000] * 16, 600),  # large ones, which come in slices
    ],
)
def test_rows_that_are_sorted_by_label_come_out_mixed(
    tmp_path: Path, groups: list[int], window_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "WINDOW_BYTES", window_rows * 8)
    rows = sum(groups)
    write(tmp_path / "t.parquet", numbered(rows), groups)
    opened = part("t.parquet", tmp_path, shuffle_buffer=1)
    with closing(opened.train(schedule(rows, per_rank=40), epoch=1, first=0)) as batches:
        counts = np.array([np.bincount(batch.labels, minlength=4) for batch in islice(batches, rows // 40)])
    assert len(groups) > 1 or counts.min() >= 1  # of 40 samples, with 10 of each class to be expected
    assert (counts.std(0) < 4.5).all()  # of independent draws: 2.7


@given(groups=st.lists(st.integers(20, 60), min_size=1, max_size=12), share=st.floats(0.1, 0.9))
@settings(max_examples=40)
def test_a_stretch_takes_its_share_of_every_row_group(groups: list[int], share: float) -> None:
    spread = Spread(np.array(groups), 1)
    taken = spread.counts(round(share * len(spread)))
    assert np.abs(taken - share * spread.rows).max() <= 2
    few = np.flatnonzero(Spread(np.ones(1000, np.int64), 1).counts(10))  # from all over the data
    assert len(few) == 10
    assert np.diff([0, *few, 1000]).max() < 200


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
