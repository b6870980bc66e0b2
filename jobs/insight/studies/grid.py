"""Makes the cells of a study: every combination of the grid's values, merged into the base and checked as a spec.

Pure; called by the api before it stores a study. Problems name a field as it was written: `grid.FIELD[N]`, N from 0, or
`base.FIELD`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json

from jobs.insight.studies.goals import goal_of, impossible
from jobs.model.documents import set_field
from jobs.model.printable import MOST_IN_NAME, cleaned
from jobs.model.problems import FieldProblem, InvalidSpec, fields_at
from jobs.model.spec import Spec, spec_from
from jobs.suggestions import MOST_PROPOSALS, similar_to
from jobs.views.studies import StudySpec

_NOT_VARIED = {
    "name": "each job is named after the study and its cell",
    "project": "all jobs of a study belong to one project; set it in the base",
    "labels": "labels change nothing that a study measures",
    "probe": "a study consists of trainings; submit a batch probe by itself",
}
_WITH_ANY_NAMES = ("params", "env")  # objects of a script's spec whose fields have any names
_NESTED = "write fields of objects as dataset.fraction"
_SEEDS = 2**32
MOST_CELL_BYTES = 64 * 1024  # of a cell's spec as it is written: there may be a thousand cells


@dataclass(frozen=True)
class Cell:
    """One combination of the grid's values, and the spec of its first repeat."""

    values: dict[str, Any]  # by dotted field, as given
    positions: tuple[int, ...]  # of the values in their lists
    spec: Spec


def cells_of(study: StudySpec) -> list[Cell]:
    """The cells, sorted as in the grid: the last field's values vary fastest. Raises `InvalidSpec`.

    An empty grid makes one cell: the base.
    """
    problems = [*wrong_fields(study), *wrong_values(study), *wrong_target(study)]
    if not problems:
        problems = [*_wrong_numbers(study), *too_large(study)]
    if problems:
        raise InvalidSpec(problems)
    cells, cell_problems, base = [], CellProblems(study), to_json(study.base)
    for positions in product(*(range(len(values)) for values in study.grid.values())):
        values = {field: given[at] for (field, given), at in zip(study.grid.items(), positions, strict=True)}
        try:
            cells.append(Cell(values, positions, spec_from(document_of(study.name, base, values))))
        except InvalidSpec as error:
            cell_problems.add(positions, error.problems)
    if problems := cell_problems.problems() or _equal_cells(cells):
        raise InvalidSpec(problems)
    return cells


def spec_of(cell: Cell, repeat: int) -> Spec:
    """The spec of one repeat of a cell: repeats differ in their seed, and in their name."""
    if repeat == 0:
        return cell.spec
    name = f"{cell.spec.name} r{repeat + 1}"
    return cell.spec.model_copy(update={"name": name, "seed": (cell.spec.seed + repeat) % _SEEDS})


class CellProblems:
    """The problems of all cells, collected by the field as it was written, so that each problem is reported once."""

    def __init__(self, study: StudySpec) -> None:
        self._study = study
        self._fields = list(study.grid)
        self._found: dict[tuple[str, str], tuple[FieldProblem, list[tuple[int, ...]]]] = {}

    def add(self, positions: tuple[int, ...], problems: Sequence[FieldProblem]) -> None:
        """Add the problems of the cell at these positions of the grid."""
        for problem in problems:
            field = self._written_as(problem.field, positions)
            _, cells = self._found.setdefault((field, problem.message), (problem, []))
            cells.append(positions)

    def problems(self) -> list[FieldProblem]:
        """All problems. If other cells with the same value are valid, a problem names the values of an invalid one."""
        return [
            FieldProblem(field, message + self._example(field, cells), problem.received)
            for (field, message), (problem, cells) in self._found.items()
        ]

    def _written_as(self, field: str, positions: tuple[int, ...]) -> str:
        """Where a field of a spec was written: in the innermost field of the grid that holds it, or in the base."""
        holding = [name for name in self._fields if field == name or field.startswith(f"{name}.")]
        if not holding:
            return f"base.{field}" if field else "base"
        name = max(holding, key=len)
        return f"grid.{name}[{positions[self._fields.index(name)]}]{field[len(name) :]}"

    def _example(self, field: str, cells: Sequence[tuple[int, ...]]) -> str:
        fields = [name for name in self._fields if not field.startswith(f"grid.{name}[")]
        every_cell = prod(len(self._study.grid[name]) for name in fields)
        if len(cells) == every_cell or not fields:
            return ""
        values = [f"{name} {value_text(self._study.grid[name][cells[0][self._fields.index(name)]])}" for name in fields]
        more = f", and {len(cells) - 1} more" if len(cells) > 1 else ""
        return f" (with {', '.join(values)}{more})"


