"""Submitting a job or a study: from the spec to the answer. Called by the routes of jobs and of studies.

Both take the same steps:

1. Check every spec. Refuse nothing yet.
2. Look up the Idempotency-Key. If it was used before, give the first answer again, even if hosts, data or quotas have
   changed since.
3. Admit: refuse what this stack can never run, and what hosts, projects and other jobs do not allow now.
4. A dry run ends here, with a preview. Nothing is stored.
5. Write the rows and the line of the audit log, in the transaction of the steps before.
6. After the commit, send a hint to the dispatchers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from fastapi import Response
from pydantic import BaseModel
from sqlalchemy.orm import Session

from api.callers import Caller
from api.deps import Services, as_json
from api.polling import versions
from api.polling.entity_tags import job_tag, study_tag
from api.row_views import job_view
from api.submitting.origins import Origins
from api.submitting.received_specs import spec_in, study_in
from api.submitting.spec_checks import CheckedSpec, StateChecks, check_spec
from jobs.data.code import mark_used
from jobs.data.resolving import Registry
from jobs.db.tables import Job
from jobs.insight.advice.quote import preview
from jobs.insight.advice.warnings import StorageLimits
from jobs.insight.studies import store
from jobs.insight.studies.grid import Cell, CellProblems
from jobs.insight.studies.space import EndProblems, grid_of_ends, space_of, trials_of
from jobs.lifecycle.named_jobs import with_whole_ids
from jobs.lifecycle.submission import Idempotency, earlier_job, write_job
from jobs.model.plan import Plan
from jobs.model.problems import FieldProblem, InvalidSpec
from jobs.model.scopes import Scope
from jobs.model.spec import Spec
from jobs.people import audit
from jobs.people.project_admission import Applicant, admit
from jobs.people.queue_share import require_queue_share
from jobs.views.jobs import Preview
from jobs.views.studies import CellPreview, StudyPreview, StudySpec


def submit_job(
    services: Services,
    caller: Caller,
    document: bytes | Mapping[str, Any],
    *,
    idempotency: Idempotency | None,
    dry_run: bool,
    clone_of: str | None = None,
) -> Response:
    """Submit a job. `clone_of` is the job whose spec was changed to this one.

    Raises `InvalidSpec`, `IdempotencyConflict`, `InsufficientScope`, and what `jobs.people.project_admission.admit`
    raises.
    """
    spec = spec_in(services, caller, document)
    _require_scope_of(caller, [spec])
    (spec,) = _with_whole_ids(services, [spec])
    checked = check_spec(spec, services.site, Registry(services.sessions), Origins(services))
    if dry_run:  # it takes no key
        idempotency = None
    with services.sessions.begin() as session:
        earlier = earlier_job(session, caller.user, idempotency)
        if earlier is not None:
            return _job_answer(earlier, is_replay=True)
        checks = StateChecks(session, caller.applicant, [checked.spec], dry_run=dry_run)
        plan = _admit_job(session, checks, checked, caller.applicant)
        _require_share(session, services, caller, jobs=1)
        if dry_run:
            storage = StorageLimits(services.settings.max_job_storage_gb, services.settings.cache_limit_gb)
            outlook = preview(session, checked.spec, plan, storage=storage)
            warnings = [*_not_there(checks.lack_of_room(checked.spec)), *checked.warnings, *outlook.warnings]
            return as_json(Preview(spec=checked.spec, plan=plan, quote=outlook.quote, warnings=warnings))
        _mark_code_used(session, [checked])
        job = write_job(session, spec=checked.spec, plan=plan, owner=caller.user, idempotency=idempotency)
        if clone_of is None:
            audit.record(session, caller.actor, "job.submitted", job.id, name=job.name, project=job.project)
        else:
            audit.record(
                session, caller.actor, "job.cloned", job.id, name=job.name, project=job.project, clone_of=clone_of
            )
        answer = _job_answer(job, is_replay=False)
    services.hints.dispatch()
    return answer


def submit_study(
    services: Services, caller: Caller, body: bytes, *, idempotency: Idempotency | None, dry_run: bool
) -> Response:
    """Submit a study. All its jobs are stored, or none. A search is stored without jobs: a worker begins its trials.

    Raises `InvalidSpec`, `IdempotencyConflict`, and what `jobs.people.project_admission.admit` raises.
    """
    study, cells = study_in(services, caller, body)
    is_search = study.search is not None
    _require_scope_of(caller, [cell.spec for cell in cells])
    registry, origins = Registry(services.sessions), Origins(services)
    specs = _with_whole_ids(services, [cell.spec for cell in cells])
    checked = [check_spec(spec, services.site, registry, origins) for spec in specs]
    if dry_run:  # it takes no key
        idempotency = None
    with services.sessions.begin() as session:
        earlier_id = store.earlier_study(session, caller.user, idempotency)
        if earlier_id is not None:
            return _study_answer(session, earlier_id, is_replay=True)
        checks = StateChecks(session, caller.applicant, [one.spec for one in checked], dry_run=dry_run)
        planned = _admit_study(session, checks, study, cells, checked, caller.applicant)
        preview = _preview_of(study, planned)
        _require_share(session, services, caller, jobs=_jobs_at_once(study, preview.jobs))
        if dry_run:
            lacks = _problems_of(study)
            for cell, one in zip(cells, checked, strict=True):
                lacks.add(cell.positions, checks.lack_of_room(one.spec))
            return as_json(preview.model_copy(update={"warnings": _not_there(lacks.problems())}))
        _mark_code_used(session, checked)
        if is_search:
            study_id = store.write_search(session, study, owner=caller.user, idempotency=idempotency)
        else:
            study_id = store.write_study(session, study, planned, owner=caller.user, idempotency=idempotency)
        audit.record(session, caller.actor, "study.submitted", study_id, name=study.name)
        answer = _study_answer(session, study_id, is_replay=False)
    services.limits.add_changes(caller.bearer, preview.jobs - 1)
    services.hints.dispatch()
    return answer


def _with_whole_ids(services: Services, specs: list[Spec]) -> list[Spec]:
    with services.sessions() as session:
        return with_whole_ids(session, specs)


def _require_scope_of(caller: Caller, specs: Iterable[Spec]) -> None:
    """Raises `InsufficientScope` for scripts without the scope code."""
    if any(spec.code is not None for spec in specs):
        caller.require_scope(Scope.CODE)


def _mark_code_used(session: Session, checked: Iterable[CheckedSpec]) -> None:
    mark_used(session, {one.spec.code for one in checked if one.spec.code is not None})


def _require_share(session: Session, services: Services, caller: Caller, *, jobs: int) -> None:
    """Raises `TooManyQueuedJobs` of `jobs.people.queue_share`. Admins have no limit."""
    if not caller.may(Scope.ADMIN):
        require_queue_share(session, caller.user, jobs=jobs, most=services.settings.max_queued_jobs)


def _not_there(problems: Iterable[FieldProblem]) -> list[str]:
    """Warnings of a dry run about slots that no host has."""
    return [
        f"{one.field} {one.received}: {one.message}. The plan is for hardware that is not there; a submission would be "
        "refused now."
        for one in problems
    ]


def _admit_job(session: Session, checks: StateChecks, checked: CheckedSpec, applicant: Applicant) -> Plan:
    """The job's plan. Raises `InvalidSpec`, and what `admit` raises."""
    problems = checks.problems_of(checked)
    if problems or checked.plan is None:
        raise InvalidSpec(problems)
    admit(session, checked.spec.project, applicant, jobs=1)
    return checked.plan


