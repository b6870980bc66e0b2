"""Which samples a rank sees, and when."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.trainer.reading import evaluated
from trainer.data.indexed import ArrayReader, IndexedPart
from trainer.data.interfaces import Indices, SampleSchedule, Selection
from trainer.data.shuffling import rank_batches, selected

draws = st.builds(
    SampleSchedule,
    samples=st.integers(1, 100),
    rank=st.just(0),
    ranks=st.integers(1, 4),
    per_rank=st.integers(1, 8),
    steps=st.integers(1, 12),
    seed=st.integers(0, 2**32 - 1),
    sharding=st.sampled_from(["shard", "steps"]),
)
few = settings(max_examples=60)


def step_samples(schedule: SampleSchedule, steps: int, *, epoch: int = 1, first: int = 0) -> list[list[int]]:
    """The samples of each of a rank's next steps."""
    return [batch.tolist() for batch in islice(rank_batches(schedule, epoch=epoch, first=first), steps)]


def of_ranks(schedule: SampleSchedule) -> list[SampleSchedule]:
    return [replace(schedule, rank=rank) for rank in range(schedule.ranks)]


def flat(batches: Sequence[Sequence[int]]) -> list[int]:
    return [sample for batch in batches for sample in batch]


@few
@given(schedule=draws, epoch=st.integers(1, 5))
def test_n_ranks_together_see_what_one_rank_sees(schedule: SampleSchedule, epoch: int) -> None:
    schedule = replace(schedule, sharding="shard")
    alone = replace(schedule, ranks=1, per_rank=schedule.global_batch)
    together = [step_samples(own, 2 * schedule.steps, epoch=epoch) for own in of_ranks(schedule)]
    assert [flat(step) for step in zip(*together, strict=True)] == step_samples(alone, 2 * schedule.steps, epoch=epoch)


@few
@given(schedule=draws, passes=st.integers(1, 3))
def test_a_pass_has_every_sample_once(schedule: SampleSchedule, passes: int) -> None:
    """All ranks together when they share an order, each rank alone when it has its own."""
    step = schedule.global_batch if schedule.sharding == "shard" else schedule.per_rank
    schedule = replace(schedule, steps=-(-schedule.samples * passes // step))
    ranks = [step_samples(own, schedule.steps) for own in of_ranks(schedule)]
    orders = [[flat(batches) for batches in zip(*ranks, strict=True)]] if schedule.sharding == "shard" else ranks
    for order in orders:
        samples = flat(order)
        for start in range(0, schedule.samples * passes, schedule.samples):
            assert sorted(samples[start : start + schedule.samples]) == list(range(schedule.samples))


@few
@given(schedule=draws, epoch=st.integers(1, 3), gone=st.integers(0, 30), ends_epoch=st.booleans())
def test_a_run_continues_from_its_checkpoint_with_full_batches(
    schedule: SampleSchedule, epoch: int, gone: int, ends_epoch: bool
) -> None:
    for own in of_ranks(schedule):
        epochs, first = (0, gone := own.steps) if ends_epoch else divmod(gone, own.steps)
        whole = step_samples(own, gone + 5, epoch=epoch)
        assert {len(batch) for batch in whole} == {own.per_rank}
        assert step_samples(own, 5, epoch=epoch + epochs, first=first) == whole[gone:]


def test_the_order_follows_seed_epoch_pass_and_with_sharding_by_steps_the_rank() -> None:
    whole = SampleSchedule(samples=100, rank=0, ranks=2, per_rank=100, steps=1, seed=1, sharding="steps")
    orders = [
        order
        for schedule in (whole, replace(whole, seed=2), replace(whole, rank=1))
        for epoch in (1, 3)
        for order in step_samples(schedule, 2, epoch=epoch)
    ]
    assert len({tuple(order) for order in orders}) == len(orders) == 12


@few
@given(samples=st.integers(0, 200), share=st.floats(0, 1), seed=st.integers(0, 100))
def test_a_split_loses_no_sample(samples: int, share: float, seed: int) -> None:
    sides = [Selection("train", share, seed), Selection("validation", share, seed)]
    chosen = [selected(samples, side) for side in sides]
    assert [len(indices) for indices in chosen] == [side.size_of(samples) for side in sides]
    assert sorted(np.concatenate(chosen)) == list(range(samples))


def part_of(indices: Indices) -> IndexedPart:
    """A part whose features and labels are the sample numbers."""
    numbers = np.arange(1 + max(indices, default=0), dtype=np.int32)
    return IndexedPart(ArrayReader(numbers[:, np.newaxis].astype(np.float32)), numbers, indices)


@few
@given(
    indices=st.permutations(range(50)), samples=st.integers(0, 50), per_rank=st.integers(1, 8), ranks=st.integers(1, 4)
)
def test_evaluation_counts_each_sample_once_in_equal_steps(
    indices: list[int], samples: int, per_rank: int, ranks: int
) -> None:
    part = part_of(np.array(indices[:samples], np.int64))
    features, labels, steps = evaluated(part, ranks=ranks, per_rank=per_rank)
    assert features.ravel().tolist() == labels.tolist()
    assert sorted(labels) == sorted(indices[:samples])
    assert steps == -(-samples // (per_rank * ranks))


@few
@given(indices=st.permutations(range(150)), bounds=st.tuples(st.integers(0, 150), st.integers(0, 150)))
def test_rows_are_the_samples_between_two_positions(indices: list[int], bounds: tuple[int, int]) -> None:
    start, stop = sorted(bounds)
    part = part_of(np.array(indices))
    assert [label for batch in part.rows(start, stop) for label in batch.labels.tolist()] == indices[start:stop]
    schedule = SampleSchedule(samples=10, rank=0, ranks=1, per_rank=5, steps=2, seed=3)
    trained = islice(part.train(schedule, epoch=1, first=0), 2)  # of the first samples of the part
    assert {label for batch in trained for label in batch.labels.tolist()} == set(indices[:10])
