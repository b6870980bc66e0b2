"""What the command line shows of a job's checkpoints: their table, from the API's JSON. Pure."""

from collections.abc import Iterable
from datetime import datetime

from rich.table import Table

from hora.errors import Json
from hora.render.tables import table_of
from hora.render.text import ago
from jobs.runtime.files import size_text


def checkpoints_table(checkpoints: Iterable[Json], now: datetime | None = None) -> Table:
    """One line a checkpoint."""
    table = table_of("STEP>", "EPOCH>", "SIZE>", "SAVED", "BEST")
    for checkpoint in checkpoints:
        table.add_row(
            str(checkpoint["step"]), str(checkpoint["epoch"]), size_text(checkpoint["bytes"]),
            ago(checkpoint["saved_at"], now), "best" if checkpoint["is_best"] else "",
        )  # fmt: skip
    return table
