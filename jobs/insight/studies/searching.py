"""Carries searches on: has trials judged, and begins the next ones. Called by `worker.searcher`, one worker at a time.

All that it knows is in the rows, so any worker goes on where another one stopped. A trial begins in one transaction:
with the study's row locked, it appends the values to the study's cells and writes the job of that cell. So no trial is
lost or made twice, whoever dies when.
"""

import logging
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json
from sqlalchemy import ColumnElement, exists, func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from jobs.data.resolving import Registry, with_source
from jobs.db.engine import Sessions
from jobs.db.tables import Job, Study
from jobs.insight.studies.adviser import Search
from jobs.insight.studies.figures import Series
from jobs.insight.studies.grid import document_of
from jobs.insight.studies.judging import judge_all, spec_and_goal
from jobs.insight.studies.space import space_of, trials_of
from jobs.insight.studies.store import lock, touch
from jobs.insight.studies.trials import trials_in
from jobs.lifecycle import rights_now
from jobs.lifecycle.named_jobs import with_whole_ids
from jobs.lifecycle.submission import StudyPlace, write_jobs
from jobs.model.dataset_names import reference_of
from jobs.model.plan import UnworkablePlan, resolve_plan
from jobs.model.problems import InvalidSpec
from jobs.model.spec import Spec, spec_from
from jobs.model.states import TERMINAL
from jobs.people.project_admission import ProjectArchived, QueueFull, require_room
from jobs.people.queue_share import TooManyQueuedJobs, require_queue_share

_log = logging.getLogger(__name__)

LOCK = 0x736561726368  # "search": the number of an advisory lock
NO_CHOICE = "no further choice of values makes a valid job"


@dataclass
class Memory:
    """What a pass may use again: the curves of jobs that have ended, which change no more."""

    curves: dict[str, dict[str, Series]] = field(default_factory=dict)  # by study and job

    def keep(self, study_ids: Sequence[str]) -> None:
        """Forget the studies that are searched no more."""
        self.curves = {study_id: self.curves.get(study_id, {}) for study_id in study_ids}


def some_are_searched() -> ColumnElement[bool]:
    """Whether there are searches to carry on, as SQL."""
    return exists().where(Study.is_searching)


def search_once(sessions: Sessions, memory: Memory, *, most_queued: int) -> int:
    """Carry all searches on. Returns how many trials began. Nothing happens if another worker does this now.

    An owner who is no admin may have `most_queued` jobs in the queue.
    """
    with sessions() as guard:  # it holds the lock, and nothing else
        if not guard.scalar(select(func.pg_try_advisory_xact_lock(LOCK))):
            return 0
        study_ids = guard.scalars(select(Study.id).where(Study.is_searching).order_by(Study.id)).all()
        memory.keep(study_ids)
        begun = 0
        for study_id in study_ids:
            curves = memory.curves[study_id]
            try:
                judge_all(sessions, study_id, curves)
                while _begin_trial(sessions, study_id, curves, most_queued=most_queued):
                    begun += 1
            except DBAPIError:
                raise
            except Exception:  # the other searches go on
                _log.exception("search %s: the next pass tries again", study_id)
        return begun


def _begin_trial(sessions: Sessions, study_id: str, curves: MutableMapping[str, Series], *, most_queued: int) -> bool:
    """Begin the next trial, if the search wants one now. Returns whether it did."""
    with sessions.begin() as session:
        study = lock(session, study_id)
        if not study.is_searching:
            return False
        spec, goal = spec_and_goal(study)
        search = Search(spec, space_of(spec), seed=_seed_of(study), is_lower_better=goal.is_lower_better)
        is_live = (Job.study_id == study_id, Job.status.not_in(TERMINAL))
        live = session.scalar(select(func.count()).where(*is_live)) or 0
        is_whole = len(study.cells) >= trials_of(spec, search.space)
        values, obstacle = None, None
        if live < spec.parallel and not is_whole:
            obstacle = _obstacle(session, study, most_queued=most_queued)
            if obstacle is None:
                told = [trial.told(goal) for trial in trials_in(session, study, goal, curves=curves)]
                values, obstacle = _write_next(session, study, search.choices(told), Registry(sessions))
        is_over = live == 0 and (is_whole or obstacle == NO_CHOICE)
        if values is not None:
            touch(session, study_id, cells=[*study.cells, values], obstacle=None, ended_at=None)
        elif is_over or obstacle != study.obstacle:
            touch(session, study_id, obstacle=obstacle, is_searching=not is_over)
        return values is not None


def _obstacle(session: Session, study: Study, *, most_queued: int) -> str | None:
    """Why no job of the study may be added now: a pause, or what a submission would be refused for."""
    if study.paused_at is not None:
        return "the search is paused"
    why = rights_now.why_not_train(session, owner=study.owner, project=study.project)
    if why is not None:
        return why
    try:
        require_room(session, study.project, jobs=1)
        if not rights_now.is_admin(session, study.owner):
            require_queue_share(session, study.owner, jobs=1, most=most_queued)
    except (QueueFull, ProjectArchived, TooManyQueuedJobs) as error:
        return str(error)
    return None


def _write_next(
    session: Session, study: Study, choices: Iterable[dict[str, Any]], registry: Registry
) -> tuple[dict[str, Any] | None, str | None]:
    """Write the job of the first values that make a valid one. Returns them, or None and why there is none."""
    base, versions = to_json(study.base), _versions(session, study.id)
    for values in choices:
        try:
            (spec,) = with_whole_ids(session, [spec_from(document_of(study.name, base, values))])
            spec = _on_same_data(spec, versions)
            resolved = registry.resolve(spec)
            if resolved.problems:
                return None, resolved.problems[0].message
            plan = resolve_plan(resolved.spec, resolved.sizes)
        except (InvalidSpec, UnworkablePlan):
            continue  # each value is valid, but not together with the others
        place = StudyPlace(study.id, len(study.cells), 0, values)
        write_jobs(session, [(resolved.spec, plan, place)], owner=study.owner)
        return values, None
    return None, NO_CHOICE


def _versions(session: Session, study_id: str) -> dict[str, int]:
    """The versions of registered datasets on which its jobs train, by name."""
    refs = session.scalars(
        select(Job.dataset_ref).where(Job.study_id == study_id, Job.dataset_ref.is_not(None)).distinct()
    )
    return {ref["name"]: ref["version"] for ref in refs if ref is not None}


def _on_same_data(spec: Spec, versions: Mapping[str, int]) -> Spec:
    """The spec with the version of its dataset that earlier trials have, also if there is a newer one by now."""
    reference = None if spec.dataset is None else reference_of(spec.dataset.source)
    if reference is None or reference.version is not None or reference.name not in versions:
        return spec
    return with_source(spec, f"{reference.name}@{versions[reference.name]}")


def _seed_of(study: Study) -> int:
    """The seed of the base: the same study makes the same choices."""
    return int(study.base.get("seed", Spec.model_fields["seed"].default))
