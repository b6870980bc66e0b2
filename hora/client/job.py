"""A job as an object: its fields and its methods. Made by `hora.client.jobs`."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

from pydantic import Field

from hora.client.html import Html, facts, link, sparkline
from hora.client.job_records import RecordsOfJob
from hora.client.resource import Refreshable
from hora.errors import HoraError
from jobs.model.goals import goal_metric
from jobs.views.jobs import JobView, MetricView

if TYPE_CHECKING:
    from hora.client.fields import ChangeFields, SpecFields
    from hora.client.jobs import Jobs


class Job(RecordsOfJob, Refreshable, JobView):  # type: ignore[no-redef]
    """A job in the state of the service's last answer.

    `refresh`, `wait`, `update`, `cancel`, `pause` and `resume` change it in place, and return it. The methods are those
    of `client.jobs`, where they are described.
    """

    # `metrics` is the method, which gives the series. So the field of this name gets another one.
    metrics: ClassVar = RecordsOfJob.metrics  # type: ignore[assignment, misc]
    metric_values: dict[str, MetricView] = Field(
        {}, validation_alias="metrics", description="The last and the best value of every metric so far"
    )

    _resource: "Jobs"

    @property
    def url(self) -> str:
        """The address of the job on the page."""
        return f"{self._resource._service.url}/jobs/{self.id}"

    def refresh(self) -> Self:
        """Get the job's present state."""
        return self._become(self._resource.get(self.id))

    def wait(
        self,
        *,
        timeout_s: float | None = None,
        check: bool = False,
        on_update: Callable[["Job"], None] | None = None,
    ) -> Self:
        """Wait for the end. Raises `WaitTimeout`, and with `check` `JobFailed` if the job did not succeed."""

        def update(newer: Job) -> None:
            self._become(newer)
            if on_update is not None:
                on_update(self)

        self._resource.wait(self.id, timeout_s=timeout_s, check=check, on_update=update)
        return self

    def update(self, **fields: "Unpack[ChangeFields]") -> Self:
        """Change the job's `name`, `priority`, `time_limit_s`, `labels`, `notes`, `starred`, `archived`, `project`."""
        return self._become(self._resource.update(self.id, **fields))

    def delete(self) -> None:
        """Delete the job, which has ended, with its results, logs and files. It cannot be undone."""
        self._resource.delete(self.id)

    def cancel(self, *, save: bool = False) -> Self:
        """Cancel the job. It ends within seconds. With `save` it saves a checkpoint first."""
        return self._become(self._resource.cancel(self.id, save=save))

    def pause(self) -> Self:
        """Pause the job."""
        return self._become(self._resource.pause(self.id))

    def resume(self) -> Self:
        """Resume a paused job."""
        return self._become(self._resource.resume(self.id))

    def clone(self, changes: Mapping[str, Any] | None = None, **fields: "Unpack[SpecFields]") -> "Job":
        """Submit the job's spec again with changes, as a new job."""
        return self._resource.clone(self.id, changes, **fields)

    def continue_from(self, epoch: int | None = None, **fields: "Unpack[SpecFields]") -> "Job":
        """Continue the job, which has ended, in a new one: from its newest checkpoint, or from that of an epoch."""
        return self._resource.continue_from(self.id, epoch, **fields)

    def _goal(self) -> str | None:
        """The metric that says how good the job is."""
        goal: str | None = (self.spec.get("goal") or {}).get("metric")
        return goal or goal_metric(None, self.metric_values)

    def _cells(self) -> dict[str, object]:
        """The job as a line of a table in a notebook."""
        goal, progress = self._goal(), self.progress
        value = self.metric_values.get(goal) if goal else None
        return {
            "id": link(self.url, self.id),
            "name": self.name,
            "status": self.status,
            "dataset": (self.spec.get("dataset") or {}).get("source"),
            "model": (self.spec.get("model") or {}).get("name"),
            "gpus": self.gpus,
            "epoch": f"{progress.epoch}/{progress.epochs}" if progress.epochs else progress.epoch or None,
            "best": None if value is None or value.best is None else f"{goal} {value.best:.4g}",
            "created": self.created_at,
        }

    def _repr_html_(self) -> str:
        more = {"error": self.error, "waiting": self.waiting and self.waiting.reason, "by epoch": self._curve()}
        return facts({name: value for name, value in {**self._cells(), **more}.items() if value})

    def _curve(self) -> Html:
        """The goal over the epochs so far."""
        goal = self._goal()
        if goal not in self.metric_values or goal is None:
            return Html("")
        with suppress(HoraError):  # a notebook shows the rest
            return Html("".join(sparkline(one.y) for one in self.metrics(name=goal, rank=-1, axis="epoch")))
        return Html("")

    def __repr_args__(self) -> list[tuple[str | None, object]]:
        """What `print` shows."""
        return [("id", self.id), ("name", self.name), ("status", str(self.status))]
