"""Studies: submit, find, control, wait, and read their reports."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

from hora.errors import Json
from hora.service.calls import Calls, document_of, filter_query, key_header
from hora.service.transport import api_path
from hora.service.waiting import wait_for_end

if TYPE_CHECKING:
    from jobs.views.studies import StudySpec

Outliers = Literal["set_aside", "keep"]


class StudyFilters(TypedDict, total=False):
    """Which studies a list has: those with a job that matches every part that is given. As `JobFilters`."""

    status: str | None
    label: str | Sequence[str] | None
    owner: str | None
    project: str | None
    starred: bool | None
    archived: bool | None
    search: str | None
    where: str | Sequence[str] | None


class StudyCalls(Calls):
    """The requests about studies."""

    def submit_study(self, document: "StudySpec | Mapping[str, Any]", *, idempotency_key: str | None = None) -> Json:
        """Submit a study and return it. The same key gives the same study again."""
        return self._wire.document(
            "POST",
            api_path("studies"),
            json=document_of(document),
            headers=key_header(idempotency_key),
            repeatable=True,
        )

    def dry_run_study(self, document: "StudySpec | Mapping[str, Any]") -> Json:
        """The cells of a study, each with the plan of its jobs. Nothing is stored."""
        query = {"dry_run": "true"}
        return self._wire.document(
            "POST", api_path("studies"), json=document_of(document), params=query, repeatable=True
        )

    def study(self, study_id: str) -> Json:
        """One study: its grid, its cells with their jobs, the number of jobs in each status, and its notes."""
        return self._wire.document("GET", api_path("studies", study_id))

    def studies(self, *, page_size: int = 100, **filters: Unpack[StudyFilters]) -> Iterator[Json]:
        """All studies with a job that matches, newest first, fetched page by page as they are consumed.

        Filters: `status`, `label`, `owner`, `project`, `starred`, `archived`, `search` and `where`, as those of `jobs`.
        Raises `TypeError`.
        """
        query = filter_query(filters, StudyFilters.__annotations__, "studies")
        return self._wire.pages(api_path("studies"), {**query, "limit": page_size})

    def cancel_study(self, study_id: str, *, save: bool = False) -> Json:
        """Cancel all its jobs. With `save` those that run save first. Safe to repeat."""
        query = {"save": "true"} if save else {}
        return self._wire.document("POST", api_path("studies", study_id, "cancel"), params=query, repeatable=True)

    def pause_study(self, study_id: str) -> Json:
        """Pause all its jobs. Those that run save first. Safe to repeat."""
        return self._wire.document("POST", api_path("studies", study_id, "pause"), repeatable=True)

    def resume_study(self, study_id: str) -> Json:
        """Resume its paused jobs, and run those again that failed or were cancelled. Safe to repeat."""
        return self._wire.document("POST", api_path("studies", study_id, "resume"), repeatable=True)

    def update_study(self, study_id: str, changes: Mapping[str, Any]) -> Json:
        """Change its `project`, with all its jobs, when it has ended. Safe to repeat."""
        return self._wire.document("PATCH", api_path("studies", study_id), json=dict(changes), repeatable=True)

    def delete_study(self, study_id: str) -> None:
        """Delete the study, which has ended, with its notes and all its jobs. It cannot be undone."""
        self._wire.send("DELETE", api_path("studies", study_id))

    def note_study(self, study_id: str, text: str) -> Json:
        """Add a note to the study, and return the note."""
        return self._wire.document("POST", api_path("studies", study_id, "notes"), json={"text": text})

    @overload
    def report(
        self,
        study_id: str,
        *,
        target: float | None = None,
        outliers: Outliers | None = None,
        format: Literal["json"] = "json",
    ) -> Json: ...
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
    ) -> Json | str | bytes:
        """The study's results: a mapping, a text, or the bytes of a picture.

        Time and GPU-hours are measured to the validation accuracy `target`. With `outliers="keep"` the figures of
        speed have the repeats that stalled too.
        """
        path, query = (
            api_path("studies", study_id, "report"),
            {"target": target, "outliers": outliers, "format": format},
        )
        if format == "json":
            return self._wire.document("GET", path, params=query)
        answer = self._wire.send("GET", path, params=query, headers={"Accept": "*/*"})
        return answer.content if format == "png" else answer.text

    def study_curves(self, study_id: str) -> Json:
        """Its learning curves: for each metric and each cell the mean of its repeats, and their range."""
        return self._wire.document("GET", api_path("studies", study_id, "curves"))

    def wait_study(
        self,
        study_id: str,
        *,
        on_update: Callable[[Json], None] | None = None,
        timeout_s: float | None = None,
        period_s: float = 1.0,
    ) -> Json:
        """Return the study when all its jobs have ended. Otherwise like `wait`. Raises `WaitTimeout`."""
        return wait_for_end(
            partial(self._wire.newer, api_path("studies", study_id)), study_id, noun="study",
            ended=lambda study: bool(study["complete"]), on_update=on_update, timeout_s=timeout_s, period_s=period_s,
        )  # fmt: skip