def _admit_study(
    session: Session,
    checks: StateChecks,
    study: StudySpec,
    cells: list[Cell],
    checked: list[CheckedSpec],
    applicant: Applicant,
) -> list[tuple[Cell, Plan]]:
    """The cells with their specs as they are stored, and their plans. Raises `InvalidSpec`, and what `admit` raises."""
    cell_problems = _problems_of(study)
    planned = []
    for cell, spec in zip(cells, checked, strict=True):
        cell_problems.add(cell.positions, checks.problems_of(spec))
        if spec.plan is not None:
            planned.append((replace(cell, spec=spec.spec), spec.plan))
    if problems := cell_problems.problems():
        raise InvalidSpec(problems)
    jobs = _jobs_at_once(study, len(cells) * study.repeats)
    admit(session, cells[0].spec.project, applicant, jobs=jobs)
    return planned


def _problems_of(study: StudySpec) -> CellProblems:
    if study.search is None:
        return CellProblems(study)
    space = space_of(study.search)
    return EndProblems(grid_of_ends(study, space), space)


def _jobs_at_once(study: StudySpec, jobs: int) -> int:
    """How many of its jobs wait in the queue at once."""
    return jobs if study.search is None else min(jobs, study.search.parallel)


def _preview_of(study: StudySpec, planned: list[tuple[Cell, Plan]]) -> StudyPreview:
    search = study.search
    return StudyPreview(
        name=study.name,
        jobs=len(planned) * study.repeats if search is None else trials_of(search, space_of(search)),
        repeats=study.repeats,
        varied=list(study.grid if search is None else search.space),
        search=search,
        cells=[CellPreview(values=cell.values, plan=plan) for cell, plan in planned],
    )


def _job_answer(job: Job, *, is_replay: bool) -> Response:
    return _created(job_view(job), f"/v1/jobs/{job.id}", job_tag(job.revision), is_replay=is_replay)


def _study_answer(session: Session, study_id: str, *, is_replay: bool) -> Response:
    view = store.view_of(session, study_id)
    tag = study_tag(study_id, versions.of_study(session, study_id))
    return _created(view, f"/v1/studies/{study_id}", tag, is_replay=is_replay)


def _created(view: BaseModel, location: str, tag: str, *, is_replay: bool) -> Response:
    headers = {"Location": location, "ETag": tag}
    if is_replay:
        headers["Idempotency-Replayed"] = "true"
    return as_json(view, 201, headers)
