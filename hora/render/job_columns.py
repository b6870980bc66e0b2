"""Jobs with chosen columns, as a table and as CSV. From the API's JSON. Pure; used by `hora ls`."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from rich.table import Table

from hora.errors import Json
from hora.render.tables import table_of
from hora.render.text import heading, plain
from jobs.model.csv_cells import csv_cell
from jobs.views.job_columns import Column, Value


def csv_lines(jobs: Iterable[Json], columns: Sequence[Column]) -> Iterator[str]:
    """The jobs as CSV (RFC 4180), line by line as they come. No text is a formula, or steers a terminal."""
    yield csv_line([title for title, _ in columns])
    for job in jobs:
        yield csv_line([read(job) for _, read in columns])


def csv_line(values: Iterable[Value]) -> str:
    """One line, with its end."""
    out = io.StringIO()
    cells = map(csv_cell, values)
    csv.writer(out).writerow(plain(cell) if isinstance(cell, str) else cell for cell in cells)
    return out.getvalue()


def columns_table(jobs: Iterable[Json], columns: Sequence[Column]) -> Table:
    """The same columns as a table."""
    table = table_of(*(heading(title) for title, _ in columns))
    for job in jobs:
        table.add_row(*("-" if (value := read(job)) is None else _short(value) for _, read in columns))
    return table


def _short(value: Value) -> str:
    return f"{value:.4g}" if isinstance(value, float) else plain(value)
