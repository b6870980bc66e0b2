"""Specs that are to become jobs: each with its plan, and with what speaks against it here.

Called by the routes of jobs and of studies before they store anything.
"""

from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from api.callers import Caller
from jobs.data.resolving import Registry
from jobs.db.tables import Project
from jobs.lifecycle.admission import SitePolicy, missing_paths, unsupported, unusable_weights
from jobs.model.dataset_names import reference_of
from jobs.model.plan import Plan, UnworkablePlan, resolve_plan
from jobs.model.scopes import Scope
from jobs.model.spec import FieldProblem, InvalidSpec, Spec
from jobs.people.project_admission import Applicant, admit, project_of, project_problems
from jobs.scheduling.hosts import capacity_problem


@dataclass(frozen=True)
class Draft:
    """A spec that somebody could carry out. Without a plan it does not fit its data: `unworkable` says why."""

    spec: Spec
    plan: Plan | None
    missing_paths: list[FieldProblem]  # what is not on this host's disk, or not registered
    unworkable: list[FieldProblem]


def draft_of(spec: Spec, site: SitePolicy, registry: Registry) -> Draft:
    """The draft of a spec, by its text, this host's disk and the registered dataset that it names, if it names one.

    Raises `InvalidSpec` for what nobody could carry out.
    """
    resolved = registry.resolve(spec)
    spec = resolved.spec
    is_told = {problem.field for problem in resolved.problems}
    problems = [problem for problem in unsupported(spec, site, shape=resolved.shape) if problem.field not in is_told]
    if problems:
        raise InvalidSpec(_with_names(problems, registry))
    plan, unworkable = None, []
    try:
        plan = resolve_plan(spec, resolved.sizes)
    except UnworkablePlan as error:
        unworkable = [FieldProblem(error.field, str(error))]
    missing = _with_names([] if resolved.problems else missing_paths(spec, site), registry)
    return Draft(spec, plan, [*resolved.problems, *missing], unworkable)


def _with_names(problems: list[FieldProblem], registry: Registry) -> list[FieldProblem]:
    """The problems, with the registered names where the dataset is not there: its name may be misspelt."""
    return [
        replace(problem, message=problem.message + registry.registered_text())
        if problem.field == "dataset.source" and reference_of(problem.received or "") is not None
        else problem
        for problem in problems
    ]


class Objections:
    """What speaks against drafts now: the database is asked once for all that ask for the same."""

    def __init__(self, session: Session, applicant: Applicant) -> None:
        self._session = session
        self._applicant = applicant
        self._projects: dict[str, Project | None] = {}
        self._weights: dict[tuple[str, str], list[FieldProblem]] = {}
        self._room: dict[tuple[int, str, str], str | None] = {}

    def to(self, draft: Draft) -> list[FieldProblem]:
        """Every field of the draft that asks for what is not there, and the one that keeps it from having a plan."""
        spec = draft.spec
        return [
            *draft.missing_paths, *self._unusable_weights(spec), *self._lack_of_room(spec), *self._wrong_project(spec),
            *draft.unworkable,
        ]  # fmt: skip

    def _unusable_weights(self, spec: Spec) -> list[FieldProblem]:
        key = (spec.model.weights, spec.model.name)
        if key not in self._weights:
            self._weights[key] = unusable_weights(self._session, spec)
        return self._weights[key]

    def _wrong_project(self, spec: Spec) -> list[FieldProblem]:
        if spec.project not in self._projects:
            self._projects[spec.project] = project_of(self._session, spec.project)
        return project_problems(self._session, self._projects[spec.project], spec, self._applicant)

    def _lack_of_room(self, spec: Spec) -> list[FieldProblem]:
        """What is wrong with asking for slots that the hosts do not have, or not so that a job can take them."""
        key = (spec.gpus, spec.device, spec.placement)
        if key not in self._room:
            self._room[key] = capacity_problem(self._session, spec)
        why = self._room[key]
        return [] if why is None else [FieldProblem("gpus", why, str(spec.gpus))]


def applicant_of(caller: Caller) -> Applicant:
    """Who submits, as their projects see it."""
    return Applicant(caller.user, is_admin=caller.may(Scope.ADMIN))


def accepted(session: Session, draft: Draft, applicant: Applicant) -> Plan:
    """The plan of a draft that nothing speaks against now, and that its project takes.

    Raises `InvalidSpec`, and what `jobs.people.project_admission.admit` raises.
    """
    if problems := Objections(session, applicant).to(draft):
        raise InvalidSpec(problems)
    admit(session, draft.spec.project, applicant, jobs=1)
    assert draft.plan is not None
    return draft.plan
