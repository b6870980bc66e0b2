"""The prices of HORA_GPU_HOUR_PRICE: what is taken, what is refused by name, and which price a device has."""

import pytest
from pydantic import ValidationError

from jobs.runtime.prices import Prices, prices_from
from jobs.runtime.settings import Settings


@pytest.mark.parametrize(
    ("text", "prices"),
    [
        ("", None),
        (" , ", None),
        ("2.5", Prices({}, 2.5)),
        (" default = 2.5, H100=3.9,cpu=0.04,", Prices({"h100": 3.9, "cpu": 0.04}, 2.5)),
        ("a100-sxm4-80gb=3", Prices({"a100-sxm4-80gb": 3.0})),
    ],
)
def test_a_price_is_for_all_or_for_a_model(text: str, prices: Prices | None) -> None:
    assert prices_from(text) == Settings(gpu_hour_price=text).prices == prices


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("2.5,h100=3", "write each price as MODEL=NUMBER, not '2.5'; default=NUMBER is for all others"),
        ("h100", "the price of 'default' is no number: 'h100'"),
        ("=3", "'' is no part of a model's name"),
        ("h100=3,H100=4", "'h100' has two prices"),
        ("h100=-1", "the price of 'h100' must be from 0 to 1,000,000, not '-1'"),
        ("h100=inf", "the price of 'h100' must be from 0 to 1,000,000, not 'inf'"),
    ],
)
def test_a_wrong_price_is_refused_by_name(text: str, problem: str) -> None:
    with pytest.raises(ValidationError, match="gpu_hour_price") as error:
        Settings(gpu_hour_price=text)
    assert problem in str(error.value)


PRICES = Prices({"a100": 2.0, "a100-sxm4-80gb": 3.0, "cpu": 0.04}, 1.0)


@pytest.mark.parametrize(
    ("device", "price"),
    [
        ("NVIDIA A100-PCIE-40GB", 2.0),
        ("NVIDIA A100-SXM4-80GB", 3.0),
        ("Tesla T4", 1.0),
        ("cpu", 0.04),
        ("a GPU with cpu in its name", 1.0),
        (None, 1.0),
    ],
)
def test_the_longest_part_of_a_models_name_counts(device: str | None, price: float) -> None:
    assert PRICES.of(device) == price


def test_a_sum_is_unknown_if_one_slot_has_no_price() -> None:
    assert PRICES.of_all(["cpu", "Tesla T4", "NVIDIA A100"]) == pytest.approx(3.04)
    only_cpus = Prices({"cpu": 0.04})
    assert only_cpus.of_all(["cpu", "Tesla T4"]) is None
    assert only_cpus.of_all([None]) is None
    assert only_cpus.of_all(["cpu", "cpu"]) == pytest.approx(0.08)
