"""Jobs: submit, look up, wait, and read what they wrote."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from hora.errors import Json
from hora.service.calls import ENDED, Calls, document_of, key_header
from hora.transport import at
from hora.waiting import wait_for_end

if TYPE_CHECKING:
    from jobs.spec import Spec


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
        paused: bool | None = None,
        study: str | None = None,
        sort: str | None = None,
        page_size: int = 100,
    ) -> Iterator[Json]:
        """All jobs that match, newest first, fetched page by page as they are consumed. `label` is `key:value`."""
        filters = {
            "status": status, "label": label, "name": name, "paused": paused, "study": study, "sort": sort,
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
        self, job_id: str, *, name: str | None = None, axis: str | None = None, max_points: int | None = None
    ) -> list[Json]:
        """Series `{name, rank, x, y}`; rank -1 is over all ranks. `axis` is step, epoch or time."""
        query = {"name": name, "axis": axis, "max_points": max_points}
        return self._wire.items(at("jobs", job_id, "metrics"), "series", query)

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
        tail: int | None = None,
        after: int | None = None,
        limit: int | None = None,
    ) -> Json:
        """Log lines `{items: [{id, at, attempt, rank, text}], next_after}`; rank -1 is the launcher.

        `after` gives the lines that follow that id, `tail` only the last ones.
        """
        query = {"rank": rank, "tail": tail, "after": after, "limit": limit}
        return self._wire.document("GET", at("jobs", job_id, "logs"), params=query)

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
