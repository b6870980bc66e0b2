"""The space of a search: what may be chosen for each field, and the checks of a new search. Pure; called by the api.

A dimension is a list of values, or a range of numbers. Its ends are checked as a grid's values are, so that a mistake
is found before the first trial. Problems name a field as it was written: `search.space.FIELD.log[1]`.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import floor, isfinite, log10, prod
from typing import Any

from pydantic_core import to_json

from jobs.insight.studies.grid import (
    Cell,
    CellProblems,
    document_of,
    too_large,
    wrong_fields,
    wrong_target,
    wrong_values,
)
from jobs.model.problems import FieldProblem, InvalidSpec
from jobs.model.spec import spec_from
from jobs.views.searches import SearchSpec
from jobs.views.studies import StudySpec

DIGITS = 4  # of a chosen number, so that names and tables can be read
MOST_VALUES = 1000  # of all lists together: each is checked as a job
_MOST_NUMBER = 1e15  # above it, floats are not exact to the digit
_FORMS = "a list of values, {log: [1.0e-4, 0.1]}, {uniform: [0, 0.5]} or {int: [1, 8]}"


@dataclass(frozen=True)
class Choice:
    """One of some values of any kind."""

    values: Sequence[Any]

    @property
    def ends(self) -> Sequence[Any]:
        """The values to check before the search begins."""
        return self.values

    def place(self, at: int) -> str:
        """Where an end was written, below the dimension."""
        return f"[{at}]"


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included."""

    kind: str  # as written: log, uniform, int
    low: float
    high: float
    is_int: bool
    is_log: bool

    @property
    def ends(self) -> Sequence[Any]:
        """The values to check before the search begins."""
        return (self.low, self.high)

    def place(self, at: int) -> str:
        """Where an end was written, below the dimension."""
        return f".{self.kind}[{at}]"

    def rounded(self, value: float) -> float:
        """The value as a trial has it: a whole number, or a number with few digits, within the range."""
        if self.is_int:
            return int(value)
        if value == 0:
            return 0.0
        return float(min(max(round(value, DIGITS - 1 - floor(log10(abs(value)))), self.low), self.high))


Dimension = Choice | Range
Space = Mapping[str, Dimension]


def space_of(search: SearchSpec) -> Space:
    """The dimensions by field, in the sequence in which they were written. Raises `InvalidSpec`."""
    space: dict[str, Dimension] = {}
    problems = []
    for field, given in search.space.items():
        read = _dimension(given)
        if isinstance(read, FieldProblem):
            problems.append(FieldProblem(f"search.space.{field}{read.field}", read.message, read.received))
        else:
            space[field] = read
    if problems:
        raise InvalidSpec(problems)
    return space


def combinations(space: Space) -> int | None:
    """How many trials can differ; None: any number."""
    sizes = [len(_all_values(dimension)) for dimension in space.values() if not _is_continuous(dimension)]
    return prod(sizes) if len(sizes) == len(space) else None


def combination(space: Space, number: int) -> dict[str, Any]:
    """A combination by its number from 0. The values of the last field vary fastest. Not for log and uniform."""
    values = {}
    for field, dimension in reversed(list(space.items())):
        choices = _all_values(dimension)  # a range may be too long to go through
        number, at = divmod(number, len(choices))
        values[field] = choices[at]
    return {field: values[field] for field in space}


def trials_of(search: SearchSpec, space: Space) -> int:
    """How many trials the search has in the end."""
    if search.trials is None:
        return combinations(space) or 0
    return search.trials


def ends_of(study: StudySpec) -> list[Cell]:
    """The ends of all dimensions as cells: one field at a time, the others with their first value.

    Raises `InvalidSpec` with all that is wrong with the search.
    """
    search = study.search
    assert search is not None
    problems = list(_wrong_study(study, search))
    if problems:
        raise InvalidSpec(problems)
    space = space_of(search)
    if (ends := sum(len(dimension.ends) for dimension in space.values())) > MOST_VALUES:
        raise InvalidSpec([FieldProblem("search.space", f"has {ends:,} values; at most {MOST_VALUES:,} are allowed")])
    as_grid = grid_of_ends(study, space)
    problems = [*wrong_fields(as_grid), *wrong_values(as_grid), *wrong_target(as_grid)]
    if not problems:
        problems = [*_wrong_number(study, search, space), *_wrong_method(search, space), *too_large(as_grid)]
    if problems:
        raise InvalidSpec(as_written(problems, space))
    cells, cell_problems, base = [], EndProblems(as_grid, space), to_json(study.base)
    for positions in _positions(as_grid):
        values = {field: as_grid.grid[field][at] for field, at in zip(as_grid.grid, positions, strict=True)}
        try:
            cells.append(Cell(values, positions, spec_from(document_of(study.name, base, values))))
        except InvalidSpec as error:
            cell_problems.add(positions, error.problems)
    if problems := cell_problems.problems():
        raise InvalidSpec(problems)
    return cells


def grid_of_ends(study: StudySpec, space: Space) -> StudySpec:
    """The study with the ends of the dimensions as its grid, for the checks of grids."""
    ends = {field: list(dimension.ends) for field, dimension in space.items()}
    return study.model_copy(update={"grid": ends})


class EndProblems(CellProblems):
    """The problems of the ends, collected by the field as it was written."""

    def __init__(self, as_grid: StudySpec, space: Space) -> None:
        super().__init__(as_grid)
        self._space = space

    def problems(self) -> list[FieldProblem]:
        """All problems, named by where they were written in the space."""
        return as_written(super().problems(), self._space)

    def _example(self, field: str, cells: Sequence[tuple[int, ...]]) -> str:
        return ""  # the others have their first values


