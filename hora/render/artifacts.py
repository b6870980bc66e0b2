"""What the command line shows of a job's files: their table, and how far a download is."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime

from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn
from rich.table import Table

from hora.cli.output import console_of
from hora.errors import Json
from hora.render.jobs import table_of
from hora.render.text import ago, count, plain


def artifacts_table(files: Iterable[Json], now: datetime | None = None) -> Table:
    """One line a file."""
    table = table_of("PATH", "BYTES>", "CHANGED", "TYPE")
    for file in files:
        table.add_row(
            plain(file["path"]), count(file["bytes"]), ago(file["modified_at"], now), plain(file["media_type"])
        )
    return table


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each file on standard error, where that is a terminal; it is told path, bytes so far, and bytes."""
    console = console_of(stderr=True)
    columns = [
        TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
    ]  # fmt: skip
    bars: dict[str, TaskID] = {}
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:

        def tell(path: str, so_far: int, size: int) -> None:
            if path not in bars:
                bars[path] = shown.add_task(plain(path), total=size or None)
            shown.update(bars[path], completed=so_far)

        yield tell
