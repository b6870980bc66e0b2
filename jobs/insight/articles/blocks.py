"""Takes the text of an article apart: prose, and the charts and tables in it. Pure.

A chart or a table is a fenced block of Markdown that is named `hora`, with a field on each line:

    ```hora
    chart: val_accuracy
    study: 7m2k0q9d4v1s
    group: batch
    ```

The first field says what it is: `chart` with names of metrics, or `table` with columns. One of `jobs`, `study` and
`filter` says of which jobs.
"""

import re
from collections.abc import Callable, Iterator
from typing import get_args
from urllib.parse import parse_qsl

from jobs.model.goals import METRIC_NAME
from jobs.model.job_fields import UnknownField
from jobs.model.problems import FieldProblem, InvalidSpec
from jobs.model.states import Status
from jobs.model.where import WrongWhere, all_of, parsed
from jobs.suggestions import meant
from jobs.views.articles import MOST_JOBS, Block, BlockAxis, ChartBlock, ProseBlock, Runs, TableBlock
from jobs.views.job_columns import USUAL, is_column

MOST_FIGURES = 40  # charts and tables of an article
_MOST_METRICS, _MOST_COLUMNS = 6, 20
_JOBS_BY_DEFAULT = 20
_FIELDS = {
    "chart": ("chart", "jobs", "study", "filter", "limit", "axis", "group", "title"),
    "table": ("table", "jobs", "study", "filter", "limit", "title"),
}
FILTERS = ("status", "label", "name", "owner", "project", "study", "search", "where")  # of `GET /v1/jobs`

_LINE_END = re.compile(r"\r\n|\r|\n")  # of Markdown: Python's `splitlines` knows more
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^`]*)")
_ID = re.compile(r"[0-9a-z]{1,32}")
_METRIC = re.compile(METRIC_NAME)
_GROUPS, _GROUP_KINDS = ("cell", "batch", "rate", "gpus", "dataset", "model"), ("label.", "spec.")  # columns


def blocks_of(text: str) -> list[Block]:
    """The parts of a text. Raises `InvalidSpec`, which names the line of each wrong field."""
    problems: list[FieldProblem] = []
    blocks: list[Block] = []
    for is_figure, first_line, lines in _pieces(text):
        if not is_figure:
            if any(line.strip() for line in lines):
                blocks.append(ProseBlock(text="\n".join(lines).strip("\n")))
            continue
        figure = _Fields(first_line, lines, problems)
        block = figure.block()
        if block is not None:
            blocks.append(block)
    figures = sum(not isinstance(block, ProseBlock) for block in blocks)
    if figures > MOST_FIGURES:
        problems.append(FieldProblem("text", f"it has {figures} charts and tables; an article may have {MOST_FIGURES}"))
    if problems:
        raise InvalidSpec(problems)
    return blocks


def _pieces(text: str) -> Iterator[tuple[bool, int, list[str]]]:
    """Whether a piece is a chart or a table, the number of its first line, and its lines without the fences."""
    lines: list[str] = []
    first_line, fence, is_figure = 1, "", False
    for number, line in enumerate(_LINE_END.split(text), 1):
        match = _FENCE.fullmatch(line)
        if not fence and match:
            fence, is_figure = match[1], match[2].strip() == "hora"
            if is_figure:
                yield False, first_line, lines
                first_line, lines = number + 1, []
                continue
        elif fence and match and match[1].startswith(fence) and not match[2].strip():
            fence = ""
            if is_figure:
                yield True, first_line, lines
                first_line, lines, is_figure = number + 1, [], False
                continue
        lines.append(line)
    yield is_figure, first_line, lines


def _is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def _is_metric(text: str) -> bool:
    return _METRIC.fullmatch(text) is not None


def _proposal(column: str) -> str:
    """The column that was probably meant: a field of the spec and a metric are written with their kind."""
    kinds = f"; write a field of the spec as `spec.{column}` and a metric as `metrics.{column}`"
    return meant(column, USUAL, "`") or kinds