def document_of(study_name: str, base: bytes, values: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a cell as a person would write it. Outer fields are set first, so that inner ones change them.

    The base is JSON, because reading it again is the quickest copy.
    """
    document: dict[str, Any] = from_json(base)
    for field in sorted(values, key=lambda field: field.count(".")):
        value = values[field]
        set_field(document, field.split("."), from_json(to_json(value)) if isinstance(value, dict) else value)
    document["name"] = job_name(study_name, values)
    return document


def job_name(study: str, values: Mapping[str, Any]) -> str:
    """The name of a cell's jobs: the study and the cell's values, cut to the longest name that is allowed."""
    text = " ".join([study, *(f"{field.rpartition('.')[2]} {value_text(value)}" for field, value in values.items())])
    return cleaned(text, MOST_IN_NAME - len(" r100"))


def value_text(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(
            value_text(inner) if key in ("name", "source") else f"{key} {value_text(inner)}"
            for key, inner in value.items()
        )
    return value if isinstance(value, str) else json.dumps(value)


def wrong_fields(study: StudySpec) -> Iterator[FieldProblem]:
    for place, field in enumerate(study.grid):
        top, _, inner = field.partition(".")
        if top in _NOT_VARIED:
            yield FieldProblem(f"grid.{field}", f"cannot be varied: {_NOT_VARIED[top]}")
        elif top in _WITH_ANY_NAMES and inner:
            yield from _wrong_inner(study, field)
        elif not _is_field(Spec, field.split(".")):
            proposal = _meant_field(field) if place < MOST_PROPOSALS else ""
            yield FieldProblem(f"grid.{field}", f"a spec has no such field; {_NESTED}{proposal}")
    if study.base.get("probe") is not None:
        yield FieldProblem("base.probe", _NOT_VARIED["probe"])


def _meant_field(field: str) -> str:
    *outer, last = field.split(".")
    similar = similar_to(last, fields_at(outer, Spec))
    return "" if similar is None else f"; did you mean `{'.'.join([*outer, similar])}`?"


def _wrong_inner(study: StudySpec, field: str) -> Iterator[FieldProblem]:
    """A problem if a field inside `params` or `env` cannot be set, because what would hold it is no object."""
    *outer, last = field.split(".")
    if "" in (*outer, last):
        yield FieldProblem(f"grid.{field}", "a name between two dots is empty; write fields of objects as params.lr")
        return
    holders: list[tuple[str, Any]] = [("base", study.base)]
    for at, name in enumerate(outer):
        holders = [(f"{place}.{name}", value[name]) for place, value in holders if name in value]
        path = ".".join(outer[: at + 1])
        holders += [(f"grid.{path}[{number}]", value) for number, value in enumerate(study.grid.get(path, []))]
        for place, value in holders:
            if not isinstance(value, dict):
                message = f"{place} is {value_text(value)[:80]}, no object, so it has no field {field[len(path) + 1 :]}"
                yield FieldProblem(f"grid.{field}", message)
                return


def _is_field(model: type[BaseModel], names: Sequence[str]) -> bool:
    first, *rest = names
    field = model.model_fields.get(first)
    if field is None:
        return False
    return not rest or any(_is_field(part, rest) for part in _parts(field.annotation))


def _parts(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that the values of a field may have."""
    if get_origin(annotation) is Annotated or isinstance(annotation, UnionType):
        for inner in get_args(annotation):
            yield from _parts(inner)
    elif isinstance(annotation, type) and annotation is not NoneType and issubclass(annotation, BaseModel):
        yield annotation


def wrong_values(study: StudySpec) -> Iterator[FieldProblem]:
    for field, values in study.grid.items():
        if not values:
            yield FieldProblem(f"grid.{field}", "has no values")
        first: dict[str, int] = {}
        for at, value in enumerate(values):
            text = json.dumps(value, sort_keys=True)
            if first.setdefault(text, at) != at:
                message = f"is the same value as {field}[{first[text]}]; for several runs of a cell use repeats"
                yield FieldProblem(f"grid.{field}[{at}]", message, text[:80])


def wrong_target(study: StudySpec) -> Iterator[FieldProblem]:
    try:
        goal = goal_of(study.base, ())
    except ValidationError:
        return  # the cells say what is wrong with it
    if study.target is not None and goal is not None and (problem := impossible(study.target, goal, study.base)):
        yield FieldProblem("target", problem, f"{study.target:g}")


def _wrong_numbers(study: StudySpec) -> list[FieldProblem]:
    """Problems with the number of jobs."""
    problems = []
    cells = prod(len(values) for values in study.grid.values())
    jobs = cells * study.repeats
    if jobs > study.max_jobs:
        message = f"{cells} cells with {study.repeats} repeats are {jobs} jobs, more than max_jobs ({study.max_jobs})"
        problems.append(FieldProblem("max_jobs", message, str(study.max_jobs)))
    if "seed" in study.grid and study.repeats > 1:
        message = "repeats differ by their seed, and the grid sets it: remove one of the two"
        problems.append(FieldProblem("repeats", message, str(study.repeats)))
    return problems


def too_large(study: StudySpec) -> Iterator[FieldProblem]:
    """A problem if the spec of a cell can be too large: every cell is checked as a whole."""
    largest = [max(len(to_json(value)) for value in values) for values in study.grid.values()]
    size = len(to_json(study.base)) + sum(largest)
    if size > MOST_CELL_BYTES:
        message = f"the spec of a cell can have {size:,} bytes; at most {MOST_CELL_BYTES:,} are allowed"
        yield FieldProblem("base", message)


def _equal_cells(cells: Sequence[Cell]) -> list[FieldProblem]:
    """A problem if two cells have the same spec, although their values are written in different ways."""
    cell_by_spec: dict[str, Cell] = {}
    for cell in cells:
        text = cell.spec.model_dump_json(exclude={"name"})
        if text in cell_by_spec:
            first, second = (
                " ".join(f"{field} {value_text(value)}" for field, value in equal.values.items())
                for equal in (cell_by_spec[text], cell)
            )
            return [FieldProblem("grid", f"two cells are the same job: {first}, and {second}")]
        cell_by_spec[text] = cell
    return []
