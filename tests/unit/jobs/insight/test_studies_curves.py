"""The curves of a cell: whether the losses agree with the baseline, and the mean and the range of its repeats."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf, nan
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.insight.studies.figures import Run, Series
from jobs.insight.studies.loss_curves import agreement_of, loss_names, with_loss_agreement
from jobs.insight.studies.mean_curves import mean_curve
from jobs.insight.studies.statistics import difference
from jobs.model.states import Status
from jobs.views.studies import Baseline, CurveAgreement
from tests.unit.jobs.insight.study_runs import cell, run


def curves(*repeats: Sequence[float]) -> list[Series]:
    """The curves of repeats, from epoch 1."""
    return [dict(enumerate(values, 1)) for values in repeats]


def agreement(here: list[Series], there: list[Series]) -> CurveAgreement:
    found = agreement_of(here, there)
    assert found is not None
    return found


def test_the_difference_is_the_mean_distance_of_the_mean_curves() -> None:
    found = agreement(curves([3, 2, 1], [3, 2, 2]), curves([2, 2, 2], [2, 2, 2]))
    assert (found.epochs, found.difference, found.relative) == (3, pytest.approx(0.5), pytest.approx(0.25))


def test_curves_that_cross_differ_although_their_means_are_the_same() -> None:
    falling, rising = [1.0, 0.8, 0.6, 0.4], [0.4, 0.6, 0.8, 1.0]
    here, there = ([[value + noise for value in curve] for noise in (-0.01, 0.0, 0.01)] for curve in (falling, rising))
    found = agreement(curves(*here), curves(*there))
    assert found.agrees is False
    assert found.chance == pytest.approx(2.776 * (2 * 0.01**2 / 3) ** 0.5, rel=0.01)  # t of 4 degrees of freedom


def test_curves_agree_if_the_repeats_show_that_they_are_no_tenth_apart() -> None:
    equal = curves([1.0, 0.5], [1.0, 0.5])
    few = agreement(curves([1.0, 0.5], [1.2, 0.6]), curves([1.1, 0.5], [1.3, 0.7]))
    assert (few.agrees, few.repeats_needed) == (None, 24), "that it may be chance does not show that they agree"
    far = agreement(curves([0.2, 0.1], [3.8, 1.9]), equal)  # twice the loss, with two repeats
    assert (far.relative, far.agrees) == (pytest.approx(1.0), None)
    steady = agreement(curves([1.05, 0.5], [0.97, 0.5], [1.0, 0.5]), curves(*[[1.01, 0.5]] * 3))
    assert (steady.agrees, steady.repeats_needed) == (True, None)
    close = agreement(curves([1.004, 0.5], [1.004, 0.5]), equal)
    assert (close.chance, close.agrees) == (0.0, True)
    assert agreement(curves([1.1, 0.5], [1.1, 0.5]), equal).agrees is False
    single = agreement(curves([2.0]), curves([1.0], [1.1]))
    assert (single.epochs, single.chance, single.agrees) == (1, None, None), "it decides nothing"


def test_only_epochs_that_all_repeats_have_are_compared() -> None:
    found = agreement(curves([1, 1, 9, 9], [1, 1]), curves([1, 1, 5], [1, 1, 5]))
    assert (found.epochs, found.difference) == (2, 0)
    assert agreement_of([{1: 1.0}], [{2: 1.0}]) is None
    assert agreement_of([], curves([1.0])) is None


@pytest.mark.parametrize("odd", [nan, inf, -inf, 1e200])
def test_a_run_that_diverged_agrees_with_none_that_did_not(odd: float) -> None:
    good, diverged = curves([1, 0.5], [1, 0.5]), curves([1, 0.5], [1, 0.5, odd])
    one_side = CurveAgreement(epochs=2, difference=None, relative=None, chance=None, agrees=False)

    assert agreement_of(diverged, good) == one_side
    assert agreement_of(good, diverged) == one_side
    assert agreement_of(diverged, diverged) == one_side.model_copy(update={"agrees": None})


losses = st.floats(-1e6, 1e6).map(lambda value: round(value, 3))


@given(st.lists(losses, min_size=2, max_size=6), st.lists(losses, min_size=2, max_size=6))
def test_with_one_epoch_it_is_welchs_test(here: list[float], there: list[float]) -> None:
    found = agreement([{1: value} for value in here], [{1: value} for value in there])
    ends = difference(here, there)
    assert ends is not None
    assert found.chance == pytest.approx((ends[1] - ends[0]) / 2, rel=1e-6, abs=1e-6)


def test_cells_that_differ_by_chance_alone_seldom_disagree() -> None:
    """Their noise keeps its side for a few epochs, as that of learning curves does."""
    random, wrong, tries = Random(1), 0, 400  # noqa: S311 - noise

    def noisy() -> list[float]:
        noise, values = random.gauss(0, 1), []
        for epoch in range(10):
            noise = 0.8 * noise + 0.6 * random.gauss(0, 1)
            values.append(2 / (epoch + 1) + 0.1 * noise)
        return values

    for _ in range(tries):
        found = agreement(curves(*(noisy() for _ in range(3))), curves(*(noisy() for _ in range(3))))
        wrong += found.agrees is False
    assert wrong <= 0.05 * tries


def test_losses_are_known_by_their_names() -> None:
    assert loss_names(["val_accuracy", "train/loss", "lossy", "aux_loss", "b_loss", "val_loss"]) == [
        "loss", "val_loss", "aux_loss", "b_loss",
    ]  # fmt: skip
    assert loss_names([]) == ["loss", "val_loss"]


def test_cells_are_compared_with_the_same_cell_on_the_baselines_gpus() -> None:
    def runs(gpus: int, last: float) -> list[Run]:
        good = [replace(run(gpus=gpus), series={"loss": {1: 1.0, 2: last + noise}}) for noise in (0, 0.001)]
        return [*good, replace(run(gpus=gpus, status=Status.FAILED), series={"loss": {1: 99.0}})]

    groups = [runs(1, 0.5), runs(1, 0.1), runs(2, 0.5), runs(2, 0.5)]
    cells = [cell(group, batch_size=batch) for group, batch in zip(groups, (32, 64, 32, 64), strict=True)]

    compared = with_loss_agreement(cells, groups, Baseline(gpus=1))
    assert [each.loss_agreement for each in compared[:2]] == [{}, {}]
    assert [each.loss_agreement["loss"].agrees for each in compared[2:]] == [True, False]
    assert with_loss_agreement(cells, groups, None) == cells


def test_a_curve_has_the_mean_and_the_range_over_the_epochs_of_all_repeats() -> None:
    curve = mean_curve([{1: 1.0, 2: 0.5, 3: 0.2}, {1: 2.0, 2: 1.5}, {1: 3.0, 2: 0.1, 3: 9.0}], most=10)

    assert curve is not None
    assert (curve.repeats, curve.epoch) == (3, [1, 2])
    assert (curve.mean, curve.low, curve.high) == ([2, 0.7], [1, 0.1], [3, 1.5])
    assert mean_curve([], most=10) is mean_curve([{1: 1.0}, {2: 1.0}], most=10) is None


@pytest.mark.parametrize("odd", [nan, inf, -1e308])
def test_values_that_are_no_number_are_gaps(odd: float) -> None:
    curve = mean_curve([{1: 1.0, 2: odd, 3: 3.0}, {1: 1.0, 2: 2.0, 3: 3.0}], most=10)
    assert curve is not None
    assert curve.mean == curve.low == curve.high == [1, None, 3]


def test_many_epochs_are_joined_and_no_extreme_is_lost() -> None:
    values = {epoch: 100.0 if epoch == 501 else float(epoch % 2) for epoch in range(1, 1001)}
    curve = mean_curve([values], most=10)

    assert curve is not None
    assert (len(curve.epoch), curve.epoch[0], curve.epoch[-1]) == (10, 51, 951)
    assert curve.high == [1, 1, 1, 1, 1, 100, 1, 1, 1, 1]
    assert curve.low == [0] * 10
    assert curve.mean[0] == 0.5


values = st.floats(allow_nan=True, width=32)
series = st.dictionaries(st.integers(1, 30), values, min_size=1, max_size=30)


@given(st.lists(series, min_size=1, max_size=4), st.integers(1, 8))
def test_the_mean_lies_in_the_range(repeats: list[dict[int, float]], most: int) -> None:
    curve = mean_curve(repeats, most=most)
    if curve is None:
        return
    assert len(curve.epoch) <= most
    assert curve.epoch == sorted(set(curve.epoch))
    for mean, low, high in zip(curve.mean, curve.low, curve.high, strict=True):
        assert (mean is None) == (low is None) == (high is None)
        if mean is not None and low is not None and high is not None:
            slack = 1e-4 * max(abs(low), abs(high))
            assert low - slack <= mean <= high + slack
