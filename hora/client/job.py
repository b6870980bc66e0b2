"""A job in the hand: what it is, and what can be asked of it. Made by `hora.client.jobs`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import PrivateAttr

from hora.client.news import News
from hora.client.reading import Renewed
from hora.client.series import Axis, Metrics
from jobs.views.advice import Advice
from jobs.views.analysis import Analysis
from jobs.views.artifacts import ArtifactView
from jobs.views.jobs import AttemptView, EventView, JobView
from jobs.views.series import LogLineView, UtilizationView

if TYPE_CHECKING:
    from hora.client.jobs import Jobs


class Job(Renewed, JobView):
    """A job as it was when the service last told of it; `refresh` asks again.

    `wait`, `cancel`, `pause` and `resume` leave it as it is then, and return it. The methods are those of
    `client.jobs`, where they are described.
    """

    _jobs: "Jobs" = PrivateAttr()

    def refresh(self) -> Self:
        """Ask how the job is now."""
        return self._become(self._jobs.get(self.id))

    def wait(
        self,
        *,
        timeout_s: float | None = None,
        check: bool = False,
        on_update: Callable[["Job"], None] | None = None,
    ) -> Self:
        """Wait for the end. Raises `WaitTimeout`, and with `check` `JobFailed` where the job did not succeed."""

        def tell(seen: Job) -> None:
            self._become(seen)
            if on_update is not None:
                on_update(self)

        self._jobs.wait(self.id, timeout_s=timeout_s, check=check, on_update=tell)
        return self

    def cancel(self) -> Self:
        """Ask for the job's end; it comes within seconds."""
        return self._become(self._jobs.cancel(self.id))

    def pause(self) -> Self:
        """Let the job wait in the queue."""
        return self._become(self._jobs.pause(self.id))

    def resume(self) -> Self:
        """Let a paused job go on."""
        return self._become(self._jobs.resume(self.id))

    def clone(self, changes: Mapping[str, Any] | None = None, **fields: Any) -> "Job":
        """Submit the job's spec once more with changes: another job."""
        return self._jobs.clone(self.id, changes, **fields)

    def metrics(
        self,
        *,
        name: str | Sequence[str] | None = None,
        rank: int | Sequence[int] | None = None,
        axis: Axis = "step",
        max_points: int | None = None,
    ) -> Metrics:
        """What the job measured, a series a name and rank."""
        return self._jobs.metrics(self.id, name=name, rank=rank, axis=axis, max_points=max_points)

    def utilization(
        self, *, metric: str | None = None, axis: Axis = "time", max_points: int | None = None
    ) -> UtilizationView:
        """What its slots and hosts did."""
        return self._jobs.utilization(self.id, metric=metric, axis=axis, max_points=max_points)

    def logs(
        self,
        *,
        rank: int | None = None,
        search: str | None = None,
        tail: int | None = None,
        follow: bool = False,
    ) -> Iterator[LogLineView]:
        """The lines that its ranks printed; with `search` those with a text, with `follow` until the job has ended."""
        return self._jobs.logs(self.id, rank=rank, search=search, tail=tail, follow=follow)

    def follow(self, *, include: Sequence[str] | None = None) -> Iterator[News]:
        """What it tells as it happens, from its start to its end."""
        return self._jobs.follow(self.id, include=include)

    def artifacts(self) -> Iterator[ArtifactView]:
        """The files that it left."""
        return self._jobs.artifacts(self.id)

    def download(self, path: str, into: Path | str) -> Path:
        """Fetch a file that it left to the file `into`."""
        return self._jobs.download(self.id, path, into)

    def events(self) -> Sequence[EventView]:
        """Its history, oldest first."""
        return self._jobs.events(self.id)

    def attempts(self) -> Sequence[AttemptView]:
        """Its launches, oldest first."""
        return self._jobs.attempts(self.id)

    def analysis(self) -> Analysis:
        """How it used what it had."""
        return self._jobs.analysis(self.id)

    def advice(self) -> Sequence[Advice]:
        """What to change next; the `change` of each is one for `clone`."""
        return self._jobs.advice(self.id)
