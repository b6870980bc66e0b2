"""The figures of trained jobs that `bench.articles` reports."""

from operator import attrgetter

import pytest

from bench.trials import Trained, ratio, spread


def trained(wall_s: float) -> Trained:
    points = {"epoch_s": [2.0, 1.0, 3.0], "val_accuracy": [0.5, 0.8, 0.7], "data_wait_s": [1.0, 0.5, 0.5]}
    series = [{"name": name, "rank": -1, "x": [1, 2, 3], "y": y} for name, y in points.items()]
    of_a_rank = {"name": "epoch_s", "rank": 0, "x": [1, 2, 3], "y": [9.0, 9.0, 9.0]}
    return Trained({"summary": {"wall_s": wall_s, "val_accuracy": 0.8, "test_accuracy": None}}, [*series, of_a_rank])


def test_epoch_figures_use_the_series_over_all_ranks() -> None:
    assert trained(6).epoch_s == trained(6).later_epoch_s == 2
    assert trained(6).wait_share == pytest.approx(1 / 3)
    assert trained(6).later_wait_share == 0.25
    assert trained(6).test_accuracy == 0.8
    assert [trained(6).time_to_s(accuracy) for accuracy in (0.5, 0.75)] == [2, 3], "with the epoch that reached it"
    with pytest.raises(ValueError, match="never reached"):
        trained(6).time_to_s(0.9)


def test_ratio_is_the_median_over_turns_and_spread_adds_the_range() -> None:
    some, others = [trained(wall_s) for wall_s in (1, 10, 100)], [trained(wall_s) for wall_s in (2, 10, 50)]
    assert ratio(some, others, attrgetter("wall_s")) == 1
    assert spread(some, attrgetter("wall_s")) == "10.0 (1.0 to 100.0)"
    assert spread(some[:1], attrgetter("wall_s"), "{:.0f}") == "1"
