"""What the command line shows of the queue: whose turn it is, and the jobs that wait. Pure; from the API's JSON."""

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from hora.errors import Json
from hora.render.tables import table_of
from hora.render.text import percent, plain

_MOST_ACCOUNTS = 10
_INDENT = 7  # of reasons: they stand below the id
_UNITS = ((86_400, 36 * 3600, "d"), (3600, 5400, "h"), (60, 90, "min"))  # seconds, from how many on, and the name


def queue_view(queue: Json, now: datetime | None = None) -> RenderableType:
    """How many jobs wait, whose turn it is, and the jobs in the sequence of the queue."""
    parts: list[RenderableType] = [Text(summary(queue))]
    if queue["accounts"]:
        parts += [Text(), accounts_table(queue["accounts"])]
        more = len(queue["accounts"]) - _MOST_ACCOUNTS + queue["more_accounts"]
        if more > 0:
            parts.append(Text(f"and {more:,} more, whose turns come later"))
    if queue["items"]:
        parts += [Text(), QueuedJobs(queue["items"], now)]
    left = queue["total"] - (queue["items"][-1]["position"] if queue["items"] else 0)
    if queue["next_cursor"] and left > 0:
        parts.append(Text(f"{left:,} jobs come after these; -n shows more"))
    return Group(*parts)


def summary(queue: Json) -> str:
    """One line about the whole queue, and one about the forecasts."""
    total, held_back, forecast = queue["total"], queue["held_back"], queue["forecast"]
    waiting = "No job waits" if total == 0 else f"{total:,} job{' waits' if total == 1 else 's wait'}"
    by = "; users take turns" if queue["policy"] == "fair" else "; by priority, then by age"
    without = "job has" if held_back == 1 else "jobs have"
    held = f"; {held_back:,} queued {without} no place: paused, or waiting for other jobs" if held_back else ""
    lines = [waiting + (by if total else "") + held]
    if forecast:
        lines.append(
            f"Half of the expected starts of the last week were within a factor of {forecast['median_error']:.2g}"
            f" ({forecast['jobs']:,} compared)"
        )
    return "\n".join(lines)


def accounts_table(accounts: Sequence[Json]) -> Table:
    """One line a user in a project, the one whose turn it is first."""
    table = table_of("TURN>", "USER", "PROJECT", "USED>", "ENTITLED>", "WAITING>", "SLOTS>", "")
    for number, account in enumerate(accounts[:_MOST_ACCOUNTS], 1):
        table.add_row(
            str(number),
            plain(account["user"]),
            plain(account["project"]),
            percent(account["used_part"]),
            percent(account["entitled_part"]),
            f"{account['queued']:,}",
            f"{account['running_slots']:,}",
            Text("over the share", style="yellow") if account["is_over"] else "",
        )
    return table


class QueuedJobs:
    """The jobs: on a terminal the reason of each is on a line of its own; in a file it is the last column."""

    def __init__(self, jobs: Sequence[Json], now: datetime | None = None) -> None:
        self._jobs = jobs
        self._now = now or datetime.now(UTC)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Called by rich."""
        if not console.is_terminal:
            yield self._table("WHY IT WAITS")
            return
        head, *lines = console.render_lines(self._table(), options, pad=False)
        if len(lines) != len(self._jobs):  # the terminal is so narrow that each job is a list
            yield self._table("WHY IT WAITS")
            return
        yield from (*head, Segment.line())
        for job, line in zip(self._jobs, lines, strict=True):
            yield from (*line, Segment.line())
            yield Padding(Text(plain(job["reason"]), style="dim"), (0, 0, 0, _INDENT))

    def _table(self, *more: str) -> Table:
        table = table_of("PLACE>", "JOB", "NAME…", "OWNER…?", "GPUS>", "PRIO>?", "WAITED>", "STARTS", *more)
        for job in self._jobs:
            waited = self._now - datetime.fromisoformat(job["queued_at"])
            table.add_row(
                f"{job['position']:,}",
                plain(job["id"]),
                plain(job["name"]),
                plain(job["owner"]),
                str(job["gpus"]),
                str(job["priority"]),
                about(waited.total_seconds()),
                starts(job["starts_in_s"]),
                *([plain(job["reason"])] if more else []),
            )
        return table


def starts(in_s: float | None) -> str:
    """When a job is expected to start: in 3 h; soon; a dash if nobody knows."""
    if in_s is None:
        return "-"
    return "soon" if in_s < 1 else f"in {about(in_s)}"


def about(seconds: float) -> str:
    """A duration in its greatest unit: 40 s, 12 min, 3 h, 2 d."""
    for size_s, least_s, unit in _UNITS:
        if seconds >= least_s:
            return f"{seconds / size_s:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
