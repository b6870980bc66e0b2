"""Whether a script can run here: what `jobs.lifecycle.admission` checks of specs with `code`. Reads only the spec."""

from collections.abc import Iterator

from jobs.lifecycle.site_policy import SitePolicy
from jobs.model.catalog import DATASETS
from jobs.model.plan import Plan, resolve_plan
from jobs.model.problems import FieldProblem
from jobs.model.script_fields import OWN_ENVIRONMENTS, CommandTooLong, WrongPlaceholder, filled_in
from jobs.model.script_values import placeholders
from jobs.model.spec import Spec
from jobs.model.synthetic import is_synthetic
from jobs.suggestions import meant

_WITH_FILES = "fashion-mnist"  # the one built-in dataset that lies in a folder


def script_problems(spec: Spec, site: SitePolicy) -> Iterator[FieldProblem]:
    """Every field of a script's spec that cannot work on this stack, with what is allowed."""
    if not site.runs_code:
        yield FieldProblem("code", "this stack runs no code of its users: its operator has to set HORA_CODE=on")
    if spec.environment not in (*OWN_ENVIRONMENTS, *site.environments):
        names = [*OWN_ENVIRONMENTS, *site.environments]
        message = f"no such environment; there are: {', '.join(names)}{meant(spec.environment, names)}"
        yield FieldProblem("environment", message, spec.environment)
    if spec.requirements is not None and not site.installs_requirements:
        message = "this stack installs no packages for jobs: its operator has to set HORA_CODE_REQUIREMENTS=on"
        yield FieldProblem("requirements", message)
    if spec.dataset is not None and spec.dataset.source in DATASETS.keys() - {_WITH_FILES}:
        message = f"{spec.dataset.source} has no files that a script could read: name registered data or a path"
        yield FieldProblem("dataset.source", message, spec.dataset.source)
    elif spec.dataset is not None and is_synthetic(spec.dataset.source):
        message = "generated data has no files that a script could read: name registered data or a path"
        yield FieldProblem("dataset.source", message, spec.dataset.source)
    yield from _placeholder_problems(spec, resolve_plan(spec, None))


def _placeholder_problems(spec: Spec, plan: Plan) -> Iterator[FieldProblem]:
    values = placeholders(spec, plan, train="", validation="", artifacts="")
    command, are_filled_in = spec.command or [], True
    for position, argument in enumerate(command):
        try:
            list(filled_in([argument], values))
        except WrongPlaceholder as error:
            are_filled_in = False
            yield FieldProblem(f"command.{position}", str(error), argument)
    try:
        list(filled_in(command if are_filled_in else [], values))
    except CommandTooLong as error:
        yield FieldProblem("command", str(error))
