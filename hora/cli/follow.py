"""Watching a job to its end: a live progress bar on a terminal, plain lines elsewhere. Called by the CLI."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from hora.render.alerts import alert_text
from hora.render.copies import event_text
from hora.render.idle import idle_event_text
from hora.render.jobs import epoch_line, progress_of, standing, status
from hora.render.metrics import goal_of
from hora.render.probe import point_line
from hora.render.text import plain
from hora.service import Json, Service, ServiceUnavailable

Watch = Callable[[Json], None]
_LINES_AT_ONCE = 1000
_FIGURES = re.compile(r"[0-9]+")
_REQUEUED = {"preempted": "made room", "paused": "was paused"}  # other reasons for which a job goes back to the queue


def follow(
    client: Service, job_id: str, console: Console, *, timeout_s: float | None = None, tail: int | None = None
) -> Json:
    """Show a job's progress on `console` until it ends, and return it. Raises `WaitTimeout`.

    Of a script it shows what rank 0 prints: from its start, or its last `tail` lines and what follows.
    """
    with live_bar(console) if console.is_terminal else plain_lines(client, console) as watch:
        output = ScriptOutput(client, job_id, console, tail)

        def show(job: Json) -> None:
            output.is_of_script = job.get("code") is not None
            if job.get("ended_at"):  # what it printed comes before the line of its end
                output.show()
            watch(job)
            output.show()

        return client.wait(job_id, on_update=show, on_unchanged=output.show, timeout_s=timeout_s, period_s=0.25)


class ScriptOutput:
    """What rank 0 of a script prints, as it comes."""

    def __init__(self, client: Service, job_id: str, console: Console, tail: int | None) -> None:
        self.is_of_script = False
        self._client = client
        self._job_id = job_id
        self._console = console
        self._tail = tail
        self._after = 0

    def show(self) -> None:
        """Print the new lines. They stay in the log if the service is away."""
        with suppress(ServiceUnavailable):
            while self.is_of_script and (lines := self._new_lines()):
                for line in lines:
                    self._console.print(plain(line["text"]), soft_wrap=True)

    def _new_lines(self) -> list[Json]:
        if self._tail:
            page = self._client.logs(self._job_id, rank=0, tail=self._tail)
            self._tail = None  # even if there is no line yet: all that come now are new
        else:
            page = self._client.logs(self._job_id, rank=0, after=self._after, limit=_LINES_AT_ONCE)
        lines: list[Json] = page["items"]
        self._after = page["next_after"] if lines else self._after
        return lines


class StatusColumn(ProgressColumn):
    """The field `status` of a task, in its colour."""

    def render(self, task: Task) -> Text:
        """The status as it is now."""
        shown: Text = task.fields["status"]
        return shown


@contextmanager
def live_bar(console: Console) -> Iterator[Watch]:
    """One line with status, bar, epoch, step, samples/s, accuracy and the time left. It disappears at the end."""
    columns = (
        SpinnerColumn(),
        StatusColumn(),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[progress]}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None, status=Text("queued"), progress="")

        def watch(job: Json) -> None:
            progress = job.get("progress") or {}
            bar.update(
                task,
                status=status(job),
                total=progress.get("steps") or None,
                completed=progress.get("step") or 0,
                progress=standing(job) or (progress_of(job) if job.get("attempt") else ""),
            )

        yield watch


@contextmanager
def plain_lines(client: Service, console: Console) -> Iterator[Watch]:
    """A line for each change of status, each lost attempt, each epoch and each batch of a probe, in plain text.

    Also a line for each new reason why a queued job waits. A new figure in a reason gives no line: it changes often.
    And one for an alert, for a checkpoint that was fetched from the store, or waits for it, and for slots that nobody
    uses.
    """
    printed: dict[str, Any] = {"event": 0, "state": None, "news": None, "points": 0}

    def watch(job: Json) -> None:
        points = (job.get("probe") or {}).get("points") or []
        epoch = (job.get("progress") or {}).get("epoch")
        news = (epoch, len(points), bool(job.get("copies_behind")), job.get("idle"), job.get("alerts"))
        reason = _FIGURES.sub("", (job.get("waiting") or {}).get("reason", ""))
        state = (job["status"], bool(job.get("paused_at")), reason)
        if (state, news) == (printed["state"], printed["news"]):
            return
        lines = [*_new_lines(client, job, printed), *map(point_line, points[printed["points"] :])]
        if state != printed["state"]:
            # The epochs of a job come before the line of its end.
            lines = [*lines, _state_line(job)] if job.get("ended_at") else [_state_line(job), *lines]
        printed.update(state=state, news=news, points=len(points))
        for line in lines:
            console.print(line, soft_wrap=True)

    yield watch


def _state_line(job: Json) -> str:
    """queued, 3rd: needs 4 slots on one host; best host has 2 free."""
    place = standing(job)
    name = plain(job["status"]) if job.get("ended_at") else status(job).plain
    return f"{name}, {place}" if place else name


def _new_lines(client: Service, job: Json, printed: dict[str, Any]) -> list[str]:
    """A line for each event since the last printed one that is news. Updates that event in `printed`."""
    lines, reason = [], ""
    epochs, goal = (job.get("progress") or {}).get("epochs"), goal_of(job)
    for event in client.events(job["id"]):
        if event["id"] <= (printed["event"] or 0):
            continue
        printed["event"] = event["id"]
        data = event.get("data") or {}
        if event["kind"] == "epoch_ended":
            lines.append(epoch_line(data, epochs, goal=goal))
        elif event["kind"] == "requeued":
            lines.append(
                f"attempt {event.get('attempt')} {_REQUEUED.get(reason, 'was lost')}; the job waits for its next one"
            )
        elif event["kind"] == "attempt_ended":
            reason = str(data.get("end_reason"))
        elif event["kind"] == "alert":
            lines += [] if _is_in_output(job, data) else [f"alert: {alert_text(data)}"]
        elif text := event_text(event["kind"], data) or idle_event_text(event["kind"], data):
            lines.append(text)
    return lines


def _is_in_output(job: Json, alert: Json) -> bool:
    """Whether an alert is among the lines of rank 0 of a script, which `ScriptOutput` prints."""
    return job.get("code") is not None and not alert.get("rank")
