"""The Python client of a Hora service, over HTTP.

    with Client(url, token) as client:
        job = client.submit({"dataset": "digits", "batch_size": 64, "learning_rate": 0.001, "gpus": 2})
        job = client.wait(job["id"])

Jobs, studies and all other answers are the API's own JSON, as dicts. Errors:

    HoraError
      ServiceUnavailable    no answer: nothing listens there, or it went away
      ProblemError          the service said no: `status`, `title`, `detail`, and `errors` by field
        NotFound            404
        NotAuthorized       401 or 403
      WaitTimeout           the job or the study has not ended yet
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, overload
from uuid import uuid4

import httpx2 as httpx

from hora.errors import (
    HoraError,
    Json,
    NotAuthorized,
    NotFound,
    ProblemError,
    ServiceUnavailable,
    WaitTimeout,
)
from hora.transport import Transport, at
from hora.waiting import wait_for_end

if TYPE_CHECKING:
    from pydantic import BaseModel

    from jobs.spec import Spec
    from jobs.studies.shape import StudySpec

__all__ = [
    "Client", "HoraError", "Json", "NotAuthorized", "NotFound", "ProblemError", "ServiceUnavailable", "WaitTimeout",
]  # fmt: skip

ENDED = frozenset({"succeeded", "failed", "cancelled"})


class Client:
    """A connection to one service. Close it, or use it as a context manager; it may be shared by threads.

    A request that got no answer is sent again when that is safe: it only reads, or it carries a key by which
    the service knows it again. Every method raises `ServiceUnavailable` and `ProblemError`.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._wire = Transport(url, token, timeout_s, transport)
        self.url = self._wire.url

    def submit(self, spec: "Spec | Mapping[str, Any]", *, idempotency_key: str | None = None) -> Json:
        """Submit a spec and return its job. The same key gives the same job again; without one it gets its own."""
        return self._wire.document("POST", at("jobs"), json=_document(spec), headers=_key(idempotency_key), again=True)

    def dry_run(self, spec: "Spec | Mapping[str, Any]") -> Json:
        """What the spec comes to, with a quote from past jobs and warnings; nothing is stored."""
        return self._wire.document("POST", at("jobs"), json=_document(spec), params={"dry_run": "true"}, again=True)

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
        path, key = at("jobs", job_id, "clone"), _key(idempotency_key)
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

    def submit_study(self, document: "StudySpec | Mapping[str, Any]", *, idempotency_key: str | None = None) -> Json:
        """Submit a study and return it, its jobs in the queue. The same key gives the same study again."""
        return self._wire.document(
            "POST", at("studies"), json=_document(document), headers=_key(idempotency_key), again=True
        )

    def dry_run_study(self, document: "StudySpec | Mapping[str, Any]") -> Json:
        """The cells of a study, each with what its jobs come to; nothing is stored."""
        query = {"dry_run": "true"}
        return self._wire.document("POST", at("studies"), json=_document(document), params=query, again=True)

    def study(self, study_id: str) -> Json:
        """One study: its grid, its cells with their jobs, how many of these are in which status, and its notes."""
        return self._wire.document("GET", at("studies", study_id))

    def studies(self, *, page_size: int = 100) -> Iterator[Json]:
        """All studies, newest first, fetched page by page as they are consumed."""
        yield from self._wire.pages(at("studies"), {"limit": page_size})

    def cancel_study(self, study_id: str) -> Json:
        """Ask for the end of all its jobs. Asking twice does no harm."""
        return self._wire.document("POST", at("studies", study_id, "cancel"), again=True)

    def pause_study(self, study_id: str) -> Json:
        """Let all its jobs wait; those that run save first. Asking twice does no harm."""
        return self._wire.document("POST", at("studies", study_id, "pause"), again=True)

    def resume_study(self, study_id: str) -> Json:
        """Let all its paused jobs go on, and run anew what failed or was cancelled. Asking twice does no harm."""
        return self._wire.document("POST", at("studies", study_id, "resume"), again=True)

    def note_study(self, study_id: str, text: str) -> Json:
        """Write a note to the study, and return it."""
        return self._wire.document("POST", at("studies", study_id, "notes"), json={"text": text})

    @overload
    def report(self, study_id: str, *, target: float | None = None, format: Literal["json"] = "json") -> Json: ...
    @overload
    def report(self, study_id: str, *, target: float | None = None, format: Literal["markdown", "csv"]) -> str: ...
    @overload
    def report(self, study_id: str, *, target: float | None = None, format: Literal["png"]) -> bytes: ...
    def report(
        self,
        study_id: str,
        *,
        target: float | None = None,
        format: Literal["json", "markdown", "csv", "png"] = "json",  # noqa: A002 - what the API calls it
    ) -> Json | str | bytes:
        """How the study came out: a mapping, a text, or the bytes of a picture.

        Time and GPU-hours are measured to the validation accuracy `target`.
        """
        path, query = at("studies", study_id, "report"), {"target": target, "format": format}
        if format == "json":
            return self._wire.document("GET", path, params=query)
        answer = self._wire.send("GET", path, params=query, headers={"Accept": "*/*"})
        return answer.content if format == "png" else answer.text

    def hosts(self) -> list[Json]:
        """The hosts and their slots."""
        return list(self._wire.pages(at("hosts")))

    def host(self, name: str) -> Json:
        """One host and its slots."""
        return self._wire.document("GET", at("hosts", name))

    def host_utilization(
        self, name: str, *, metric: str | None = None, minutes: float | None = None, max_points: int | None = None
    ) -> Json:
        """What the whole host did in the last minutes: `{start, series: [{metric, unit, x, y}]}`, x in seconds."""
        query = {"metric": metric, "minutes": minutes, "max_points": max_points}
        return self._wire.document("GET", at("hosts", name, "utilization"), params=query)

    def drain(self, name: str, *, requeue: bool = False) -> Json:
        """Place nothing new on the host; with `requeue` the jobs there save and go elsewhere."""
        return self._wire.document("POST", at("hosts", name, "drain"), json={"requeue": requeue}, again=True)

    def undrain(self, name: str) -> Json:
        """Let jobs be placed on the host again."""
        return self._wire.document("POST", at("hosts", name, "undrain"), again=True)

    def forget_host(self, name: str) -> None:
        """Remove a host that is lost; it registers anew if it comes back."""
        self._wire.send("DELETE", at("hosts", name))

    def is_ready(self) -> bool:
        """Whether the service answers and can serve requests. Raises only `ServiceUnavailable`."""
        try:
            self.readiness()
        except ProblemError:
            return False
        return True

    def readiness(self) -> Json:
        """How the service's database, its schema and the broker are; a `ProblemError` where it is not ready."""
        return self._wire.document("GET", "/readyz")

    def clock(self) -> datetime:
        """The service's time, to the second."""
        return parsedate_to_datetime(self._wire.send("GET", "/healthz").headers["Date"])

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

    def wait_study(
        self,
        study_id: str,
        *,
        on_update: Callable[[Json], None] | None = None,
        timeout_s: float | None = None,
        period_s: float = 1.0,
    ) -> Json:
        """Return the study when all its jobs have ended, whatever way; else as `wait`. Raises `WaitTimeout`."""
        return wait_for_end(
            partial(self._wire.newer, at("studies", study_id)), study_id, noun="study",
            ended=lambda study: bool(study["complete"]), on_update=on_update, timeout_s=timeout_s, period_s=period_s,
        )  # fmt: skip

    def close(self) -> None:
        """Close the connections."""
        self._wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _key(given: str | None) -> dict[str, str]:
    """The header by which the service knows a submission again."""
    return {"Idempotency-Key": given or uuid4().hex}


def _document(spec: "BaseModel | Mapping[str, Any]") -> Json:
    """What is sent: of a model only what was set, so that the service's own defaults hold for the rest."""
    return dict(spec) if isinstance(spec, Mapping) else spec.model_dump(mode="json", exclude_unset=True)
