"""How the terminal shows past usage, and what a job has used and its cost."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hora.errors import Json
from hora.render.costs import usage_rows
from hora.render.usage import usage_table
from tests.printed import as_text


def row(period: str, gpu_hours: float = 1.5, **values: Any) -> dict[str, Any]:
    keys = dict.fromkeys(("project", "user", "host", "device"))
    return {"period": period, **keys, "gpu_hours": gpu_hours, "jobs": 2, "cost": None, **values}


def report(*rows: dict[str, Any], by: tuple[str, ...] = ("project",), length: str = "month") -> dict[str, Any]:
    total = {"gpu_hours": 1234.5, "jobs": 1204, "cost": None}
    return {"by": list(by), "period_length": length, "items": list(rows), "total": total}


def test_a_table_has_a_line_for_each_month_or_day_with_the_costs_that_are_known() -> None:
    table = usage_table(report(row("2026-10-01", project="vision"), row("2026-11-01", 0.00012, project="text")))
    head, first, second, total = (" ".join(line.split()) for line in as_text(table).splitlines())
    assert (head, total) == ("PERIOD PROJECT GPU-HOURS JOBS", "total 1,234 1,204")
    assert (first, second) == ("2026-10 vision 1.5 2", "2026-11 text 0.00012 2")
    rows = row("2026-10-31", cost=2.5, user="ada", device="NVIDIA H100 NVL"), row("2026-10-31", user="eve\x1b[2J")
    table = usage_table(report(*rows, by=("user", "device"), length="day"))
    assert [line.split() for line in as_text(table).splitlines()] == [
        ["PERIOD", "USER", "DEVICE", "GPU-HOURS", "JOBS", "COST"],
        ["2026-10-31", "ada", "NVIDIA", "H100", "NVL", "1.5", "2", "2.5"],
        ["2026-10-31", "eve\\x1b[2J", "-", "1.5", "2", "-"],
        ["total", "1,234", "1,204", "-"],
    ]


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
