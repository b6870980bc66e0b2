"""The views of rows that several routes answer with."""

from jobs.db.tables import Job, Token
from jobs.db.tables.work import NOTES_START
from jobs.model.documents import knows_epochs
from jobs.model.origins import origin_of
from jobs.model.remedies import EXPLANATIONS, Explanation
from jobs.model.spec_parts import ProbeSpec
from jobs.model.states import EndReason
from jobs.model.stored_spec import with_defaults
from jobs.scheduling.queue import Standing
from jobs.views.jobs import ContinuedFrom, DatasetRefView, DatasetView, JobUsage, JobView, Progress, WaitingView
from jobs.views.people import TokenView

# Fields that are not columns as they are, but computed from them.
_NOT_COLUMNS = frozenset({
    "progress", "dataset", "dataset_version", "notes", "notes_line", "spec", "study", "usage", "waiting", "cause",
    "remedy", "continued_from",
})  # fmt: skip


def job_view(
    job: Job, *, is_whole: bool = True, standing: Standing | None = None, usage: JobUsage | None = None
) -> JobView:
    """The view of a job's row. If `is_whole`, the names of the classes and the notes are loaded from the database."""
    fields = {name: getattr(job, name) for name in JobView.model_fields if name not in _NOT_COLUMNS}
    dataset = None
    if job.dataset is not None:
        dataset = DatasetView.model_validate({**job.dataset, "classes": job.classes if is_whole else None})
    version = None if job.dataset_ref is None else DatasetRefView.model_validate(job.dataset_ref)
    end = Explanation(None) if job.end_reason is None else EXPLANATIONS[EndReason(job.end_reason)]
    notes = None if job.notes_at is None else job.notes if is_whole else job.notes_start
    waiting = None if standing is None else WaitingView.model_validate(standing)
    origin = origin_of(job.spec.get("continue_from"))
    continued = None if origin is None else ContinuedFrom(job=origin.job_id, epoch=origin.epoch or 0)
    return JobView(
        **fields, continued_from=continued,
        spec=with_defaults(job.spec), progress=progress_of(job), dataset=dataset, dataset_version=version,
        waiting=waiting, usage=usage, study=job.study_id, cause=end.cause, remedy=end.remedy,
        notes=notes if is_whole else None, notes_line=_line_of(notes),
    )  # fmt: skip


def _line_of(notes: str | None) -> str | None:
    return None if notes is None else " ".join(notes[:NOTES_START].split())


def token_view(token: Token) -> TokenView:
    """The view of a token's row."""
    columns = {name: "user_name" if name == "user" else name for name in TokenView.model_fields}
    return TokenView.model_validate({name: getattr(token, column) for name, column in columns.items()})


def progress_of(job: Job) -> Progress:
    """The progress of a job."""
    epochs, steps_per_epoch = job.plan.get("epochs"), job.plan.get("steps_per_epoch")
    epochs = epochs if knows_epochs(job.spec) else None
    steps = epochs * steps_per_epoch if epochs and steps_per_epoch else None
    probe = job.spec.get("probe")
    batches = ProbeSpec.model_validate(probe).batches(job.plan["per_gpu_batch"]) if probe else []
    expected = {"steps": len(batches), "per_gpu_batch": None} if probe else {"epochs": epochs, "steps": steps}
    progress = Progress.model_validate({**expected, **(job.progress or {})})
    return progress if job.ended_at is None else progress.model_copy(update={"eta_s": None})
