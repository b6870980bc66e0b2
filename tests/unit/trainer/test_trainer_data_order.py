"""Which samples a rank sees, and when."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from trainer.data.indexed import ArrayReader, IndexedPart
from trainer.data.interfaces import Indices, SampleSchedule, Selection
from trainer.data.shuffling import global_batches, rank_batches, selected

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
@given(schedule=draws)
def test_every_step_of_every_rank_has_a_full_batch(schedule: SampleSchedule) -> None:
    sizes = {len(batch) for own in of_ranks(schedule) for batch in step_samples(own, 3 * schedule.steps)}
    assert sizes == {schedule.per_rank}


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
@given(schedule=draws, epoch=st.integers(1, 3), gone=st.integers(0, 30))
def test_a_run_continues_from_its_checkpoint(schedule: SampleSchedule, epoch: int, gone: int) -> None:
    epochs, first = divmod(gone, schedule.steps)
    whole = step_samples(schedule, gone + 5, epoch=epoch)
    assert step_samples(schedule, 5, epoch=epoch + epochs, first=first) == whole[gone:]


def test_run_that_stopped_at_the_end_of_an_epoch_continues_with_the_next() -> None:
    schedule = SampleSchedule(samples=10, rank=0, ranks=1, per_rank=2, steps=4, seed=1)
    assert step_samples(schedule, 3, epoch=1, first=4) == step_samples(schedule, 3, epoch=2)


@few
@given(schedule=draws)
def test_sharding_by_steps_gives_each_rank_its_own_order(schedule: SampleSchedule) -> None:
    assume(schedule.ranks > 1 and schedule.samples > 30)
    schedule = replace(schedule, sharding="steps", steps=-(-schedule.samples // schedule.per_rank))
    orders = [flat(step_samples(own, schedule.steps))[: schedule.samples] for own in of_ranks(schedule)]
    assert len({tuple(order) for order in orders}) == schedule.ranks
    assert all(sorted(order) == list(range(schedule.samples)) for order in orders)


def test_passes_follow_each_other_without_a_gap_each_in_its_own_order() -> None:
    order = np.concatenate(list(islice(global_batches(10, global_batch=4, seed=1, epoch=1), 5)))
    assert sorted(order[:10]) == sorted(order[10:]) == list(range(10))
    assert order[:10].tolist() != order[10:].tolist()


def test_the_order_follows_seed_and_epoch() -> None:
    orders = {
        (seed, epoch): next(global_batches(100, global_batch=100, seed=seed, epoch=epoch)).tolist()
        for seed in (1, 2)
        for epoch in (1, 2)
    }
    assert len({tuple(order) for order in orders.values()}) == 4


@few
@given(samples=st.integers(0, 200), share=st.floats(0, 1), seed=st.integers(0, 100))
def test_a_split_loses_no_sample(samples: int, share: float, seed: int) -> None:
    sides = [Selection("train", share, seed), Selection("validation", share, seed)]
    chosen = [selected(samples, side) for side in sides]
    assert [len(indices) for indices in chosen] == [side.size_of(samples) for side in sides]
    assert sorted(np.concatenate(chosen)) == list(range(samples))


@pytest.mark.parametrize(("share", "sizes"), [(0.1, [9, 1]), (0.04, [10, 0]), (0.96, [0, 10])])
def test_share_of_a_split_may_round_to_zero(share: float, sizes: list[int]) -> None:
    assert [len(selected(10, Selection(side, share, 1))) for side in ("train", "validation")] == sizes


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
    counted_labels: list[int] = []
    steps = set()
    for rank in range(ranks):
        batches = list(part.evaluate(rank=rank, ranks=ranks, per_rank=per_rank))
        steps.add(len(batches))
        for features, labels, weights in batches:
            assert len(features) == len(labels) == len(weights) == per_rank
            assert (features[:, 0] == labels).all()
            counted_labels += labels[weights > 0].tolist()
    assert sorted(counted_labels) == sorted(indices[:samples])
    assert steps == {-(-samples // (per_rank * ranks))}


@few
@given(indices=st.permutations(range(150)), bounds=st.tuples(st.integers(0, 150), st.integers(0, 150)))
def test_rows_are_the_samples_between_two_positions(indices: list[int], bounds: tuple[int, int]) -> None:
    start, stop = sorted(bounds)
    labels = [label for batch in part_of(np.array(indices)).rows(start, stop) for label in batch.labels.tolist()]
    assert labels == indices[start:stop]


def test_training_draws_from_the_first_samples_of_a_part() -> None:
    schedule = SampleSchedule(samples=10, rank=0, ranks=1, per_rank=5, steps=2, seed=3)
    part = part_of(np.arange(40)[::-1].copy())
    labels = {label for batch in islice(part.train(schedule, epoch=1, first=0), 2) for label in batch.labels.tolist()}
    assert labels == set(range(30, 40))
