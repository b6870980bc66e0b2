"""A progress bar for what is sent to the service. Used by `hora.cli.datasets` and `hora.cli.spec_code`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from hora.cli.output import console_of


@contextmanager
def sending(size_bytes: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, from when it first gets the number of bytes that were sent."""
    columns = (TextColumn("uploading"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console_of(stderr=True), transient=True) as progress:
        bar = progress.add_task("uploading", total=size_bytes, visible=False)
        yield lambda sent_bytes: progress.update(bar, completed=sent_bytes, visible=True)
