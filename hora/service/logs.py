"""The lines that the ranks of a job printed: in pages, and as they are printed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hora.errors import Json, ProblemError
from hora.service.live import LiveCalls, LiveEvent
from hora.service.transport import api_path
from jobs.model.log_levels import LogLevel


@dataclass(frozen=True)
class LineFilter:
    """Which lines to read. A line must match every part that is set."""

    ranks: Sequence[int] = ()  # -1: the launcher
    level: str | None = None  # this one, or a more serious one
    search: str | None = None  # a text that they contain, in any case
    attempt: int | None = None
    since: str | None = None  # in RFC 3339; printed then or later
    until: str | None = None  # printed before

    def query(self) -> dict[str, Any]:
        """The filter as parameters of a request."""
        return {
            "rank": list(self.ranks), "attempt": self.attempt, "level": self.level, "search": self.search,
            "since": self.since, "until": self.until,
        }  # fmt: skip

    def takes(self, line: Json) -> bool:
        """Whether a line of a stream matches, as the service would decide."""
        level = LogLevel(line.get("level", LogLevel.INFO))  # an older service knows none
        return (
            (not self.ranks or line["rank"] in self.ranks)
            and (self.attempt is None or line["attempt"] == self.attempt)
            and (self.level is None or level.number >= LogLevel(self.level).number)
            and (self.search is None or self.search.casefold() in line["text"].casefold())
            and (self.since is None or _moment(line["at"]) >= _moment(self.since))
            and (self.until is None or _moment(line["at"]) < _moment(self.until))
        )


class LogCalls(LiveCalls):
    """The requests about logs."""

    def logs(
        self,
        job_id: str,
        *,
        rank: int | Sequence[int] | None = None,
        attempt: int | None = None,
        level: str | None = None,
        search: str | None = None,
        since: str | None = None,
        until: str | None = None,
        tail: int | None = None,
        after: int | None = None,
        before: int | None = None,
        limit: int | None = None,
    ) -> Json:
        """Log lines `{items: [{id, at, attempt, rank, level, text}], next_after, previous_before}`.

        `after` gives the lines after that id, `before` the last lines before it, `tail` the last lines of all. `rank`
        is one or several; -1 is the launcher. `level` is `debug`, `info`, `warning` or `error`: more serious lines come
        too. `search` gives the lines that contain a text, in any case. `since` and `until` are times in RFC 3339.
        """
        line_filter = LineFilter(_ranks(rank), level, search, attempt, since, until)
        query = {**line_filter.query(), "tail": tail, "after": after, "before": before, "limit": limit}
        return self._wire.document("GET", api_path("jobs", job_id, "logs"), params=query)

    def log_lines(
        self,
        job_id: str,
        *,
        rank: int | Sequence[int] | None = None,
        attempt: int | None = None,
        level: str | None = None,
        search: str | None = None,
        since: str | None = None,
        until: str | None = None,
        tail: int | None = None,
        follow: bool = False,
    ) -> Iterator[Json]:
        """The log lines one by one, oldest first. With `follow` until the job has ended.

        `rank` is one or several; -1 is the launcher. `level`, such as `warning`, gives the lines of that level and more
        serious ones. `search` gives the lines that contain a text, in any case. `since` and `until` are times in RFC
        3339. `tail` begins with the last so many of the lines.
        """
        line_filter = LineFilter(_ranks(rank), level, search, attempt, since, until)
        if not follow:
            yield from self._stored_lines(job_id, line_filter, tail)
            return
        last = self.logs(job_id, tail=1)["next_after"]  # what is printed from now on comes by the stream
        yield from (line for line in self._stored_lines(job_id, line_filter, tail) if line["id"] <= last)
        for event in self._log_events(job_id, last):
            if event.event == "logs":  # an older service sends all of them
                yield from (line for line in event.data["items"] if line["id"] > last and line_filter.takes(line))

    def _log_events(self, job_id: str, last: int) -> Iterator[LiveEvent]:
        """The stream of lines after one; all lines if the service is older and refuses to leave some out."""
        try:
            yield from self.follow(job_id, include=["logs"], logs_after=last)
        except ProblemError as error:
            if "logs_after" not in [problem.get("field") for problem in error.errors]:
                raise
            yield from self.follow(job_id, include=["logs"])

    def _stored_lines(self, job_id: str, line_filter: LineFilter, tail: int | None) -> Iterator[Json]:
        if tail:
            yield from self.logs(job_id, **line_filter.query(), tail=tail)["items"]
            return
        page = self.logs(job_id, **line_filter.query(), limit=1000)
        while page["items"]:
            yield from page["items"]
            page = self.logs(job_id, **line_filter.query(), after=page["next_after"], limit=1000)


def _ranks(rank: int | Sequence[int] | None) -> Sequence[int]:
    if rank is None:
        return ()
    return [rank] if isinstance(rank, int) else rank


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