def as_written(problems: Sequence[FieldProblem], space: Space) -> list[FieldProblem]:
    """The problems of a grid of ends, named by where they were written in the space."""
    return [FieldProblem(_written(problem.field, space), problem.message, problem.received) for problem in problems]


def _written(path: str, space: Space) -> str:
    for field in sorted(space, key=len, reverse=True):
        found = re.fullmatch(rf"grid\.{re.escape(field)}(?:\[(\d+)\](.*))?", path, re.DOTALL)
        if found is not None:
            place = "" if found[1] is None else space[field].place(int(found[1])) + found[2]
            return f"search.space.{field}{place}"
    return path


def _positions(as_grid: StudySpec) -> Iterator[tuple[int, ...]]:
    first = (0,) * len(as_grid.grid)
    yield first
    for field, values in enumerate(as_grid.grid.values()):
        for at in range(1, len(values)):
            yield (*first[:field], at, *first[field + 1 :])


def _dimension(given: Any) -> Dimension | FieldProblem:
    """A dimension, or the problem with it below its field."""
    match given:
        case list():
            return _choice(given)
        case {"int": ends, **others} if others.keys() <= {"log"}:
            is_log = others.get("log", False)
            if not isinstance(is_log, bool):
                return FieldProblem(".log", "must be true or false beside int", _shown(is_log))
            return _range("int", ends, is_log=is_log)
        case {"log": ends, **others} if not others:
            return _range("log", ends, is_log=True)
        case {"uniform": ends, **others} if not others:
            return _range("uniform", ends, is_log=False)
    return FieldProblem("", f"must be {_FORMS}", _shown(given))


def _choice(given: Sequence[Any]) -> Choice | FieldProblem:
    if not given:
        return FieldProblem("", "has no values")
    if len(given) > MOST_VALUES:
        return FieldProblem("", f"has {len(given):,} values; at most {MOST_VALUES:,} are allowed")
    return Choice(given)


def _shown(given: Any) -> str:
    return json.dumps(given)[:80]


def _range(kind: str, ends: Any, *, is_log: bool) -> Range | FieldProblem:
    if not isinstance(ends, list) or len(ends) != 2:
        return FieldProblem(f".{kind}", "must be a list of two numbers, the lowest and the highest", _shown(ends))
    for at, end in enumerate(ends):
        place = f".{kind}[{at}]"
        is_number = isinstance(end, int | float) and not isinstance(end, bool)
        if not is_number or not isfinite(end) or abs(end) > _MOST_NUMBER:
            return FieldProblem(place, f"must be a number, at most {_MOST_NUMBER:g}", _shown(end))
        if kind == "int" and end != int(end):
            return FieldProblem(place, "must be a whole number", str(end))
        if is_log and end <= 0:
            return FieldProblem(place, "must be above 0, because its logarithm counts", str(end))
    low, high = ends
    if low >= high:
        return FieldProblem(f".{kind}[1]", f"must be above the lowest number, which is {low}", str(high))
    number = int if kind == "int" else float
    return Range(kind, number(low), number(high), kind == "int", is_log)


def _is_continuous(dimension: Dimension) -> bool:
    return isinstance(dimension, Range) and not dimension.is_int


def _all_values(dimension: Dimension) -> Sequence[Any]:
    if isinstance(dimension, Choice):
        return dimension.values
    return range(int(dimension.low), int(dimension.high) + 1)


def _wrong_study(study: StudySpec, search: SearchSpec) -> Iterator[FieldProblem]:
    """Problems with fields beside the space."""
    if study.grid:
        yield FieldProblem("search", "a study has a grid or a search, not both; put the grid's values into the space")
    if study.repeats > 1:
        message = "a search has no repeats; put several seeds into the space, or repeat the best trial in a grid"
        yield FieldProblem("repeats", message, str(study.repeats))
    is_script = study.base.get("code") is not None
    if is_script and search.objective is None and study.base.get("goal") is None:
        yield FieldProblem(
            "search.objective", "is required for a script whose base has no goal: name a metric it reports"
        )
    if search.prune is not None and search.prune.name != "asha" and "reduction" in search.prune.model_fields_set:
        yield FieldProblem("search.prune.reduction", "is only for asha", str(search.prune.reduction))


def _wrong_number(study: StudySpec, search: SearchSpec, space: Space) -> Iterator[FieldProblem]:
    possible, trials = combinations(space), search.trials
    if trials is None and (search.method != "grid" or possible is None):
        why = "a number is required" if search.method != "grid" else "a number is required with log or uniform"
        yield FieldProblem("search.trials", f"{why}: how many trials?")
    elif trials is not None and possible is not None and trials > possible:
        yield FieldProblem("search.trials", f"the space has only {possible:,} combinations", str(trials))
    number = trials if trials is not None else possible
    if number is not None and number > study.max_jobs:
        yield FieldProblem(
            "max_jobs", f"{number:,} trials are more than max_jobs ({study.max_jobs})", str(study.max_jobs)
        )


def _wrong_method(search: SearchSpec, space: Space) -> Iterator[FieldProblem]:
    if search.method != "grid":
        return
    for field, dimension in space.items():
        if isinstance(dimension, Range) and not dimension.is_int:
            message = "a grid needs a list of values here, or {int: [1, 8]}; random and tpe choose from ranges"
            yield FieldProblem(f"search.space.{field}", message)


def first_untried(space: Space, tried: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The first combination that was not tried; None if each of them was."""
    numbers = range(min(combinations(space) or 0, len(tried) + 1))
    return next((values for number in numbers if (values := combination(space, number)) not in tried), None)
