"""The fields of jobs and conditions about them as SQL. Called by the lists of jobs and of their groups.

A field's value is that of the column of its name in the API's JSON of a job (`jobs.views.job_columns`); SQL's null is
no value. What a person sent gets into a statement as a bound value only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Numeric,
    SQLColumnExpression,
    Text,
    and_,
    case,
    cast,
    func,
    literal,
    literal_column,
    null,
    or_,
    type_coerce,
)
from sqlalchemy.dialects.postgresql import JSONB

from jobs.db.tables import Job
from jobs.model.job_fields import FIELDS, Kind, family_of, kind_of
from jobs.model.printable import one_form
from jobs.model.stored_spec import later_dataset_defaults, later_default
from jobs.model.where import HAS, LACKS, PATTERNS, Comparison, Where, json_of, number_of, span_of

Sql = SQLColumnExpression[Any]

_OPEN_FIELDS = frozenset({"params", "labels", "env"})  # of the spec: their names may have dots
_SHORT = ("name", "source")  # what a text in place of an object stands for
_RESULTS = ("val_accuracy", "val_loss", "test_accuracy", "test_loss")  # of a summary, which are metrics too
_NUMBER = r"^[+-]?([0-9]{1,99}(\.[0-9]{0,99})?|\.[0-9]{1,99})([eE][+-]?[0-9]{1,3})?$"  # in a text
_MOST_SORTED = 80  # characters of a text that count in a sort: a cursor holds them
_ONE_FORM = ("name", "label")  # fields whose texts are stored in one form


@dataclass(frozen=True)
class FieldValue:
    """The value of a field as SQL: `own` is a text, a number, a time or a boolean; or JSON, of the kind JSON."""

    kind: Kind
    own: Sql

    @cached_property
    def json(self) -> ColumnElement[Any]:
        """The value as JSON, as the API has it."""
        if self.kind is Kind.JSON:
            return type_coerce(self.own, JSONB)
        if self.kind is not Kind.TIME:
            return func.to_jsonb(self.own, type_=JSONB)
        return func.to_jsonb(func.replace(self._moment, ".000000Z", "Z"), type_=JSONB)

    @property
    def _moment(self) -> ColumnElement[str]:
        """A time as text, always as long."""
        return func.to_char(func.timezone("UTC", self.own), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')

    @property
    def text(self) -> Sql:
        """The value as text."""
        return self.own if self.kind is Kind.TEXT else _text(self.json)

    @property
    def sort_key(self) -> ColumnElement[Any]:
        """What to sort by: JSON, which PostgreSQL sorts as texts, then numbers, then false and true.

        Lists and objects count as their texts.
        """
        if self.kind is Kind.TIME:
            return func.to_jsonb(self._moment, type_=JSONB)
        if self.kind not in (Kind.JSON, Kind.TEXT):
            return self.json
        text = func.to_jsonb(func.left(self.text, _MOST_SORTED), type_=JSONB)
        if self.kind is Kind.TEXT:
            return text
        return case((func.jsonb_typeof(self.own).in_(("number", "boolean")), self.own), else_=text)

    @property
    def is_there(self) -> ColumnElement[bool]:
        """Whether the job has a value. Of true and false only true is one."""
        return self.own.is_(True) if self.kind is Kind.FLAG else self.own.is_not(None)


def value_of(name: str) -> FieldValue:
    """The value of the field of this name. Raises `jobs.model.job_fields.UnknownField`."""
    kind = kind_of(name)
    return FieldValue(kind, _FIELDS[name] if name in FIELDS else _of_family(*family_of(name)))


def condition_of(where: Where) -> ColumnElement[bool]:
    """A condition as SQL."""
    return or_(*map(_comparison, where.any_of))


def patterns_in(where: Where) -> list[str]:
    """The regular expressions in a condition."""
    return [_value_text(comparison) for comparison in where.any_of if comparison.operator in PATTERNS]


def _comparison(comparison: Comparison) -> ColumnElement[bool]:
    field, operator = value_of(comparison.field), comparison.operator
    if operator in (HAS, LACKS):
        return field.is_there if operator == HAS else field.is_there.is_not(True)
    if operator in PATTERNS:
        matches = field.text.bool_op("~*")(literal(_value_text(comparison), Text))
        return matches if operator == "~" else matches.is_not(True)
    if operator in ("=", "!="):
        equal = _equal(field, comparison)
        return equal if operator == "=" else equal.is_not(True)
    return _by_size(field, comparison)


def _equal(field: FieldValue, comparison: Comparison) -> ColumnElement[bool]:
    value = _value_text(comparison)
    if field.kind is Kind.TEXT:
        return field.own == literal(value, Text)
    if field.kind is Kind.FLAG:
        return field.own.is_(value == "true")
    if field.kind is Kind.NUMBER:
        return field.own == literal(number_of(value), Numeric)
    if field.kind is Kind.TIME:
        begin, end = span_of(value)
        return and_(field.own >= begin, field.own < end)
    text, own = func.to_jsonb(literal(value, Text), type_=JSONB), json_of(comparison)
    if own is None:
        return field.own == text
    number = number_of(value)
    return field.own.in_([text, literal(own, JSONB) if number is None else func.to_jsonb(literal(number, Numeric))])


def _by_size(field: FieldValue, comparison: Comparison) -> ColumnElement[bool]:
    value, operator = _value_text(comparison), comparison.operator
    if field.kind is Kind.TIME:
        begin, end = span_of(value)
        # A day ends at its last moment: later than a day is from the next one on.
        return {"<": field.own < begin, "<=": field.own < end, ">": field.own >= end, ">=": field.own >= begin}[
            operator
        ]
    number = None if comparison.is_quoted or field.kind is Kind.TEXT else number_of(value)
    if number is None:
        return field.text.bool_op(operator)(literal(value, Text))
    own = _number(field.own) if field.kind is Kind.JSON else field.own
    return own.bool_op(operator)(literal(number, Numeric))


def _value_text(comparison: Comparison) -> str:
    value = comparison.value or ""
    return one_form(value) if family_of(comparison.field)[0] in _ONE_FORM else value


def _text(json: Sql) -> Sql:
    return json.op("#>>")(literal_column("'{}'::text[]"))


def _number(json: Sql) -> Sql:
    """The number that a value of JSON is, or that its text is written as."""
    text = _text(json)
    return case(
        (func.jsonb_typeof(json) == "number", cast(text, Numeric)),
        (
            and_(func.jsonb_typeof(json) == "string", text.bool_op("~")(literal_column(f"'{_NUMBER}'"))),
            cast(text, Numeric),
        ),
    )


def _json_number(json: Sql) -> Sql:
    return case((func.jsonb_typeof(json) == "number", cast(_text(json), Numeric)))


def _known(json: Sql) -> Sql:
    """A value of JSON without JSON's null."""
    return func.nullif(json, literal_column("'null'::jsonb"), type_=JSONB)


