"""Watching a job to its end: a live progress bar on a terminal, plain lines elsewhere. Called by the CLI."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from hora.render.jobs import epoch_line, progress_line, standing, status
from hora.render.text import plain
from hora.service import Json, Service

Watch = Callable[[Json], None]
_FIGURES = re.compile(r"[0-9]+")
_ENDED = {"preempted": "made room", "paused": "was paused"}  # other reasons for which a job goes back to the queue


def follow(client: Service, job_id: str, console: Console, *, timeout_s: float | None = None) -> Json:
    """Show a job's progress on `console` until it ends, and return it. Raises `WaitTimeout`."""
    with live_bar(console) if console.is_terminal else plain_lines(client, console) as watch:
        return client.wait(job_id, on_update=watch, timeout_s=timeout_s, period_s=0.25)


class StatusColumn(ProgressColumn):
    """The field `status` of a task, in its colour."""

    def render(self, task: Task) -> Text:
        """It as it is now."""
        shown: Text = task.fields["status"]
        return shown


@contextmanager
def live_bar(console: Console) -> Iterator[Watch]:
    """One line with status, bar, epoch, step, samples/s, accuracy and the time left; gone at the end."""
    columns = (
        SpinnerColumn(),
        StatusColumn(),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[told]}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None, status=Text("queued"), told="")

        def watch(job: Json) -> None:
            progress = job.get("progress") or {}
            bar.update(
                task,
                status=status(job),
                total=progress.get("steps") or None,
                completed=progress.get("step") or 0,
                told=standing(job) or (progress_line(progress) if job.get("attempt") else ""),
            )

        yield watch


@contextmanager
def plain_lines(client: Service, console: Console) -> Iterator[Watch]:
    """A line for each change of status, each lost attempt and each epoch, without control characters.

    Of a queued job also for each new reason why it waits, but not for each new figure in one: those change at will.
    """
    seen: dict[str, Any] = {"event": 0, "where": None, "epoch": None}

    def watch(job: Json) -> None:
        epoch = (job.get("progress") or {}).get("epoch")
        reason = _FIGURES.sub("", (job.get("waiting") or {}).get("reason", ""))
        where = (job["status"], bool(job.get("paused_at")), reason)
        if (where, epoch) == (seen["where"], seen["epoch"]):
            return
        lines = _new_lines(client, job, seen)
        if where != seen["where"]:
            # The epochs of a job that has ended come before the word of its end.
            lines = [*lines, _state_line(job)] if job.get("ended_at") else [_state_line(job), *lines]
        seen.update(where=where, epoch=epoch)
        for line in lines:
            console.print(line, soft_wrap=True)

    yield watch


def _state_line(job: Json) -> str:
    """queued, 3rd: needs 4 slots on one host; best host has 2 free."""
    where = standing(job)
    name = plain(job["status"]) if job.get("ended_at") else status(job).plain
    return f"{name}, {where}" if where else name


def _new_lines(client: Service, job: Json, seen: dict[str, Any]) -> list[str]:
    lines, reason = [], ""
    epochs = (job.get("plan") or {}).get("epochs")
    for event in client.events(job["id"]):
        if event["id"] <= (seen["event"] or 0):
            continue
        seen["event"] = event["id"]
        data = event.get("data") or {}
        if event["kind"] == "epoch_ended":
            lines.append(epoch_line(data, epochs))
        elif event["kind"] == "requeued":
            lines.append(
                f"attempt {event.get('attempt')} {_ENDED.get(reason, 'was lost')}; the job waits for its next one"
            )
        elif event["kind"] == "attempt_ended":
            reason = str(data.get("end_reason"))
    return lines
