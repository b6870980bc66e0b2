"""Which ranks have equal weights, by what their scripts tell."""

import math
from typing import Any

import pytest

from tests.unit.trainer.test_script_agreement import Texts
from trainer.script.weights import WeightComparison, difference


def weights(step: int, total: float, *, optimizer: int = 1, size: int = 4, averages: bool = True) -> dict[str, Any]:
    return {
        "kind": "weights", "at": 1.0, "optimizer": optimizer, "step": step, "size": size, "averages": averages,
        "total": total, "norm": 10.0,
    }  # fmt: skip


def ranks(size: int) -> list[WeightComparison]:
    store = Texts()
    return [WeightComparison(store, rank=rank, size=size) for rank in range(size)]


def test_the_later_rank_sees_a_difference_at_once_and_the_last_step_of_both_decides() -> None:
    first, second = ranks(2)
    assert first.take(weights(3, 5.0)) is None
    assert second.take(weights(3, 5.5)) == (
        "After step 3 the weights of rank 1 differ from those of rank 0 (by 5 %): "
        "gradients were averaged, so the ranks began with different weights, or leave some gradients out."
    )
    assert second.take(weights(6, 5.0)) is None
    assert "After step 3" in str(second.at_the_end())  # rank 0 has not told of step 6
    assert first.take(weights(6, 5.0 + 1e-5)) is None
    assert [first.at_the_end(), second.at_the_end()] == [None, None]


def test_every_rank_and_optimizer_counts() -> None:
    first, second, third = ranks(3)
    for each in (first, second):
        assert each.take(weights(3, 5.0)) is each.take(weights(3, 5.0, optimizer=2)) is None
    assert third.take(weights(3, 5.0, averages=False)) is None
    differs = "After step 3 the weights of rank 2 differ from those of rank 0 (one has NaN): "
    alone = "no gradient was averaged, so each rank trains a model of its own."
    assert third.take(weights(3, math.nan, optimizer=2, averages=False)) == differs + alone
    assert str(first.at_the_end()).startswith(differs)
    assert second.at_the_end() is None


@pytest.mark.parametrize(
    ("averages", "sizes", "is_same"),
    [(False, (4, 4), True), (True, (4, 4), False), (False, (4,), False), (False, (4, 5), False)],
)
def test_ranks_that_are_equal_without_an_average_do_the_same_work(
    averages: bool, sizes: tuple[int, ...], is_same: bool
) -> None:
    """Not so where rank 0 alone trains, or the others another model."""
    both = ranks(2)
    for rank, size in enumerate(sizes):
        both[rank].take(weights(3, 5.0, size=size, averages=averages))
    assert both[0].at_the_end() is None
    assert both[0].does_same_work is is_same
    other = "The model of rank 1 has 5 weights, and that of rank 0 has 4."
    assert both[1].at_the_end() is None
    assert [each.uncompared for each in both] == [other if sizes == (4, 5) else None] * 2


@pytest.mark.parametrize(
    ("own", "other", "share"),
    [
        ([4, 5.0, 10.0], [4, 5.0, 10.0], 0.0),
        ([4, 5.0, 10.0], [4, 6.0, 9.0], 0.1),
        ([4, 5.0, 10.0], [5, 6.0, 9.0], None),  # another model
        ([4, math.nan, math.nan], [4, math.nan, math.nan], 0.0),
        ([4, math.inf, math.inf], [4, math.inf, math.inf], 0.0),
        ([4, 0.0, 0.0], [4, 0.0, 0.0], 0.0),
        ([4, 1.0, 0.0], [4, 2.0, 0.0], math.inf),
    ],
)
def test_a_difference_is_a_share_of_the_norm(own: list[float], other: list[float], share: float | None) -> None:
    assert difference(own, other) == share


def test_one_nan_is_a_difference() -> None:
    assert math.isnan(difference([4, math.nan, math.nan], [4, 5.0, 10.0]) or 0.0)
