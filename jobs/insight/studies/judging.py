"""Ends trials of a search early: reads the rows, asks the pruner, and marks the trials that are to end.

`searching` judges all trials of a search, once a period. The supervisor of a trial judges that one as soon as an epoch
is stored: otherwise it would train on until the next pass. Both see the same rows, and the first mark counts.
"""

import logging
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from jobs.db.engine import Sessions
from jobs.db.tables import Job, Study
from jobs.insight.studies.figures import Series
from jobs.insight.studies.pruning import Pruner
from jobs.insight.studies.store import search_of
from jobs.insight.studies.trials import Trial, objective_of, trials_in
from jobs.lifecycle import pruning
from jobs.model.spec import Spec
from jobs.model.states import ACTIVE
from jobs.views.searches import PruneSpec, SearchSpec
from jobs.views.studies import Goal

_log = logging.getLogger(__name__)


def spec_and_goal(study: Study) -> tuple[SearchSpec, Goal]:
    """What a stored search says, and what it looks for."""
    spec = search_of(study)
    assert spec is not None
    return spec, objective_of(study.base, spec)


def judge_all(sessions: Sessions, study_id: str, curves: MutableMapping[str, Series]) -> None:
    """Ask for the end of the trials that are worse than others. `curves` keeps those of jobs that have ended."""
    with sessions() as session:
        study = session.get_one(Study, study_id)
        is_active = exists().where(Job.study_id == study_id, Job.status.in_(ACTIVE))
        if _prune_spec_of(study) is None or not session.scalar(select(is_active)):
            return
        rivals = _Rivals.of(session, study, curves)
    for trial in rivals.trials:
        rivals.judge(sessions, trial)


class OwnTrial:
    """The trial that a supervisor runs."""

    def __init__(self, study: Study, job: Job) -> None:
        self._study_id, self._job_id = study.id, job.id
        self._pruner = _pruner_of(study)
        self._checkpoint_every = job.spec.get("checkpoint", {}).get("every_epochs") or 1
        self._rung: int | None = None  # where it was judged
        self._curves: dict[str, Series] = {}

    @classmethod
    def of(cls, session: Session, job: Job) -> "OwnTrial | None":
        """None if the job is no trial of a search that prunes."""
        study = None if job.study_id is None else session.get(Study, job.study_id)
        return None if study is None or _prune_spec_of(study) is None else cls(study, job)

    def judge(self, sessions: Sessions, epoch: int) -> bool:
        """Judge it after this epoch, once at each rung. Returns whether it is to end."""
        rung = self._pruner.last_rung(epoch, self._checkpoint_every)
        if rung == self._rung:
            return False
        self._rung = rung  # also if it cannot be judged there: the search tries again, and this call comes often
        with sessions() as session:
            rivals = _Rivals.of(session, session.get_one(Study, self._study_id), self._curves)
        own = next((trial for trial in rivals.trials if trial.job_id == self._job_id), None)
        return own is not None and rivals.judge(sessions, own)


@dataclass(frozen=True)
class _Rivals:
    """The trials of a search at one moment, and the rule between them."""

    trials: Sequence[Trial]
    pruner: Pruner
    metric: str

    @classmethod
    def of(cls, session: Session, study: Study, curves: MutableMapping[str, Series]) -> "_Rivals":
        _, goal = spec_and_goal(study)
        return cls(trials_in(session, study, goal, curves=curves), _pruner_of(study), goal.metric)

    def judge(self, sessions: Sessions, trial: Trial) -> bool:
        """Ask for the end of the trial if it is worse than the others. Returns whether this call did."""
        if not trial.is_active or trial.pruned_at_epoch is not None:
            return False
        curves = [other.curve for other in self.trials if other is not trial]
        complete = [other.curve for other in self.trials if other.state == "complete"]
        rung = self.pruner.rung_of(trial.curve, curves, epochs=trial.epochs, checkpoint_every=trial.checkpoint_every)
        if rung is None or not self.pruner.ends(trial.curve, curves, complete, rung=rung):
            return False
        why = f"the {self.metric} of other trials was better at epoch {rung}"
        with sessions.begin() as session:
            ends = pruning.prune(session, trial.job_id, trial.attempt, epoch=rung, why=why)
        if ends:
            _log.info("trial %d is pruned at epoch %d", trial.number, rung, extra={"job": trial.job_id})
        return ends


def _prune_spec_of(study: Study) -> PruneSpec | None:
    spec = search_of(study)
    return None if spec is None else spec.prune


def _pruner_of(study: Study) -> Pruner:
    spec, goal = spec_and_goal(study)
    assert spec.prune is not None
    epochs = study.base.get("epochs", None if study.base.get("code") else Spec.model_fields["epochs"].default)
    return Pruner(spec.prune, epochs=epochs, is_lower_better=goal.is_lower_better)
