"""Progress bars for downloads. Used by `hora.cli.artifacts`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

from hora.cli.output import console_of
from hora.render.text import plain


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each file on standard error, if that is a terminal. It gets path, bytes so far, and size."""
    console = console_of(stderr=True)
    columns = [
        TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
    ]  # fmt: skip
    bars: dict[str, TaskID] = {}
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars_shown:

        def update(path: str, so_far: int, size: int) -> None:
            if path not in bars:
                bars[path] = bars_shown.add_task(plain(path), total=size or None)
            bars_shown.update(bars[path], completed=so_far)

        yield update