def _in(json: Sql, name: str) -> Sql:
    return json.op("->", return_type=JSONB())(literal(name, Text))


def _of_family(family: str, name: str) -> Sql:
    if family == "label":
        return _known(_in(Job.labels, name))
    if family == "spec":
        return _known(_in_spec(name.split(".")))
    if family == "test":
        return _json_number(_in(Job.summary, f"test_{name}"))
    return _json_number(_metric(name, "best" if family == "metrics" else family))


def _metric(name: str, which: str) -> Sql:
    of_job = _in(_in(Job.metrics, name), which)
    has_summary = name in _RESULTS and which in ("best", "last")
    return func.coalesce(of_job, _in(Job.summary, name), type_=JSONB) if has_summary else of_job


def _in_spec(path: Sequence[str]) -> Sql:
    """A field of the spec by its path, with what `jobs.model.stored_spec` fills in."""
    first, *rest = path
    value = _in(Job.spec, first)
    if first == "dataset":
        filled = literal(later_dataset_defaults(), JSONB).op("||", return_type=JSONB())(value)
        return _in_object(value, rest, later_default("dataset", rest[0])) if rest else _if_object(value, filled)
    default = later_default(first)
    if default is not None:
        value = func.coalesce(value, literal(default, JSONB), type_=JSONB)
    return _in_open_object(value, rest) if first in _OPEN_FIELDS else _in_object(value, rest)


