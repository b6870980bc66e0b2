"""Studies: grids of jobs, and their reports."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, overload

from pydantic import ConfigDict

from hora.client.html import MORE, MOST_ROWS, facts, link, rows
from hora.client.resource import Refreshable, Resource, document_with, reads, reads_pages, returns
from hora.service import Json, Service
from hora.service.studies import Outliers
from jobs.views.studies import ListedStudy, NoteView, StudyCurves, StudyPreview, StudyReport, StudySpec, StudyView

if TYPE_CHECKING:
    from hora.client.fields import StudyFields

StudyLike = StudySpec | Mapping[str, Any]


class Study(Refreshable, StudyView):
    """A study in the state of the service's last answer.

    `refresh`, `wait`, `update`, `cancel`, `pause` and `resume` update it in place, and return it.
    """

    model_config = ConfigDict(frozen=False)

    _resource: "Studies"

    @property
    def url(self) -> str:
        """The address of the study on the page."""
        return f"{self._resource._service.url}/studies/{self.id}"

    def refresh(self) -> Self:
        """Get the study's present state."""
        return self._become(self._resource.get(self.id))

    def wait(self, *, timeout_s: float | None = None, on_update: Callable[["Study"], None] | None = None) -> Self:
        """Wait until all its jobs have ended. Raises `WaitTimeout`."""

        def update(newer: Study) -> None:
            self._become(newer)
            if on_update is not None:
                on_update(self)

        self._resource.wait(self.id, timeout_s=timeout_s, on_update=update)
        return self

    def cancel(self, *, save: bool = False) -> Self:
        """Cancel all its jobs. With `save` those that run save a checkpoint first, from which others can continue."""
        return self._become(self._resource.cancel(self.id, save=save))

    def pause(self) -> Self:
        """Pause all its jobs. Those that run save first."""
        return self._become(self._resource.pause(self.id))

    def resume(self) -> Self:
        """Resume its paused jobs, and run those again that failed or were cancelled."""
        return self._become(self._resource.resume(self.id))

    def update(self, *, project: str) -> Self:
        """Move it to this project, with all its jobs, when it has ended."""
        return self._become(self._resource.update(self.id, project=project))

    def delete(self) -> None:
        """Delete it, which has ended, with its notes and all its jobs. It cannot be undone."""
        self._resource.delete(self.id)

    def note(self, text: str) -> NoteView:
        """Add a note to it."""
        return self._resource.note(self.id, text)

    def report(self, *, target: float | None = None, outliers: Outliers | None = None) -> StudyReport:
        """Its results so far. Time and GPU-hours are measured to the validation accuracy `target`.

        With `outliers="keep"` the figures of speed have the repeats that stalled too.
        """
        return self._resource.report(self.id, target=target, outliers=outliers)

    def curves(self) -> StudyCurves:
        """Its learning curves so far: of each cell the mean of its repeats, and their range."""
        return self._resource.curves(self.id)

    def _repr_html_(self) -> str:
        counts = ", ".join(f"{number} {status}" for status, number in self.counts.items())
        head = facts({"id": link(self.url, self.id), "name": self.name, "jobs": counts, "waits for": self.obstacle})
        cells = [
            {**cell.values, "gpus": cell.gpus, "jobs": ", ".join(job.status for job in cell.jobs)}
            for cell in self.cells[:MOST_ROWS]
        ]
        return head + rows(cells) + (MORE if len(self.cells) > MOST_ROWS else "")

    def __repr_args__(self) -> list[tuple[str | None, object]]:
        """What `print` shows."""
        return [("id", self.id), ("name", self.name), ("counts", {str(key): n for key, n in self.counts.items()})]


class Studies(Resource):
    """`client.studies`."""

    get = reads(Study, Service.study)
    list = reads_pages(ListedStudy, Service.studies)
    cancel = reads(Study, Service.cancel_study)
    pause = reads(Study, Service.pause_study)
    resume = reads(Study, Service.resume_study)
    delete = returns(Service.delete_study)
    note = reads(NoteView, Service.note_study)
    curves = reads(StudyCurves, Service.study_curves)

    def update(self, study_id: str, *, project: str) -> Study:
        """Move the study to this project, with all its jobs, when it has ended."""
        return self._read(Study, self._service.update_study(study_id, {"project": project}))

    def submit(
        self, study: StudyLike | None = None, *, idempotency_key: str | None = None, **fields: "Unpack[StudyFields]"
    ) -> Study:
        """Submit a study, or one of these fields: `base`, `grid`, `repeats` ... It is submitted once."""
        document = document_with(study, fields)
        return self._read(Study, self._service.submit_study(document, idempotency_key=idempotency_key))

    def dry_run(self, study: StudyLike | None = None, **fields: "Unpack[StudyFields]") -> StudyPreview:
        """The cells of a study, each with the plan of its jobs. Nothing is stored."""
        return self._read(StudyPreview, self._service.dry_run_study(document_with(study, fields)))

    @overload
    def report(
        self,
        study_id: str,
        *,
        target: float | None = None,
        outliers: Outliers | None = None,
        format: Literal["json"] = "json",
    ) -> StudyReport: ...
    @overload
    def report(
        self,
        study_id: str,
        *,
        target: float | None = None,
        outliers: Outliers | None = None,
        format: Literal["markdown", "csv"],
    ) -> str: ...
    @overload
    def report(
        self, study_id: str, *, target: float | None = None, outliers: Outliers | None = None, format: Literal["png"]
    ) -> bytes: ...
    def report(
        self,
        study_id: str,
        *,
        target: float | None = None,
        outliers: Outliers | None = None,
        format: Literal["json", "markdown", "csv", "png"] = "json",  # noqa: A002 - what the API calls it
    ) -> StudyReport | str | bytes:
        """The study's results: a model, a text, or the bytes of a picture.

        Time and GPU-hours are measured to the validation accuracy `target`. With `outliers="keep"` the figures of
        speed have the repeats that stalled too.
        """
        if format == "json":
            return self._read(StudyReport, self._service.report(study_id, target=target, outliers=outliers))
        return self._service.report(study_id, target=target, outliers=outliers, format=format)

    def wait(
        self,
        study_id: str,
        *,
        timeout_s: float | None = None,
        on_update: Callable[[Study], None] | None = None,
    ) -> Study:
        """Return the study when all its jobs have ended. Raises `WaitTimeout`."""

        def update(document: Json) -> None:
            if on_update is not None:
                on_update(self._read(Study, document))

        return self._read(Study, self._service.wait_study(study_id, on_update=update, timeout_s=timeout_s))
