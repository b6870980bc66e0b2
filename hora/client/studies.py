"""Studies: grids of jobs, and their reports."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, Self, overload

from pydantic import ConfigDict, PrivateAttr

from hora.client.reading import Renewed, read
from hora.service import Json, Service
from jobs.views.studies import NoteView, StudyLine, StudyPreview, StudyReport, StudySpec, StudyView


class Study(Renewed, StudyView):
    """A study as it was when the service last told of it; `refresh` asks again.

    `wait`, `cancel`, `pause` and `resume` leave it as it is then, and return it.
    """

    model_config = ConfigDict(frozen=False)

    _studies: "Studies" = PrivateAttr()

    def refresh(self) -> Self:
        """Ask how the study is now."""
        return self._become(self._studies.get(self.id))

    def wait(self, *, timeout_s: float | None = None, on_update: Callable[["Study"], None] | None = None) -> Self:
        """Wait until all its jobs have ended, whatever way. Raises `WaitTimeout`."""

        def tell(seen: Study) -> None:
            self._become(seen)
            if on_update is not None:
                on_update(self)

        self._studies.wait(self.id, timeout_s=timeout_s, on_update=tell)
        return self

    def cancel(self) -> Self:
        """Ask for the end of all its jobs."""
        return self._become(self._studies.cancel(self.id))

    def pause(self) -> Self:
        """Let all its jobs wait; those that run save first."""
        return self._become(self._studies.pause(self.id))

    def resume(self) -> Self:
        """Let all its paused jobs go on, and run anew what failed or was cancelled."""
        return self._become(self._studies.resume(self.id))

    def note(self, text: str) -> NoteView:
        """Write a note to it."""
        return self._studies.note(self.id, text)

    def report(self, *, target: float | None = None) -> StudyReport:
        """How it came out so far; time and GPU-hours are measured to the validation accuracy `target`."""
        return self._studies.report(self.id, target=target)


class Studies:
    """`client.studies`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def submit(
        self,
        study: StudySpec | Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> Study:
        """Submit a study, or one of these fields: `base`, `grid`, `repeats` ... It is submitted once."""
        return self._study(self._service.submit_study(_document(study, fields), idempotency_key=idempotency_key))

    def dry_run(self, study: StudySpec | Mapping[str, Any] | None = None, **fields: Any) -> StudyPreview:
        """The cells of a study, each with what its jobs come to; nothing is stored."""
        return read(StudyPreview, self._service.dry_run_study(_document(study, fields)))

    def get(self, study_id: str) -> Study:
        """One study: its grid, its cells with their jobs, and its notes."""
        return self._study(self._service.study(study_id))

    def list(self, *, page_size: int = 100) -> Iterator[StudyLine]:
        """All studies without their jobs, newest first, fetched page by page as they are consumed."""
        return (read(StudyLine, one) for one in self._service.studies(page_size=page_size))

    def cancel(self, study_id: str) -> Study:
        """Ask for the end of all its jobs. Asking twice does no harm."""
        return self._study(self._service.cancel_study(study_id))

    def pause(self, study_id: str) -> Study:
        """Let all its jobs wait; those that run save first."""
        return self._study(self._service.pause_study(study_id))

    def resume(self, study_id: str) -> Study:
        """Let all its paused jobs go on, and run anew what failed or was cancelled."""
        return self._study(self._service.resume_study(study_id))

    def note(self, study_id: str, text: str) -> NoteView:
        """Write a note to the study."""
        return read(NoteView, self._service.note_study(study_id, text))

    @overload
    def report(
        self, study_id: str, *, target: float | None = None, format: Literal["json"] = "json"
    ) -> StudyReport: ...
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
    ) -> StudyReport | str | bytes:
        """How the study came out: a model, a text, or the bytes of a picture.

        Time and GPU-hours are measured to the validation accuracy `target`.
        """
        if format == "json":
            return read(StudyReport, self._service.report(study_id, target=target))
        return self._service.report(study_id, target=target, format=format)

    def wait(
        self,
        study_id: str,
        *,
        timeout_s: float | None = None,
        on_update: Callable[[Study], None] | None = None,
    ) -> Study:
        """The study when all its jobs have ended, whatever way. Raises `WaitTimeout`."""

        def tell(seen: Json) -> None:
            if on_update is not None:
                on_update(self._study(seen))

        return self._study(self._service.wait_study(study_id, on_update=tell, timeout_s=timeout_s))

    def _study(self, document: Json) -> Study:
        study = read(Study, document)
        study._studies = self
        return study


def _document(study: StudySpec | Mapping[str, Any] | None, fields: Mapping[str, Any]) -> StudySpec | Mapping[str, Any]:
    if study is None or isinstance(study, Mapping):
        return {**(study or {}), **fields}
    return {**study.model_dump(mode="json", exclude_unset=True), **fields} if fields else study
