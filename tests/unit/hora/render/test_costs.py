"""How the terminal shows what a job has used, and its cost."""

from datetime import UTC, datetime, timedelta

import pytest

from hora.errors import Json
from hora.render.costs import usage_rows

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)


def attempt(from_h: float, to_h: float | None, price: float | None, gpus: int = 2) -> Json:
    ended_at = None if to_h is None else (NOW + timedelta(hours=to_h)).isoformat()
    created_at = (NOW + timedelta(hours=from_h)).isoformat().replace("+00:00", "Z")
    return {"created_at": created_at, "ended_at": ended_at, "gpus": gpus, "price_per_hour": price}


@pytest.mark.parametrize(
    ("attempts", "gpu_time", "cost"),
    [
        ([], None, None),
        ([attempt(-10, -9, 7.8)], "2 h", "7.8"),
        ([attempt(-10, -9, 7.8), attempt(-0.5, None, 4.0, gpus=4)], "4 h", "9.8"),
        ([attempt(-10, -9, 7.8), attempt(-2, -1, None)], "4 h", None),
        ([attempt(-1, 0, 0.0)], "2 h", "0"),
        ([attempt(1, None, 3.0)], "0 s", "0"),
        ([attempt(-1000, None, 12.3456)], "2,000 h", "12,346"),
    ],
)
def test_usage_is_that_of_all_attempts(attempts: list[Json], gpu_time: str | None, cost: str | None) -> None:
    assert usage_rows(attempts, NOW) == {"GPU time": gpu_time, "cost": cost}
