"""The jobs that a spec names: those in `after`, and those from whose weights it starts or from whose checkpoint it
continues. Called at submission, and by what removes files.

The new job waits for those of them that have not ended (`jobs.lifecycle.waits`). Everybody may read every job, so
everybody may name every job.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, String, any_, cast, func, literal, or_, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from jobs.db.tables import Job
from jobs.lifecycle.waits import BY_AGE, ended_text
from jobs.lifecycle.whole_ids import ambiguity, ids_that_begin, the_only
from jobs.model.origins import origin_of
from jobs.model.problems import FieldProblem
from jobs.model.spec import Spec
from jobs.model.states import TERMINAL, Status

_JOB_ID = re.compile(r"[0-9a-z]{1,32}")
_UNUSABLE = frozenset({Status.FAILED, Status.CANCELLED})
_LIVE = sorted(set(Status) - TERMINAL)
_weights = Job.spec["model"]["weights"].astext
_origin = Job.spec["continue_from"].astext


def weights_job(spec: Spec) -> str | None:
    """The id of the job from whose weights the spec starts; None if it does not."""
    if spec.model is None:
        return None
    prefix, colon, job_id = spec.model.weights.partition(":")
    return job_id if prefix == "job" and colon and _JOB_ID.fullmatch(job_id) else None


def with_whole_ids(session: Session, specs: Sequence[Spec]) -> list[Spec]:
    """The specs with whole ids where they name jobs by the beginnings of their ids.

    A beginning of no id, or of several, stays as it is: `problems_of_named` refuses it.
    """
    matching = ids_that_begin(session, Job.id, (text for spec in specs for text in _named_by(spec)))
    return [_with_whole_ids(spec, matching) for spec in specs] if matching else list(specs)


def _with_whole_ids(spec: Spec, matching: Mapping[str, Sequence[str]]) -> Spec:
    changes: dict[str, Any] = {}
    if spec.after:
        changes["after"] = [the_only(text, matching) for text in spec.after]
    if (starts_from := weights_job(spec)) is not None:
        weights = f"job:{the_only(starts_from, matching)}"
        changes["model"] = spec.own_model.model_copy(update={"weights": weights})
    if (origin := origin_of(spec.continue_from)) is not None:
        changes["continue_from"] = str(replace(origin, job_id=the_only(origin.job_id, matching)))
    return spec.model_copy(update=changes)


def ambiguous(session: Session, specs: Iterable[Spec]) -> dict[str, str]:
    """For each text that is the beginning of several ids, a sentence that names some of them."""
    matching = ids_that_begin(session, Job.id, (text for spec in specs for text in _named_by(spec)))
    return {text: problem for text in matching if (problem := ambiguity(text, matching))}


def lock_named(session: Session, specs: Iterable[Spec]) -> dict[str, Job]:
    """The jobs that the specs name, by id. Unknown ones are left out.

    They are locked until the commit. So none of them ends while another job begins to wait for it, and nobody removes
    weights or checkpoints from which a job is about to start.
    """
    ids = {job_id for spec in specs for job_id in _named_by(spec)}
    if not ids:
        return {}
    named = select(Job).where(Job.id == func.any(cast(sorted(ids), ARRAY(String))))
    in_order = named.order_by(*BY_AGE).with_for_update(read=True, key_share=True)
    return {job.id: job for job in session.scalars(in_order, execution_options={"populate_existing": True})}


def starting_from(session: Session, job_ids: Collection[str]) -> tuple[str, str] | None:
    """A job that starts from what one of these left, and has not ended: that one, and a clause that names the other."""
    left = {f"job:{job_id}": job_id for job_id in job_ids}
    named, origin = any_(literal(list(left), ARRAY(String))), func.split_part(_origin, "@", 1)
    starts = select(Job.id, _weights, origin).where(Job.status.in_(_LIVE), or_(_weights == named, origin == named))
    row = session.execute(starts.limit(1)).first()
    if row is None:
        return None
    starting, weights, continued = row
    if continued in left:
        return left[continued], f"job {starting} continues from it"
    return left[weights], f"job {starting} starts from its weights"


def weights_needed(session: Session) -> set[str]:
    """The jobs from whose weights a job starts that has not ended."""
    return _named_in(session, _weights)


def checkpoints_needed(session: Session) -> set[str]:
    """The jobs from whose checkpoints a job continues that has not ended."""
    return {text.partition("@")[0] for text in _named_in(session, _origin)}


def _named_in(session: Session, field: ColumnElement[str]) -> set[str]:
    named = session.scalars(select(field).where(Job.status.in_(_LIVE), field.startswith("job:")))
    return {text.removeprefix("job:") for text in named}


def problems_of_named(spec: Spec, named: Mapping[str, Job], ambiguities: Mapping[str, str] = {}) -> list[FieldProblem]:
    """Why the spec cannot wait for the jobs that it names, or start from what one left. `named` has their rows."""
    return [
        *_problems_of_after(spec, named, ambiguities), *_unusable_weights(spec, named, ambiguities),
        *_unusable_origin(spec, named, ambiguities),
    ]  # fmt: skip


def to_wait_for(spec: Spec, named: Mapping[str, Job]) -> list[str]:
    """The ids of the jobs that it names and that have not ended."""
    return [job_id for job_id in _named_by(spec) if named[job_id].status not in TERMINAL]


def _named_by(spec: Spec) -> list[str]:
    starts_from, origin = weights_job(spec), origin_of(spec.continue_from)
    named = [*spec.after, starts_from, None if origin is None else origin.job_id]
    return list(dict.fromkeys(job_id for job_id in named if job_id is not None))


def _problems_of_after(spec: Spec, named: Mapping[str, Job], ambiguities: Mapping[str, str]) -> Iterator[FieldProblem]:
    for position, job_id in enumerate(spec.after):
        job = named.get(job_id)
        if job is None:
            unknown = "there is no such job: name jobs that have not ended, or that have succeeded"
            message = ambiguities.get(job_id, unknown)
        elif job.status in _UNUSABLE:
            message = f"job {job_id} {ended_text(job)}: name jobs that have not ended, or that have succeeded"
        else:
            continue
        yield FieldProblem(f"after.{position}", message, job_id)


def _unusable_weights(spec: Spec, named: Mapping[str, Job], ambiguities: Mapping[str, str]) -> list[FieldProblem]:
    """Why the spec cannot start from the weights of another job, as far as that is known before the job has ended."""
    job_id = weights_job(spec)
    if job_id is None:
        return []
    job = named.get(job_id)
    if job is None:
        message = ambiguities.get(job_id, f"there is no job {job_id}")
    elif job.artifacts_removed_at is not None:
        message = f"the weights of job {job_id} were removed on {job.artifacts_removed_at:%Y-%m-%d}"
    elif job.status in _UNUSABLE:
        message = f"job {job_id} {ended_text(job)}: only a job that succeeds has weights to start from"
    elif job.run_id is not None:
        message = f"job {job_id} was imported: its weights are where it was trained, name their file"
    elif job.spec.get("code"):
        message = f"job {job_id} runs its own code: hand the path of its weights to a script, or name a file"
    elif job.spec.get("probe"):
        message = f"job {job_id} is a batch probe, which leaves no weights"
    elif job.spec["model"]["name"] != spec.own_model.name:
        message = f"job {job_id} trains {job.spec['model']['name']}: its weights do not fit {spec.own_model.name}"
    else:
        return []
    return [FieldProblem("model.weights", message, spec.own_model.weights)]


def _unusable_origin(spec: Spec, named: Mapping[str, Job], ambiguities: Mapping[str, str]) -> list[FieldProblem]:
    """Why the spec cannot continue from a checkpoint of another job, by its row: see `api.submitting.origins`."""
    origin = origin_of(spec.continue_from)
    if origin is None:
        return []
    job_id, job = origin.job_id, named.get(origin.job_id)
    if job is None:
        message = ambiguities.get(job_id, f"there is no job {job_id}")
    elif job.status not in TERMINAL:
        message = f"job {job_id} is {job.status}: a job can continue from it when it has ended"
    elif (removed_at := job.files_removed_at or job.artifacts_removed_at) is not None:
        message = f"the checkpoints of job {job_id} were removed on {removed_at:%Y-%m-%d}"
    elif job.run_id is not None:
        message = f"job {job_id} was imported: its checkpoints are where it was trained"
    elif job.spec.get("probe"):
        message = f"job {job_id} is a batch probe, which saves no checkpoints"
    else:
        return []
    return [FieldProblem("continue_from", message, spec.continue_from)]