class _Fields:
    """The fields of one chart or table. What is wrong is added to `problems`."""

    def __init__(self, first_line: int, lines: list[str], problems: list[FieldProblem]) -> None:
        self._problems = problems
        self._values: dict[str, str] = {}
        self._lines: dict[str, int] = {}
        self._first_line = first_line
        for number, line in enumerate(lines, first_line):
            name, colon, value = line.partition(":")
            if not line.strip():
                continue
            if not colon:
                self._wrong(number, "write it as `field: value`", line)
            elif name.strip() in self._values:
                self._wrong(number, f"`{name.strip()}` is there twice", line)
            else:
                self._values[name.strip()], self._lines[name.strip()] = value.strip(), number

    def block(self) -> ChartBlock | TableBlock | None:
        """The block; None if it cannot be known what it is."""
        kind = next(iter(self._values), "")
        if kind not in _FIELDS:
            message = f"the first field must be `chart: METRIC` or `table: COLUMNS`{meant(kind, _FIELDS, '`')}"
            self._wrong(self._first_line, message, kind)
            return None
        for name in self._values.keys() - set(_FIELDS[kind]):
            proposal = meant(name, _FIELDS[kind], "`") or f"; a {kind} has {', '.join(_FIELDS[kind])}"
            self._wrong(self._lines[name], f"no such field `{name}`{proposal}", name)
        title = self._values.get("title") or None
        if kind == "table":
            columns = self._names("table", is_column, most=_MOST_COLUMNS, what="columns, such as name, last.loss")
            return TableBlock(columns=columns, runs=self._runs(), title=title)
        metrics = self._names("chart", _is_metric, most=_MOST_METRICS, what="metrics, such as val_accuracy")
        group = self._group()
        return ChartBlock(metrics=metrics, runs=self._runs(), axis=self._axis(group), group=group, title=title)

    def _runs(self) -> Runs:
        given = [name for name in ("jobs", "study", "filter") if name in self._values]
        if len(given) != 1:
            self._wrong(self._first_line, "say of which jobs: one of `jobs`, `study` and `filter`", ", ".join(given))
        jobs = self._names("jobs", _is_id, most=MOST_JOBS, what="ids of jobs") if "jobs" in self._values else None
        study = self._values.get("study")
        if study is not None and not _is_id(study):
            self._wrong(self._lines["study"], "`study` must be the id of a study", study)
        return Runs(jobs=jobs, study=study, filter=self._filter(), limit=self._limit())

    def _filter(self) -> str | None:
        text = self._values.get("filter")
        if text is None:
            return None
        line = self._lines["filter"]
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=40) if text.count("&") < 40 else []
        if not pairs or "=" not in text:
            self._wrong(line, "`filter` must have parts such as status=succeeded&label=team:vision", text)
        for name, value in pairs:
            if name not in FILTERS:
                proposal = meant(name, FILTERS, "`") or f"; allowed: {', '.join(FILTERS)}"
                self._wrong(line, f"`filter` has no `{name}`{proposal}", text)
            elif name == "status" and not set(value.split(",")) <= set(Status):
                self._wrong(line, f"`status` must be one of {', '.join(Status)}", value)
            elif name == "label" and ":" not in value:
                self._wrong(line, "write a label as key:value", value)
        try:
            all_of(parsed(value) for name, value in pairs if name == "where")
        except (WrongWhere, UnknownField) as error:
            self._wrong(line, str(error), text)
        return text

    def _limit(self) -> int:
        text = self._values.get("limit", str(_JOBS_BY_DEFAULT))
        if not (text.isascii() and text.isdecimal() and len(text) < 4 and 1 <= int(text) <= MOST_JOBS):
            self._wrong(self._lines["limit"], f"`limit` must be a whole number from 1 to {MOST_JOBS}", text)
            return _JOBS_BY_DEFAULT
        return int(text)

    def _group(self) -> str | None:
        group = self._values.get("group")
        if group is not None and group not in _GROUPS and not (group.startswith(_GROUP_KINDS) and is_column(group)):
            allowed = ", ".join([*_GROUPS, *(f"{kind}NAME" for kind in _GROUP_KINDS)])
            self._wrong(self._lines["group"], f"`group` must be one of {allowed}", group)
        return group

    def _axis(self, group: str | None) -> BlockAxis:
        allowed: tuple[BlockAxis, ...] = get_args(BlockAxis)
        text = self._values.get("axis", "epoch")
        for axis in allowed:
            if axis == text and (axis == "epoch" or group is None):
                return axis
        of_group = "; with `group` it must be epoch" if text in allowed else ""
        self._wrong(self._lines["axis"], f"`axis` must be one of {', '.join(allowed)}{of_group}", text)
        return "epoch"

    def _names(self, field: str, is_right: Callable[[str], bool], *, most: int, what: str) -> list[str]:
        names = [name.strip() for name in self._values[field].split(",") if name.strip()]
        wrong = [name for name in names if not is_right(name)]
        if wrong or not names or len(names) > most:
            proposal = _proposal(wrong[0]) if wrong and field == "table" else ""
            message = f"`{field}` must be 1 to {most} {what}, with commas between{proposal}"
            self._wrong(self._lines[field], message, ", ".join(wrong))
        return list(dict.fromkeys(names))

    def _wrong(self, line: int, message: str, received: str) -> None:
        self._problems.append(FieldProblem("text", f"line {line}: {message}", received[:80]))
