"""Watching a job to its end: a live progress bar on a terminal, plain lines elsewhere. Called by the CLI."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from hora.client import Client, Json
from hora.render import STATUS_STYLE, epoch_line, plain, progress_line

Watch = Callable[[Json], None]


def follow(client: Client, job_id: str, console: Console, *, timeout_s: float | None = None) -> Json:
    """Show a job's progress on `console` until it ends, and return it. Raises `WaitTimeout`."""
    with live_bar(console) if console.is_terminal else plain_lines(client, console) as watch:
        return client.wait(job_id, on_update=watch, timeout_s=timeout_s, period_s=0.25)


@contextmanager
def live_bar(console: Console) -> Iterator[Watch]:
    """One line with status, bar, epoch, step, samples/s, accuracy and the time left; gone at the end."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[told]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("queued", total=None, told="")

        def watch(job: Json) -> None:
            progress = job.get("progress") or {}
            name = plain(job["status"])
            bar.update(
                task,
                description=f"[{STATUS_STYLE.get(name, 'default')}]{name}[/]",
                total=progress.get("steps") or None,
                completed=progress.get("step") or 0,
                told=progress_line(progress) if job.get("attempt") else "",
            )

        yield watch


@contextmanager
def plain_lines(client: Client, console: Console) -> Iterator[Watch]:
    """A line for each change of status, each lost attempt and each epoch, without control characters."""
    seen = {"event": 0, "status": "", "epoch": None}

    def watch(job: Json) -> None:
        progress = job.get("progress") or {}
        name, epoch = plain(job["status"]), progress.get("epoch")
        if (name, epoch) == (seen["status"], seen["epoch"]):
            return
        lines = _new_lines(client, job, seen)
        if name != seen["status"]:
            # The epochs of a job that has ended come before the word of its end.
            lines = [*lines, name] if job.get("ended_at") else [name, *lines]
        seen.update(status=name, epoch=epoch)
        for line in lines:
            console.print(line, markup=False, highlight=False, soft_wrap=True)

    yield watch


def _new_lines(client: Client, job: Json, seen: dict[str, object]) -> list[str]:
    lines = []
    epochs = (job.get("plan") or {}).get("epochs")
    for event in client.events(job["id"]):
        if event["id"] <= (seen["event"] or 0):
            continue
        seen["event"] = event["id"]
        data = event.get("data") or {}
        if event["kind"] == "epoch_ended":
            lines.append(epoch_line(data, epochs))
        elif event["kind"] == "requeued":
            lines.append(f"attempt {event.get('attempt')} was lost; the job waits for its next one")
    return lines


def log_lines(client: Client, job_id: str, *, rank: int | None, follow: bool) -> Iterator[Json]:
    """A job's log lines, oldest first; with `follow` until the job has ended and no line is left."""
    after = 0
    while True:
        ended = follow and client.job(job_id).get("ended_at") is not None
        page = client.logs(job_id, rank=rank, after=after, limit=1000)
        yield from page["items"]
        if page["items"]:
            after = page["next_after"]
        elif ended or not follow:
            return
        else:
            time.sleep(0.5)
