"""GPU time in the unit that suits it."""

import pytest

from jobs.model.gpu_time import gpu_time


@pytest.mark.parametrize(
    ("hours", "text"),
    [
        (0.0, "0 s"),
        (0.00512, "18.4 s"),
        (1 / 60, "1 min"),
        (12.34, "12.3 h"),
        (1234.6, "1,235 h"),
    ],
)
def test_the_unit_suits_the_amount(hours: float, text: str) -> None:
    assert gpu_time(hours) == text
