"""A job as an object: its fields and its methods. Made by `hora.client.jobs`."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field

from hora.client.job_records import RecordsOfJob
from hora.client.resource import Refreshable
from jobs.views.jobs import JobView, MetricView

if TYPE_CHECKING:
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

    def update(self, **fields: Any) -> Self:
        """Change the job's `name`, `priority`, `time_limit_s` or `labels`."""
        return self._become(self._resource.update(self.id, **fields))

    def cancel(self) -> Self:
        """Cancel the job. It ends within seconds."""
        return self._become(self._resource.cancel(self.id))

    def pause(self) -> Self:
        """Pause the job."""
        return self._become(self._resource.pause(self.id))

    def resume(self) -> Self:
        """Resume a paused job."""
        return self._become(self._resource.resume(self.id))

    def clone(self, changes: Mapping[str, Any] | None = None, **fields: Any) -> "Job":
        """Submit the job's spec again with changes, as a new job."""
        return self._resource.clone(self.id, changes, **fields)
