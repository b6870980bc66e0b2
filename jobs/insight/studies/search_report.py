"""The part of a report that is about a search: its trials, the best one, which fields matter. Called by `report`."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from jobs.db.tables import Study
from jobs.insight.studies.adviser import Search
from jobs.insight.studies.grid import value_text
from jobs.insight.studies.space import space_of, trials_of
from jobs.insight.studies.trials import Trial, objective_of, trials_in
from jobs.views.searches import SearchReport, SearchSpec, TrialReport
from jobs.views.studies import StudyReport


def with_search(session: Session, study: Study, spec: SearchSpec, report: StudyReport) -> StudyReport:
    """The report with what its search found. Its findings are about the search alone."""
    goal, space = objective_of(study.base, spec), space_of(spec)
    trials = trials_in(session, study, goal)
    reports = [trial.report(goal) for trial in trials]
    best = best_of(reports, is_lower_better=goal.is_lower_better)
    search = Search(spec, space, seed=0, is_lower_better=goal.is_lower_better)
    importances = search.importances([trial.told(goal) for trial in trials])
    wanted = trials_of(spec, space)
    return report.model_copy(
        update={
            "varied": list(space),
            "complete": report.complete and not study.is_searching,
            "search": SearchReport(method=spec.method, objective=goal.metric, mode=goal.mode, trials=wanted),
            "trials": reports,
            "best": {} if best is None else {"goal": best.number},
            "importances": importances,
            "next_steps": [],
            "findings": [
                *_best_found(best, reports, goal.metric),
                *_pruned(trials),
                *_unprunable(spec, trials),
                *_most_important(importances),
            ],
        }
    )


def best_of(trials: Sequence[TrialReport], *, is_lower_better: bool) -> TrialReport | None:
    """The trial with the best objective of those that succeeded; of equal ones the first."""
    found = [trial for trial in trials if trial.objective is not None and trial.status == "succeeded"]
    sign = 1 if is_lower_better else -1
    return min(found, key=lambda trial: (sign * (trial.objective or 0.0), trial.number), default=None)


def _best_found(best: TrialReport | None, trials: Sequence[TrialReport], metric: str) -> list[str]:
    if best is None:
        return []
    ended = sum(trial.objective is not None for trial in trials)
    values = ", ".join(f"{field} {value_text(value)}" for field, value in best.values.items())
    return [f"The best of {ended} trials is number {best.number}: {metric} {best.objective:.4g} with {values}."]


def _pruned(trials: Sequence[Trial]) -> list[str]:
    pruned = [trial for trial in trials if trial.state == "pruned"]
    if not pruned:
        return []
    trained = sum(max(trial.curve, default=0) for trial in pruned)
    whole = sum(trial.epochs or 0 for trial in pruned)
    share = f" They trained {trained} of {whole} epochs." if all(trial.epochs for trial in pruned) else ""
    return [f"{len(pruned)} trial{'s were' if len(pruned) > 1 else ' was'} pruned.{share}"]


def _unprunable(spec: SearchSpec, trials: Sequence[Trial]) -> list[str]:
    has_epochs = any(trial.curve for trial in trials)
    if spec.prune is None or has_epochs or all(trial.without_epochs is None for trial in trials):
        return []
    return ["No trial can be pruned: scripts must report the objective with run.report(epoch=...), without a step."]


def _most_important(importances: dict[str, float] | None) -> list[str]:
    if not importances or len(importances) == 1:
        return []
    field, share = next(iter(importances.items()))
    return [f"{field} mattered most: {100 * share:.0f} % of what makes a trial good."]
