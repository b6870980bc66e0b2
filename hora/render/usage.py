"""What the command line shows of past usage: a table, from the API's JSON. Pure."""

from rich.table import Table

from hora.errors import Json
from hora.render.tables import table_of
from hora.render.text import amount, heading, plain

_MONTH = len("2026-10")  # of a day


def usage_table(report: Json) -> Table:
    """A line for each row, and one for the total. Without a price there is no column for the cost."""
    rows, total, keys = report["items"], report["total"], report["by"]
    costs = any(row["cost"] is not None for row in [*rows, total])
    table = table_of(
        "PERIOD", *(f"{heading(key)}…" for key in keys), "GPU-HOURS>", "JOBS>", *(["COST>"] if costs else [])
    )
    for row in rows:
        period = row["period"][:_MONTH] if report["period_length"] == "month" else row["period"]
        table.add_row(plain(period), *(plain(row[key] or "-") for key in keys), *_figures(row, costs=costs))
    table.add_row("total", *("" for _ in keys), *_figures(total, costs=costs), style="bold")
    return table


def _figures(row: Json, *, costs: bool) -> list[str]:
    cost = "-" if row["cost"] is None else amount(row["cost"])
    return [amount(row["gpu_hours"]), f"{row['jobs']:,}", *([cost] if costs else [])]