def _if_object(json: Sql, value: Sql) -> Sql:
    return case((func.jsonb_typeof(json) == "object", value))


def _in_object(value: Sql, path: Sequence[str], default: Any = None) -> Sql:
    for place, name in enumerate(path):
        above, value = value, _in(value, name)
        if place == len(path) - 1 and name in _SHORT:
            value = func.coalesce(value, case((func.jsonb_typeof(above) == "string", above)), type_=JSONB)
        if default is not None and place == 0:
            value = _if_object(above, func.coalesce(value, literal(default, JSONB)))
    return value


def _in_open_object(value: Sql, path: Sequence[str]) -> Sql:
    """A value below an object whose names may have dots: the longest name that it has counts."""
    if not path:
        return value
    whens: list[tuple[ColumnElement[bool], Sql]] = []
    for length in range(len(path), 0, -1):
        name = ".".join(path[:length])
        inner = _in_open_object(_in(value, name), path[length:])
        whens.append((value.bool_op("?")(literal(name, Text)), inner))
    if list(path) in [[name] for name in _SHORT]:
        whens.insert(0, (func.jsonb_typeof(value) == "string", value))
    return case((func.jsonb_typeof(value).in_(("object", "string")), case(*whens, else_=null())))


def _seconds(length: Sql) -> Sql:
    return cast(func.extract("epoch", length), Numeric)


# As `jobs.lifecycle.job_usage` counts them: the hosts of the newest attempt, and the hours of all.
_HOSTS = """(
    SELECT string_agg(share ->> 'host', ', ' ORDER BY place)
    FROM attempts, jsonb_array_elements(attempts.shares) WITH ORDINALITY AS shares_of_newest (share, place)
    WHERE attempts.job_id = jobs.id AND attempts.number = (
        SELECT max(number) FROM attempts AS every WHERE every.job_id = jobs.id))"""
_GPU_HOURS = """(
    SELECT round(coalesce(sum(attempts.gpus
        * greatest(extract(epoch FROM coalesce(attempts.ended_at, now()) - attempts.created_at), 0)), 0) / 3600, 6)
    FROM attempts WHERE attempts.job_id = jobs.id)"""

_FIELDS: dict[str, Sql] = {
    "status": cast(Job.status, Text),
    "name": Job.name,
    "owner": Job.owner,
    "project": Job.project,
    "dataset": _text(_known(_in_spec(["dataset", "source"]))),
    "model": _text(_known(_in_spec(["model", "name"]))),
    "study": Job.study_id,
    "cell": Job.study_cell,
    "gpus": Job.gpus,
    "batch": _json_number(_in(Job.plan, "global_batch")),
    "rate": _json_number(_in(Job.plan, "learning_rate")),
    "throughput": func.coalesce(
        _json_number(_in(Job.summary, "train_samples_per_s")), _json_number(_in(Job.progress, "samples_per_s"))
    ),
    "duration": _seconds(func.coalesce(Job.ended_at, func.now()) - Job.started_at),
    "priority": Job.priority,
    "created": Job.created_at,
    "started": Job.started_at,
    "ended": Job.ended_at,
    "stored": case(
        (or_(Job.checkpoint_bytes.is_not(None), Job.artifact_bytes.is_not(None)),
         cast(func.coalesce(Job.checkpoint_bytes, 0), BigInteger) + func.coalesce(Job.artifact_bytes, 0)),
    ),
    "starred": Job.starred,
    "archived": Job.archived,
    "notes": case((Job.notes_at.is_not(None), Job.notes)),
    "paused": Job.paused_at.is_not(None),
    "host": literal_column(_HOSTS, Text()),
    "gpu_hours": literal_column(_GPU_HOURS, Numeric()),
    "end_reason": cast(Job.end_reason, Text),
    "error": Job.error,
    "restarts": Job.restarts,
    "alerts": Job.alerts,
}  # fmt: skip
