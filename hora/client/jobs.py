"""Jobs: submit, look up, steer, and read what they wrote."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from hora.client.job import Job
from hora.client.news import NEWS, News
from hora.client.reading import read
from hora.client.series import Axis, Metrics
from hora.errors import JobFailed
from hora.service import Json, Service
from jobs.model.spec import Spec
from jobs.model.states import Status
from jobs.views.advice import Advice
from jobs.views.analysis import Analysis
from jobs.views.artifacts import ArtifactView
from jobs.views.jobs import AttemptView, EventView, Preview
from jobs.views.series import LogLineView, UtilizationView

SpecLike = Spec | Mapping[str, Any]


class Jobs:
    """`client.jobs`. What is asked of one job by its id can be asked of a `Job` as well."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def submit(self, spec: SpecLike | None = None, *, idempotency_key: str | None = None, **fields: Any) -> Job:
        """Submit a spec, or a spec of these fields, or a spec with these fields laid over it.

        It is submitted once, however often it has to be sent. The same `idempotency_key` gives the same job again.
        """
        return self._job(self._service.submit(_document(spec, fields), idempotency_key=idempotency_key))

    def dry_run(self, spec: SpecLike | None = None, **fields: Any) -> Preview:
        """What such a submission comes to, with a quote from past jobs and warnings; nothing is stored."""
        return read(Preview, self._service.dry_run(_document(spec, fields)))

    def get(self, job_id: str) -> Job:
        """One job."""
        return self._job(self._service.job(job_id))

    def list(
        self,
        *,
        status: Status | str | None = None,
        label: str | None = None,
        name: str | None = None,
        owner: str | None = None,
        project: str | None = None,
        paused: bool | None = None,
        study: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        search: str | None = None,
        sort: str | None = None,
        page_size: int = 100,
    ) -> Iterator[Job]:
        """All jobs that match, newest first, fetched page by page as they are consumed. `label` is `key:value`.

        They were submitted at `since` or later and before `until`, and are known by a text (`search`): their name, id,
        owner, dataset, model or labels. `sort` is a field, `-` before it the greatest first.
        """
        found = self._service.jobs(
            status=status, label=label, name=name, owner=owner, project=project, paused=paused, study=study,
            since=_time(since), until=_time(until), search=search, sort=sort, page_size=page_size,
        )  # fmt: skip
        return map(self._job, found)

    def clone(
        self,
        job_id: str,
        changes: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> Job:
        """Submit the job's spec once more with changes, nested like the spec, laid over it."""
        document = {**(changes or {}), **fields}
        return self._job(self._service.clone(job_id, document, idempotency_key=idempotency_key))

    def cancel(self, job_id: str) -> Job:
        """Ask for the job's end; it comes within seconds. Asking twice does no harm."""
        return self._job(self._service.cancel(job_id))

    def pause(self, job_id: str) -> Job:
        """Let the job wait in the queue; a running one saves and goes back there."""
        return self._job(self._service.pause(job_id))

    def resume(self, job_id: str) -> Job:
        """Let a paused job go on."""
        return self._job(self._service.resume(job_id))

    def wait(
        self,
        job_id: str,
        *,
        timeout_s: float | None = None,
        check: bool = False,
        on_update: Callable[[Job], None] | None = None,
    ) -> Job:
        """The job when it has ended, whatever way; with `check` a `JobFailed` where it did not succeed.

        Raises `WaitTimeout`. `on_update` gets the job whenever it has changed, its end included. A service that goes
        away for less than a minute is waited for.
        """

        def tell(seen: Json) -> None:
            if on_update is not None:
                on_update(self._job(seen))

        job = self._job(self._service.wait(job_id, on_update=tell, timeout_s=timeout_s))
        if check and job.status != Status.SUCCEEDED:
            raise JobFailed(job)
        return job

    def metrics(
        self,
        job_id: str,
        *,
        name: str | Sequence[str] | None = None,
        rank: int | Sequence[int] | None = None,
        axis: Axis = "step",
        max_points: int | None = None,
    ) -> Metrics:
        """The series of these names and ranks, or all; rank -1 is over all ranks, with a point an epoch."""
        found = self._service.metrics(job_id, name=name, rank=rank, axis=axis, max_points=max_points)
        return Metrics.read(found, axis)

    def utilization(
        self, job_id: str, *, metric: str | None = None, axis: Axis = "time", max_points: int | None = None
    ) -> UtilizationView:
        """What the slots and hosts that the job had did, about once a second."""
        found = self._service.utilization(job_id, metric=metric, axis=axis, max_points=max_points)
        return read(UtilizationView, found)

    def logs(
        self,
        job_id: str,
        *,
        rank: int | None = None,
        search: str | None = None,
        tail: int | None = None,
        follow: bool = False,
    ) -> Iterator[LogLineView]:
        """The lines that the ranks printed; rank -1 is the launcher. `follow` goes on until the job has ended.

        With `search` those that contain a text, whatever the case.
        """
        found = self._service.log_lines(job_id, rank=rank, search=search, tail=tail, follow=follow)
        return (read(LogLineView, line) for line in found)

    def follow(self, job_id: str, *, include: Sequence[str] | None = None) -> Iterator[News]:
        """What the job tells as it happens, from its start to its end, an `EndNews`.

        `include` names the kinds: `event` (a line of history), `state`, `progress`, `metrics`, `logs`; the first three
        unless it is given. Each is a model of its own. A stream that breaks is gone on with.
        """
        for told in self._service.follow(job_id, include=include):
            if told.event in NEWS:  # a newer service may tell of more
                yield read(NEWS[told.event], told.data)

    def artifacts(self, job_id: str) -> Iterator[ArtifactView]:
        """The files that the job left, by their paths."""
        return (read(ArtifactView, one) for one in self._service.artifacts(job_id))

    def download(self, job_id: str, path: str, into: Path | str) -> Path:
        """Fetch a file that the job left to the file `into`. A download that broke off is gone on with."""
        return self._service.download_artifact(job_id, path, into)

    def events(self, job_id: str) -> Sequence[EventView]:
        """The job's history, oldest first."""
        return [read(EventView, one) for one in self._service.events(job_id)]

    def attempts(self, job_id: str) -> Sequence[AttemptView]:
        """The launches of the job, oldest first."""
        return [read(AttemptView, one) for one in self._service.attempts(job_id)]

    def analysis(self, job_id: str) -> Analysis:
        """How the job used what it had: findings, step shares, utilization, stalls, and the ledger of its seconds."""
        return read(Analysis, self._service.analysis(job_id))

    def advice(self, job_id: str) -> Sequence[Advice]:
        """What to change next, in the order in which to try it; the `change` of each is one for `clone`."""
        return [read(Advice, one) for one in self._service.advice(job_id)]

    def _job(self, document: Json) -> Job:
        job = read(Job, document)
        job._jobs = self
        return job


def _document(spec: SpecLike | None, fields: Mapping[str, Any]) -> SpecLike:
    """What is submitted; a model alone stays one, of which only what was set is sent."""
    if spec is None or isinstance(spec, Mapping):
        return {**(spec or {}), **fields}
    return {**spec.model_dump(mode="json", exclude_unset=True), **fields} if fields else spec


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone().isoformat()
