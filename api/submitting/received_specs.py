"""The spec or the study in a request. A refusal names every wrong field. Called by `submissions`.

What is no spec is still checked as far as its right fields go (`jobs.model.partial_spec`), so that nobody corrects one
field to learn of the next.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from api.callers import Caller
from api.deps import Services
from api.submitting.origins import Origins
from api.submitting.spec_checks import StateChecks, check_spec
from jobs.data.resolving import Registry
from jobs.insight.studies.grid import Cell, cells_of
from jobs.insight.studies.space import ends_of
from jobs.model.partial_spec import rest_of, told_of_rest
from jobs.model.problems import FieldProblem, InvalidSpec, field_problems
from jobs.model.spec import Spec, parse_spec, spec_from
from jobs.views.studies import StudySpec


def spec_in(services: Services, caller: Caller, document: bytes | Mapping[str, Any]) -> Spec:
    """The spec in a document. Raises `InvalidSpec`."""
    try:
        return parse_spec(document) if isinstance(document, bytes) else spec_from(dict(document))
    except InvalidSpec as error:
        wrong_fields = [problem.field for problem in error.problems]
        rest = _problems_of_rest(services, caller, _object_in(document), wrong_fields)
        raise InvalidSpec([*error.problems, *rest]) from None


def study_in(services: Services, caller: Caller, body: bytes) -> tuple[StudySpec, list[Cell]]:
    """The study in a request's body, and its cells, or the ends of its search. Raises `InvalidSpec`."""
    try:
        study = StudySpec.model_validate_json(body)
    except ValidationError as error:
        problems = field_problems(error, StudySpec)
        raise InvalidSpec([*problems, *_problems_inside(services, caller, _object_in(body), problems)]) from None
    return study, _cells_of(services, caller, study)


def _cells_of(services: Services, caller: Caller, study: StudySpec) -> list[Cell]:
    try:
        return cells_of(study) if study.search is None else ends_of(study)
    except InvalidSpec as error:
        told = {problem.field for problem in error.problems}
        of_base = _problems_of_base(services, caller, study)
        raise InvalidSpec([*error.problems, *(one for one in of_base if one.field not in told)]) from None


def _problems_of_base(services: Services, caller: Caller, study: StudySpec) -> list[FieldProblem]:
    """What is wrong with the base by itself, apart from the fields that the study varies."""
    varied = ["name", *study.grid, *(study.search.space if study.search is not None else ())]
    problems: list[FieldProblem] = []
    try:
        spec_from(study.base)
    except InvalidSpec as error:
        tops = {field.partition(".")[0] for field in varied}
        problems = [problem for problem in error.problems if problem.field.partition(".")[0] not in tops]
    rest = _problems_of_rest(services, caller, study.base, [*(problem.field for problem in problems), *varied])
    return [replace(problem, field=f"base.{problem.field}") for problem in [*problems, *rest]]


def _problems_inside(
    services: Services, caller: Caller, document: Mapping[str, Any], found: Sequence[FieldProblem]
) -> list[FieldProblem]:
    """What else is wrong inside the parts of a study that are right by themselves."""
    tops = {problem.field.partition(".")[0] for problem in found}
    try:
        study = StudySpec.model_validate({name: value for name, value in document.items() if name not in tops})
        _cells_of(services, caller, study)
    except ValidationError:  # the base itself is wrong
        return []
    except InvalidSpec as error:
        inner = [part for part in ("base", "grid", "search") if part not in tops]
        return [problem for problem in error.problems if any(_is_inside(problem, part) for part in inner)]
    return []


def _problems_of_rest(
    services: Services, caller: Caller, document: Mapping[str, Any], wrong_fields: Sequence[str]
) -> list[FieldProblem]:
    """The problems of what is left without the wrong fields, as far as they do not come from these."""
    spec = rest_of(document, wrong_fields) if document else None
    if spec is None:
        return []
    checked = check_spec(spec, services.site, Registry(services.sessions), Origins(services))
    with services.sessions.begin() as session:
        problems = StateChecks(session, caller.applicant, [checked.spec]).problems_of(checked)
    return told_of_rest(problems, wrong_fields)


def _object_in(document: bytes | Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a document; none if it is no object."""
    try:
        fields = from_json(document) if isinstance(document, bytes) else document
    except ValueError:
        return {}
    return fields if isinstance(fields, Mapping) else {}


def _is_inside(problem: FieldProblem, part: str) -> bool:
    return problem.field.startswith(f"{part}.")
