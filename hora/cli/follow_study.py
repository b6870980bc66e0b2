"""Watching a study to its end: a live bar on a terminal, plain lines elsewhere. Called by the CLI."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from hora.cli.follow import StatusColumn, Watch
from hora.render.studies import jobs_left, study_status, values_line
from hora.render.text import plain
from hora.service import ENDED, Json, Service


def follow_study(client: Service, study_id: str, console: Console, *, timeout_s: float | None = None) -> Json:
    """Show how far a study is on `console` until it is complete, and return it. Raises `WaitTimeout`."""
    with live_bar(console) if console.is_terminal else plain_lines(console) as watch:
        return client.wait_study(study_id, on_update=watch, timeout_s=timeout_s)


@contextmanager
def live_bar(console: Console) -> Iterator[Watch]:
    """One line with status, bar, the number of ended jobs and the other jobs. Above it a line for each end."""
    columns = (
        SpinnerColumn(),
        StatusColumn(),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("jobs  {task.fields[others]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar, plain_lines(bar.console) as ends:
        task = bar.add_task("", total=None, status=Text("queued"), others="")

        def watch(study: Json) -> None:
            ends(study)
            bar.update(
                task,
                status=study_status(study),
                total=study["jobs"],
                completed=sum(study["counts"].get(status, 0) for status in ENDED),
                others=jobs_left(study),
            )

        yield watch


@contextmanager
def plain_lines(console: Console) -> Iterator[Watch]:
    """A line for each job that ends, without control characters."""
    printed_jobs: set[str] = set()

    def watch(study: Json) -> None:
        for cell in study["cells"]:
            for job in cell["jobs"]:
                if job["status"] in ENDED and job["id"] not in printed_jobs:
                    printed_jobs.add(job["id"])
                    line = (
                        f"{_cell_and_repeat(cell, job, study)}: {_end(job)}  ({len(printed_jobs)} of {study['jobs']})"
                    )
                    console.print(line, soft_wrap=True)

    yield watch


def _cell_and_repeat(cell: Json, job: Json, study: Json) -> str:
    """gpus=2 batch_size=64, repeat 1."""
    values = values_line(cell["values"]) or plain(study["name"])
    return f"{values}, repeat {job['repeat'] + 1}" if study["repeats"] > 1 else values


def _end(job: Json) -> str:
    """failed (out_of_memory) 3k9v0t2m7x1q."""
    reason = job.get("end_reason")
    end = plain(job["status"]) + (f" ({plain(reason)})" if reason not in (None, "completed", "cancelled") else "")
    return f"{end} {plain(job['id'])}"
