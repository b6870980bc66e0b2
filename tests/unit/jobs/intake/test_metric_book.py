"""The last, best, lowest, highest and mean value of each metric."""

import math

import pytest

from jobs.intake.metric_book import MetricBook, Value
from jobs.model.goals import is_better_lower


def book() -> MetricBook:
    return MetricBook(is_better_lower)


def of_epoch(name: str, value: float, epoch: int) -> Value:
    return Value(name, value, epoch, of_all_ranks=True)


def test_losses_are_best_when_low_and_others_when_high() -> None:
    kept = book()
    for epoch, (loss, iou) in enumerate([(0.5, 0.1), (0.3, 0.7), (0.4, 0.6)], start=1):
        kept.add([of_epoch("val_loss", loss, epoch), of_epoch("val_iou", iou, epoch)])
    assert kept.as_json() == {
        "val_iou": {"last": 0.6, "best": 0.7, "best_epoch": 2, "low": 0.1, "high": 0.7, "mean": pytest.approx(1.4 / 3)},
        "val_loss": {"last": 0.4, "best": 0.3, "best_epoch": 2, "low": 0.3, "high": 0.5, "mean": pytest.approx(0.4)},
    }


def test_a_value_that_is_no_number_is_never_the_best() -> None:
    kept = book()
    kept.add([of_epoch("loss", -math.inf, 1), of_epoch("loss", 2.0, 2), of_epoch("loss", math.nan, 3)])
    assert kept.as_json() == {
        "loss": {"last": None, "best": 2.0, "best_epoch": 2, "low": 2.0, "high": 2.0, "mean": 2.0}
    }
    only_nan = book()
    only_nan.add([of_epoch("loss", math.nan, 1)])
    assert only_nan.as_json() == {
        "loss": {"last": None, "best": None, "best_epoch": None, "low": None, "high": None, "mean": None}
    }


def test_values_over_all_ranks_replace_those_of_steps() -> None:
    kept = book()
    assert kept.add([Value("mae", 0.1, None, of_all_ranks=False), Value("mae", 0.2, None, of_all_ranks=False)])
    assert kept.as_json()["mae"] == {
        "last": 0.2, "best": 0.1, "best_epoch": None, "low": 0.1, "high": 0.2, "mean": pytest.approx(0.15)
    }  # fmt: skip
    kept.add([of_epoch("mae", 0.9, 1)])
    assert not kept.add([Value("mae", 0.05, None, of_all_ranks=False)])
    assert kept.as_json()["mae"] == {
        "last": 0.9, "best": 0.9, "best_epoch": 1, "low": 0.9, "high": 0.9, "mean": 0.9
    }  # fmt: skip


def test_times_do_not_count_unless_one_is_the_goal() -> None:
    speed = [of_epoch("samples_per_s", 9.0, 1), of_epoch("epoch_s", 2.0, 1)]
    kept = book()
    assert not kept.add(speed)
    assert kept.as_json() == {}
    chosen = MetricBook(is_better_lower, "samples_per_s")
    chosen.add(speed)
    assert list(chosen.as_json()) == ["samples_per_s"]


def test_the_mean_of_huge_values_is_none_and_adding_a_batch_again_changes_nothing() -> None:
    kept, batch = book(), [of_epoch("loss", 1.7e308, 1), of_epoch("loss", -1.7e308, 2)]
    for _ in range(2):
        kept.add(batch)
        assert kept.as_json()["loss"]["mean"] is None
        assert (kept.as_json()["loss"]["low"], kept.as_json()["loss"]["high"]) == (-1.7e308, 1.7e308)
    kept.add([of_epoch("val_loss", 0.5, 1), of_epoch("val_loss", 0.5, 2)])
    assert kept.as_json()["val_loss"]["best_epoch"] == 1, "the first of equal ones"


def test_means_of_steps_are_set_where_only_some_steps_were_added() -> None:
    kept = book()
    kept.add([Value("mae", 1.0, None, of_all_ranks=False), of_epoch("loss", 2.0, 1)])
    kept.set_means({"mae": (3.0, 3), "loss": (9.0, 9), "other": (1.0, 1)})
    kept.add([Value("mae", 7.0, None, of_all_ranks=False)])
    means = {name: values["mean"] for name, values in kept.as_json().items()}
    assert means == {"mae": 4.0, "loss": 2.0}
