"""Jobs: submit, find, control, wait, and read what they wrote."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from hora.errors import Json
from hora.service.calls import ENDED, Calls, document_of, filter_query, key_header
from hora.service.transport import api_path
from hora.service.waiting import wait_for_end

if TYPE_CHECKING:
    from jobs.model.spec import Spec

_IMPORT_TIMEOUT_S = 900.0  # the service stores all records of a run before it answers
_LONGEST_PAGE = 500  # jobs


class JobFilters(TypedDict, total=False):
    """Which jobs a list has: those that match every part that is given. None is as if it were not given."""

    status: str | None  # several with commas
    label: str | Sequence[str] | None  # `key:value`, or several
    name: str | None
    owner: str | None
    project: str | None
    paused: bool | None
    study: str | None  # its id; `none`: jobs of no study
    starred: bool | None
    archived: bool | None
    since: datetime | str | None  # submitted then or later; a text is a time in RFC 3339
    until: datetime | str | None  # submitted before
    search: str | None  # in their name, id, owner, dataset, model, labels or notes, in any case
    where: str | Sequence[str] | None  # a condition about any field: `spec.batch_size>=64`; or several that all hold


class JobCalls(Calls):
    """The requests about jobs."""

    def submit(self, spec: "Spec | Mapping[str, Any]", *, idempotency_key: str | None = None) -> Json:
        """Submit a spec and return its job. The same key gives the same job again."""
        return self._wire.document(
            "POST", api_path("jobs"), json=document_of(spec), headers=key_header(idempotency_key), repeatable=True
        )

    def import_run(self, upload_id: str) -> Json:
        """Store a complete upload of a run as a job that has ended, and return it. The upload is used up."""
        return self._wire.document("POST", api_path("imports"), json={"upload": upload_id}, timeout=_IMPORT_TIMEOUT_S)

    def dry_run(self, spec: "Spec | Mapping[str, Any]") -> Json:
        """The plan of a spec, with a quote from past jobs and warnings. Nothing is stored."""
        return self._wire.document(
            "POST", api_path("jobs"), json=document_of(spec), params={"dry_run": "true"}, repeatable=True
        )

    def job(self, job_id: str) -> Json:
        """One job: spec, plan, status, end_reason, progress, summary."""
        return self._wire.document("GET", api_path("jobs", job_id))

    def jobs(
        self, *, sort: str | Sequence[str] | None = None, page_size: int = 100, **filters: Unpack[JobFilters]
    ) -> Iterator[Json]:
        """All jobs that match, newest first, fetched page by page as they are consumed.

        `sort` is a field, `-` before it the greatest first, or up to four: `["-starred", "created"]`, or with commas
        between them. Filters: `status`, `label` (`key:value`, or several), `name`, `owner`, `project`, `paused`,
        `study`, `starred`, `archived`, `since` and `until` (a text is a time in RFC 3339), `search`, and `where`, a
        condition about any field such as `spec.batch_size>=64`, or several that all hold. Raises `TypeError`.
        """
        order = sort if sort is None or isinstance(sort, str) else ",".join(sort)
        return self._wire.pages(api_path("jobs"), {**_query(filters), "sort": order, "limit": page_size})

    def job_groups(
        self,
        by: str | Sequence[str],
        *,
        metric: str | Sequence[str] | None = None,
        page_size: int = 100,
        **filters: Unpack[JobFilters],
    ) -> Iterator[Json]:
        """The jobs that match, in groups with equal values of the field `by`, or of up to three fields.

        The groups with the newest jobs come first. `metric` sums up the best values of a metric, or of up to five. The
        filters are those of `jobs`; the `where` of a group selects its jobs there.
        """
        query = {**_query(filters), "by": by, "metric": metric, "limit": page_size}
        return self._wire.pages(api_path("jobs", "groups"), query)

    def job_count(self, **filters: Unpack[JobFilters]) -> Json:
        """How many jobs match: `jobs`, up to 100,000, and whether there are `more`. The filters are those of `jobs`."""
        return self._wire.document("GET", api_path("jobs", "count"), params=_query(filters))

    def queue(
        self, *, project: str | None = None, owner: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Json:
        """The first `limit` jobs that wait for slots, in the sequence of the queue, and the accounts by their turns.

        With the `next_cursor` of an answer as `cursor`, the jobs behind those. The places are those in the whole queue.
        """
        path, filters = api_path("queue"), {"project": project, "owner": owner}
        queue = self._wire.document(
            "GET", path, params={**filters, "limit": min(limit, _LONGEST_PAGE), "cursor": cursor}
        )
        jobs = list(queue["items"])
        while queue["next_cursor"] is not None and len(jobs) < limit:
            more = {"limit": min(limit - len(jobs), _LONGEST_PAGE), "cursor": queue["next_cursor"]}
            queue = self._wire.document("GET", path, params={**filters, **more})
            jobs += queue["items"]
        return {**queue, "items": jobs}

    def update(self, job_id: str, changes: Mapping[str, Any]) -> Json:
        """Change the job's `name`, `priority`, `time_limit_s`, `labels`, `notes`, `starred`, `archived` or `project`.

        Safe to repeat. Null removes the time limit, the notes, or a label: `{"labels": {"team": None}}`.
        """
        return self._wire.document("PATCH", api_path("jobs", job_id), json=dict(changes), repeatable=True)

    def delete(self, job_id: str) -> None:
        """Delete the job, which has ended, with its results, logs and files. It cannot be undone."""
        self._wire.send("DELETE", api_path("jobs", job_id))

    def cancel(self, job_id: str, *, save: bool = False) -> Json:
        """Cancel the job. It ends within seconds. With `save` it saves a checkpoint first. Safe to repeat."""
        query = {"save": "true"} if save else {}
        return self._wire.document("POST", api_path("jobs", job_id, "cancel"), params=query, repeatable=True)

    def pause(self, job_id: str) -> Json:
        """Pause the job. A running job saves first and goes back to the queue. Safe to repeat."""
        return self._wire.document("POST", api_path("jobs", job_id, "pause"), repeatable=True)

    def resume(self, job_id: str) -> Json:
        """Resume a paused job. Safe to repeat."""
        return self._wire.document("POST", api_path("jobs", job_id, "resume"), repeatable=True)

    def clone(
        self, job_id: str, changes: Mapping[str, Any] | None = None, *, idempotency_key: str | None = None
    ) -> Json:
        """Submit the job's spec again with `changes`, nested like the spec."""
        path, key = api_path("jobs", job_id, "clone"), key_header(idempotency_key)
        return self._wire.document("POST", path, json=dict(changes or {}), headers=key, repeatable=True)

    def dry_run_clone(self, job_id: str, changes: Mapping[str, Any] | None = None) -> Json:
        """The plan of a clone, as `dry_run` gives it for a spec. Nothing is stored."""
        path, query = api_path("jobs", job_id, "clone"), {"dry_run": "true"}
        return self._wire.document("POST", path, json=dict(changes or {}), params=query, repeatable=True)

    def analysis(self, job_id: str) -> Json:
        """How the job used its slots: findings, step shares, utilization, stalls, and the ledger of its time."""
        return self._wire.document("GET", api_path("jobs", job_id, "analysis"))

    def advice(self, job_id: str) -> list[Json]:
        """What to change next, the best change first. The `change` of each item fits `clone`."""
        return self._wire.items(api_path("jobs", job_id, "advice"), "items")

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
        return self._wire.items(api_path("jobs", job_id, "metrics"), "series", query)

    def metrics_of(
        self,
        job_ids: Sequence[str],
        *,
        name: str | Sequence[str],
        rank: int | Sequence[int] | None = None,
        axis: str | None = None,
        max_points: int | None = None,
    ) -> list[Json]:
        """Some metrics of up to 200 jobs at once: `{id, series}`, sorted like `job_ids`. Unknown jobs are left out.

        Without `rank`: those over all ranks.
        """
        query = {"job": list(job_ids), "name": name, "rank": rank, "axis": axis, "max_points": max_points}
        return self._wire.items(api_path("metrics"), "jobs", query)

    def utilization(
        self, job_id: str, *, metric: str | None = None, axis: str | None = None, max_points: int | None = None
    ) -> Json:
        """The load of the job's slots and hosts, sampled about once a second. `axis` is time, step or epoch."""
        query = {"metric": metric, "axis": axis, "max_points": max_points}
        return self._wire.document("GET", api_path("jobs", job_id, "utilization"), params=query)

    def events(self, job_id: str) -> list[Json]:
        """The job's history, oldest first."""
        return list(self._wire.pages(api_path("jobs", job_id, "events")))

    def attempts(self, job_id: str) -> list[Json]:
        """The launches of the job, oldest first."""
        return list(self._wire.pages(api_path("jobs", job_id, "attempts")))

    def wait(
        self,
        job_id: str,
        *,
        on_update: Callable[[Json], None] | None = None,
        on_unchanged: Callable[[], None] | None = None,
        timeout_s: float | None = None,
        period_s: float = 0.5,
    ) -> Json:
        """Return the job when it has ended. Raises `WaitTimeout`.

        `on_update` gets the job after each change, its end included. `on_unchanged` is called after each look that
        finds no change. The wait survives a service that is away for less than a minute.
        """
        return wait_for_end(
            partial(self._wire.newer, api_path("jobs", job_id)), job_id, noun="job",
            ended=lambda job: job["status"] in ENDED, on_update=on_update, on_unchanged=on_unchanged,
            timeout_s=timeout_s, period_s=period_s,
        )  # fmt: skip


def _query(filters: JobFilters) -> dict[str, Any]:
    """The filters as the service reads them. Raises `TypeError` for one that there is not."""
    times = {"since": _time(filters.get("since")), "until": _time(filters.get("until"))}
    return filter_query(filters, JobFilters.__annotations__, "jobs") | times


def _time(moment: datetime | str | None) -> str | None:
    """A time as the service reads it. One without a zone is this machine's."""
    return moment.astimezone().isoformat() if isinstance(moment, datetime) else moment
