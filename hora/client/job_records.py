"""What jobs recorded: series, logs, history and files. And what the service computes from them."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from hora.client.lists import Items
from hora.client.media import Media
from hora.client.news import NEWS, News
from hora.client.resource import Resource, described, reads, reads_list, reads_pages, reads_stream, returns
from hora.client.series import Axis, Metrics
from hora.service import Service
from jobs.views.advice import Advice
from jobs.views.analysis import Analysis
from jobs.views.artifacts import ArtifactView
from jobs.views.checkpoints import CheckpointView
from jobs.views.jobs import AttemptView, EventView
from jobs.views.series import LogLineView, UtilizationView

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")


class JobRecords(Resource):
    """The methods of `client.jobs` for what a job wrote. A `Job` has them too, without the id."""

    utilization = reads(UtilizationView, Service.utilization)
    logs = reads_stream(LogLineView, Service.log_lines)
    artifacts = reads_pages(ArtifactView, Service.artifacts)
    download = returns(Service.download_artifact)
    remove_artifacts = returns(Service.remove_artifacts)
    checkpoints = reads_pages(CheckpointView, Service.checkpoints)
    download_checkpoint = returns(Service.download_checkpoint)
    events = reads_list(EventView, Service.events)
    attempts = reads_list(AttemptView, Service.attempts)
    analysis = reads(Analysis, Service.analysis)
    advice = reads_list(Advice, Service.advice)

    def metrics(
        self,
        job_id: str,
        *,
        name: str | Sequence[str] | None = None,
        rank: int | Sequence[int] | None = None,
        axis: Axis = "step",
        max_points: int | None = None,
    ) -> Metrics:
        """The series of these names and ranks, or all. Rank -1 is over all ranks, with one point an epoch."""
        series = self._service.metrics(job_id, name=name, rank=rank, axis=axis, max_points=max_points)
        return Metrics.read(series, axis)

    def media(self, job_id: str, name: str | None = None) -> Items[Media]:
        """What a script kept by step: pictures, sounds, histograms, tables and curves. Of this name, or all."""
        found = (self._read(Media, one) for one in self._service.media(job_id))
        return Items(one.of(self._service, job_id) for one in found if name in (None, one.name))

    def follow(self, job_id: str, *, include: Sequence[str] | None = None) -> Iterator[News]:
        """The news of the job as they happen, from its start to its end. The last one is an `EndNews`.

        `include` names the kinds: `event` (a line of history), `state`, `progress`, `metrics`, `logs`. Without it the
        first three come. Each kind is a model of its own. A stream that breaks is resumed.
        """
        for event in self._service.follow(job_id, include=include):
            if event.event in NEWS:  # a newer service may have more kinds
                yield self._read(NEWS[event.event], event.data)


def of_job(
    method: Callable[Concatenate[JobRecords, str, Parameters], Answer],
) -> Callable[Concatenate[Any, Parameters], Answer]:
    """A method of `client.jobs` as a method of a `Job`, which gives its id."""

    def method_of_job(job: Any, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Answer:
        return method(job._resource, job.id, *args, **kwargs)

    of_resource = inspect.signature(method)
    resource, _, *parameters = of_resource.parameters.values()
    return described(method_of_job, method, of_resource.replace(parameters=[resource, *parameters]))


class RecordsOfJob:
    """The part of a `Job` that comes from `JobRecords`."""

    metrics = of_job(JobRecords.metrics)
    utilization = of_job(JobRecords.utilization)
    logs = of_job(JobRecords.logs)
    follow = of_job(JobRecords.follow)
    artifacts = of_job(JobRecords.artifacts)
    media = of_job(JobRecords.media)
    download = of_job(JobRecords.download)
    remove_artifacts = of_job(JobRecords.remove_artifacts)
    checkpoints = of_job(JobRecords.checkpoints)
    download_checkpoint = of_job(JobRecords.download_checkpoint)
    events = of_job(JobRecords.events)
    attempts = of_job(JobRecords.attempts)
    analysis = of_job(JobRecords.analysis)
    advice = of_job(JobRecords.advice)
