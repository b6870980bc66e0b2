"""Checks of specs that are to become jobs. Called by `submissions` before it stores anything.

`check_spec` looks at the spec alone, its data included. `StateChecks` adds what the hosts, the projects and the jobs do
not allow at the moment. Neither raises: a repeated submission gets its first answer, whatever has changed since.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from api.similar_names import proposal
from api.submitting.origins import Origins
from jobs.data.code import may_use
from jobs.data.resolving import Registry
from jobs.db.tables import Project
from jobs.lifecycle.admission import missing_paths, unsupported
from jobs.lifecycle.named_jobs import ambiguous, lock_named, problems_of_named
from jobs.lifecycle.site_policy import SitePolicy
from jobs.lifecycle.store import JobNotFound
from jobs.model.dataset_names import reference_of
from jobs.model.plan import Plan, UnworkablePlan, resolve_plan
from jobs.model.problems import FieldProblem
from jobs.model.spec import Spec
from jobs.people.project_admission import Applicant, project_of, project_problems
from jobs.scheduling.hosts import capacity_problem, request_of
from jobs.scheduling.shortage import Shortage
from jobs.scheduling.slots import SlotRequest


@dataclass(frozen=True)
class CheckedSpec:
    """A spec with what is wrong with it. It has a plan if Hora supports it here and it fits its data."""

    spec: Spec  # with the version and options of a registered dataset, and the epoch of a checkpoint of another job
    plan: Plan | None
    unsupported: list[FieldProblem]  # where there is one, there is no plan
    missing: list[FieldProblem]  # paths that are not on this host's disk, datasets and checkpoints that are not there
    unworkable: list[FieldProblem]  # why it has no plan for its data
    warnings: Sequence[str]  # about its data


def check_spec(spec: Spec, site: SitePolicy, registry: Registry, origins: Origins) -> CheckedSpec:
    """Check a spec by its text, this host's disk, and the registered dataset and the checkpoint that it names."""
    resolved = registry.resolve(spec)
    spec = resolved.spec
    refused_fields = {problem.field for problem in resolved.problems}
    found = unsupported(spec, site, shape=resolved.shape, are_texts=resolved.are_texts)
    problems = [problem for problem in found if problem.field not in refused_fields]
    plan, unworkable = None, []
    if not problems:
        try:
            plan = resolve_plan(spec, resolved.sizes)
        except UnworkablePlan as error:
            unworkable = [FieldProblem(error.field, str(error))]
    missing = _with_registered_names([] if resolved.problems else missing_paths(spec, site), registry)
    problems = _with_registered_names(problems, registry)
    spec, of_origin = origins.resolve(spec)
    return CheckedSpec(spec, plan, problems, [*resolved.problems, *missing, *of_origin], unworkable, resolved.warnings)


def _with_registered_names(problems: list[FieldProblem], registry: Registry) -> list[FieldProblem]:
    """The problems. That of a missing dataset lists the registered names, because its name may be misspelt."""
    return [
        replace(problem, message=problem.message + registry.others_text(problem.received or ""))
        if problem.field == "dataset.source" and reference_of(problem.received or "") is not None
        else problem
        for problem in problems
    ]


class StateChecks:
    """Checks specs against the hosts, projects and jobs as they are now. Specs that need the same rows share a read.

    The jobs that the `specs` name are locked until the commit. A dry run may plan for slots that no host has.
    """

    def __init__(self, session: Session, applicant: Applicant, specs: Sequence[Spec], *, dry_run: bool = False) -> None:
        self._session = session
        self._dry_run = dry_run
        self._ambiguities = ambiguous(session, specs)
        self._named = lock_named(session, specs)
        self._applicant = applicant
        self._projects: dict[str, Project | None] = {}
        self._usable_code: dict[str, bool] = {}
        self._shortages: dict[SlotRequest, Shortage | None] = {}

    def problems_of(self, checked: CheckedSpec) -> list[FieldProblem]:
        """The problems of a spec: what is unsupported, what does not exist or has no room, and what prevents a plan."""
        spec = checked.spec
        found = [
            *checked.unsupported, *checked.missing, *self._unknown_code(spec), *self._wrong_named(spec),
            *([] if self._dry_run else self.lack_of_room(spec)), *self._wrong_project(spec), *checked.unworkable,
        ]  # fmt: skip
        told = {problem.field for problem in checked.unsupported}  # nothing further of these
        return checked.unsupported + [problem for problem in found if problem.field not in told]

    def _unknown_code(self, spec: Spec) -> list[FieldProblem]:
        """The problem of code that was not sent, or that the applicant may not see."""
        if spec.code is None:
            return []
        if spec.code not in self._usable_code:
            applicant = self._applicant
            self._usable_code[spec.code] = may_use(
                self._session, spec.code, user=applicant.user, is_admin=applicant.is_admin
            )
        if self._usable_code[spec.code]:
            return []
        return [FieldProblem("code", "no such code: send it with POST /v1/code", spec.code)]

    def _wrong_named(self, spec: Spec) -> list[FieldProblem]:
        """The problems of the jobs that it names. That of one that does not exist proposes a similar id."""
        problems = []
        for problem in problems_of_named(spec, self._named, self._ambiguities):
            job_id = (problem.received or "").removeprefix("job:").partition("@")[0]
            is_known = job_id in self._named or job_id in self._ambiguities
            similar = "" if is_known else proposal(self._session, JobNotFound(job_id))
            problems.append(replace(problem, message=problem.message + similar))
        return problems

    def _wrong_project(self, spec: Spec) -> list[FieldProblem]:
        if spec.project not in self._projects:
            self._projects[spec.project] = project_of(self._session, spec.project)
        return project_problems(self._session, self._projects[spec.project], spec, self._applicant)

    def lack_of_room(self, spec: Spec) -> list[FieldProblem]:
        """The problem of a spec whose slots no host has, or no hosts that can work together."""
        request = request_of(spec)
        if request not in self._shortages:
            self._shortages[request] = capacity_problem(self._session, request)
        shortage = self._shortages[request]
        return [] if shortage is None else [FieldProblem(shortage.field, shortage.text, shortage.received)]
