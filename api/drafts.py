"""Specs that are to become jobs: each with its plan, and with what speaks against it here.

Called by the routes of jobs and of studies before they store anything.
"""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from jobs.admission import Site, absent, unsupported, unusable_weights
from jobs.catalog import sizes_of
from jobs.hosts import lack_of_room
from jobs.plan import Plan, UnworkablePlan, resolve_plan
from jobs.spec import FieldProblem, InvalidSpec, Spec


@dataclass(frozen=True)
class Draft:
    """A spec that somebody could carry out. Without a plan it does not fit its data: `unworkable` says why."""

    spec: Spec
    plan: Plan | None
    absent: list[FieldProblem]  # what is not on this host's disk
    unworkable: list[FieldProblem]


def draft_of(spec: Spec, site: Site) -> Draft:
    """The draft of a spec, by its text and this host's disk. Raises `InvalidSpec` for what nobody could carry out."""
    if problems := unsupported(spec, site):
        raise InvalidSpec(problems)
    plan, unworkable = None, []
    try:
        plan = resolve_plan(spec, sizes_of(spec))
    except UnworkablePlan as error:
        unworkable = [FieldProblem(error.field, str(error))]
    return Draft(spec, plan, absent(spec, site), unworkable)


class Objections:
    """What speaks against drafts now: the database is asked once for all that ask for the same."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._weights: dict[tuple[str, str], list[FieldProblem]] = {}
        self._room: dict[tuple[int, str, str], str | None] = {}

    def to(self, draft: Draft) -> list[FieldProblem]:
        """Every field of the draft that asks for what is not there, and the one that keeps it from having a plan."""
        return [*draft.absent, *self._unusable_weights(draft.spec), *self._lack_of_room(draft.spec), *draft.unworkable]

    def _unusable_weights(self, spec: Spec) -> list[FieldProblem]:
        key = (spec.model.weights, spec.model.name)
        if key not in self._weights:
            self._weights[key] = unusable_weights(self._session, spec)
        return self._weights[key]

    def _lack_of_room(self, spec: Spec) -> list[FieldProblem]:
        """What is wrong with asking for slots that the hosts do not have, or not so that a job can take them."""
        key = (spec.gpus, spec.device, spec.placement)
        if key not in self._room:
            self._room[key] = lack_of_room(self._session, spec)
        why = self._room[key]
        return [] if why is None else [FieldProblem("gpus", why, str(spec.gpus))]


def accepted(session: Session, draft: Draft) -> Plan:
    """The plan of a draft that nothing speaks against now. Raises `InvalidSpec`."""
    if problems := Objections(session).to(draft):
        raise InvalidSpec(problems)
    assert draft.plan is not None
    return draft.plan
