"""How the terminal shows past usage."""

from typing import Any

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


def test_long_names_fit_into_80_columns() -> None:
    long = row("2026-10-31", 123456.7, cost=98765.4, project="p" * 64, user="u" * 128)
    lines = as_text(usage_table(report(long, by=("project", "user"), length="day")), width=80).splitlines()
    assert len(lines) == 3
    assert max(map(len, lines)) <= 80
    assert "123,457" in lines[1]
