"""What the command line shows of a job's files: their table, from the API's JSON. Pure."""

from collections.abc import Iterable
from datetime import datetime

from rich.table import Table

from hora.errors import Json
from hora.render.tables import table_of
from hora.render.text import ago, count, plain


def artifacts_table(files: Iterable[Json], now: datetime | None = None) -> Table:
    """One line a file."""
    table = table_of("PATH", "BYTES>", "CHANGED", "TYPE?")
    for file in files:
        table.add_row(
            plain(file["path"]), count(file["bytes"]), ago(file["modified_at"], now), plain(file["media_type"])
        )
    return table
