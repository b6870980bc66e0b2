"""Checks a spec against the task, once the data is open: with `task: auto` nobody knows it earlier."""

from jobs.model.spec import Spec
from jobs.model.task_rules import unfit_fields
from jobs.model.tasks import epoch_metrics
from trainer.data.interfaces import Facts
from trainer.errors import BadData


def check_recipe(spec: Spec, facts: Facts) -> None:
    """Raise `BadData` if fields of the spec do not go with the task of the data."""
    names = epoch_metrics(facts.task, len(facts.classes))
    for problem in unfit_fields(spec, facts.task, names):
        raise BadData(f"{problem.field}: {problem.message}")
