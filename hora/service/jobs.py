"""Jobs: submit, look up, wait, and read what they wrote."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from hora.errors import Json
from hora.service.calls import ENDED, Calls, document_of, key_header
from hora.service.transport import at
from hora.service.waiting import wait_for_end

if TYPE_CHECKING:
    from jobs.model.spec import Spec

_LOOK_AGAIN_S = 0.5  # at a log that has nothing new


class JobCalls(Calls):
    """What is asked of jobs."""

    def submit(self, spec: "Spec | Mapping[str, Any]", *, idempotency_key: str | None = None) -> Json:
        """Submit a spec and return its job. The same key gives the same job again; without one it gets its own."""
        return self._wire.document(
            "POST", at("jobs"), json=document_of(spec), headers=key_header(idempotency_key), again=True
        )

    def dry_run(self, spec: "Spec | Mapping[str, Any]") -> Json:
        """What the spec comes to, with a quote from past jobs and warnings; nothing is stored."""
        return self._wire.document("POST", at("jobs"), json=document_of(spec), params={"dry_run": "true"}, again=True)

    def job(self, job_id: str) -> Json:
        """One job: spec, plan, status, end_reason, progress, summary."""
        return self._wire.document("GET", at("jobs", job_id))

    def jobs(
        self,
        *,
        status: str | None = None,
        label: str | None = None,
        name: str | None = None,
        owner: str | None = None,
        project: str | None = None,
        paused: bool | None = None,
        study: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        search: str | None = None,
        sort: str | None = None,
        page_size: int = 100,
    ) -> Iterator[Json]:
        """All jobs that match, newest first, fetched page by page as they are consumed. `label` is `key:value`.

        They were submitted at `since` or later and before `until`; a text is a time in RFC 3339. `search` is a text in
        their name, id, owner, dataset, model or labels, in any case. `sort` is a field, `-` before it the greatest
        first.
        """
        filters = {
            "status": status, "label": label, "name": name, "owner": owner, "project": project, "paused": paused,
            "study": study, "since": _time(since), "until": _time(until), "search": search, "sort": sort,
            "limit": page_size,
        }  # fmt: skip
        yield from self._wire.pages(at("jobs"), filters)

    def cancel(self, job_id: str) -> Json:
        """Ask for the job's end; it comes within seconds. Asking twice does no harm."""
        return self._wire.document("POST", at("jobs", job_id, "cancel"), again=True)

    def pause(self, job_id: str) -> Json:
        """Let the job wait in the queue; a running one saves and goes back there. Asking twice does no harm."""
        return self._wire.document("POST", at("jobs", job_id, "pause"), again=True)

    def resume(self, job_id: str) -> Json:
        """Let a paused job go on. Asking twice does no harm."""
        return self._wire.document("POST", at("jobs", job_id, "resume"), again=True)

    def clone(
        self, job_id: str, changes: Mapping[str, Any] | None = None, *, idempotency_key: str | None = None
    ) -> Json:
        """Submit the job's spec once more with `changes` (nested like the spec) laid over it."""
        path, key = at("jobs", job_id, "clone"), key_header(idempotency_key)
        return self._wire.document("POST", path, json=dict(changes or {}), headers=key, again=True)

    def dry_run_clone(self, job_id: str, changes: Mapping[str, Any] | None = None) -> Json:
        """What a clone comes to, as `dry_run` says it of a spec; nothing is stored."""
        path, query = at("jobs", job_id, "clone"), {"dry_run": "true"}
        return self._wire.document("POST", path, json=dict(changes or {}), params=query, again=True)

    def analysis(self, job_id: str) -> Json:
        """How the job used what it had: findings, step shares, utilization, stalls, and the ledger of its seconds."""
        return self._wire.document("GET", at("jobs", job_id, "analysis"))

    def advice(self, job_id: str) -> list[Json]:
        """What to change next, in the order in which to try it; the `change` of each is one for `clone`."""
        return self._wire.items(at("jobs", job_id, "advice"), "items")

    def metrics(
        self,
        job_id: str,
        *,
        name: str | Sequence[str] | None = None,
        rank: int | Sequence[int] | None = None,
        axis: str | None = None,
        max_points: int | None = None,
    ) -> list[Json]:
        """Series `{name, rank, x, y}`; rank -1 is over all ranks. `axis` is step, epoch or time."""
        query = {"name": name, "rank": rank, "axis": axis, "max_points": max_points}
        return self._wire.items(at("jobs", job_id, "metrics"), "series", query)

    def metrics_of(
        self,
        job_ids: Sequence[str],
        *,
        name: str | Sequence[str],
        rank: int | Sequence[int] | None = None,
        axis: str | None = None,
        max_points: int | None = None,
    ) -> list[Json]:
        """Some metrics of up to 200 jobs at once: `{id, series}` in this order; a job that there is not is left out.

        Without `rank` those over all ranks.
        """
        query = {"job": list(job_ids), "name": name, "rank": rank, "axis": axis, "max_points": max_points}
        return self._wire.items(at("metrics"), "jobs", query)

    def utilization(
        self, job_id: str, *, metric: str | None = None, axis: str | None = None, max_points: int | None = None
    ) -> Json:
        """The samples of the slots that the job had. `axis` is time, step or epoch."""
        query = {"metric": metric, "axis": axis, "max_points": max_points}
        return self._wire.document("GET", at("jobs", job_id, "utilization"), params=query)

    def logs(
        self,
        job_id: str,
        *,
        rank: int | None = None,
        search: str | None = None,
        tail: int | None = None,
        after: int | None = None,
        before: int | None = None,
        limit: int | None = None,
    ) -> Json:
        """Log lines `{items: [{id, at, attempt, rank, text}], next_after, previous_before}`; rank -1 is the launcher.

        `after` gives the lines that follow that id, `before` the last ones before it, `tail` only the last ones of all;
        `search` those that contain a text, whatever the case.
        """
        query = {
            "rank": rank, "search": search, "tail": tail, "after": after, "before": before, "limit": limit,
        }  # fmt: skip
        return self._wire.document("GET", at("jobs", job_id, "logs"), params=query)

    def log_lines(
        self,
        job_id: str,
        *,
        rank: int | None = None,
        search: str | None = None,
        tail: int | None = None,
        follow: bool = False,
    ) -> Iterator[Json]:
        """The log lines one by one, oldest first; with `follow` until the job has ended and no line is left.

        With `tail` they begin with the last so many that there are now, of those that contain the text `search`.
        """
        after = 0
        while True:
            ended = follow and self.job(job_id).get("ended_at") is not None
            page = self.logs(
                job_id, rank=rank, search=search, tail=tail,
                after=None if tail else after, limit=None if tail else 1000,
            )  # fmt: skip
            yield from page["items"]
            if page["items"] or tail:
                after, tail = page["next_after"], None
            elif ended or not follow:
                return
            else:
                time.sleep(_LOOK_AGAIN_S)

    def events(self, job_id: str) -> list[Json]:
        """The job's history, oldest first."""
        return list(self._wire.pages(at("jobs", job_id, "events")))

    def attempts(self, job_id: str) -> list[Json]:
        """The launches of the job, oldest first."""
        return list(self._wire.pages(at("jobs", job_id, "attempts")))

    def wait(
        self,
        job_id: str,
        *,
        on_update: Callable[[Json], None] | None = None,
        timeout_s: float | None = None,
        period_s: float = 0.5,
    ) -> Json:
        """Return the job when it has ended, whatever way. Raises `WaitTimeout`.

        `on_update` gets the job whenever it has changed, its end included. A service that goes away for less
        than a minute is waited for.
        """
        return wait_for_end(
            partial(self._wire.newer, at("jobs", job_id)), job_id, noun="job",
            ended=lambda job: job["status"] in ENDED, on_update=on_update, timeout_s=timeout_s, period_s=period_s,
        )  # fmt: skip


def _time(moment: datetime | str | None) -> str | None:
    """A time as the service reads it. One without a zone is this machine's."""
    return moment.astimezone().isoformat() if isinstance(moment, datetime) else moment
