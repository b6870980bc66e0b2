"""The sort keys of the list of jobs, and a job's position in the list as a cursor stores it.

Used by `jobs.lifecycle.listing`.

Each order of `Order` has an index, which is read forwards and backwards. `SORTED_BY` and `Job` declare them. An order
by another field has none, because metrics and fields of the spec have any names.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, StringConstraints, TypeAdapter
from sqlalchemy import BigInteger, ColumnElement, DateTime, Float, cast, literal, literal_column
from sqlalchemy import Text as SqlText
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.types import TypeEngine

from jobs.db.cursors import Moment, Text, positions
from jobs.db.tables import SORTED_BY, Job
from jobs.lifecycle.field_values import value_of
from jobs.model.job_fields import UnknownField, kind_of
from jobs.suggestions import meant

Order = Literal[
    "-created_at", "created_at", "-started_at", "started_at", "-ended_at", "ended_at", "-duration", "duration",
    "-name", "name", "-priority", "priority", "-gpus", "gpus", "-stored", "stored", "-batch_size", "batch_size",
    "-learning_rate", "learning_rate", "-val_accuracy", "val_accuracy", "-val_loss", "val_loss",
    "-train_samples_per_s", "train_samples_per_s",
]  # fmt: skip

# By any other field, such as metrics.val_iou or spec.batch_size, and from the greatest on -metrics.val_iou.
FieldOrder = Annotated[
    str,
    StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]+$", max_length=300),
    Field(json_schema_extra={"format": "field-order"}),
]
# Fields of jobs that an order with an index sorts by.
_INDEXED = {"created": "created_at", "batch": "batch_size", "rate": "learning_rate"}


def known_order(text: Any) -> Any:
    """Refuse a text that is no order, with a sentence that says what is allowed. For pydantic."""
    fields = [order for order in get_args(Order) if not order.startswith("-")]
    if not isinstance(text, str) or text.removeprefix("-") in fields:
        return text
    try:
        kind_of(text.removeprefix("-"))
    except UnknownField as error:
        proposal = meant(text.removeprefix("-"), fields)
        raise ValueError(
            f"no such order{proposal}"
            if proposal
            else f"{error}; to sort also {', '.join(fields)}, each also with a minus in front"
        ) from None
    return text


Stored = datetime | str | int | float  # in a cursor

NOTHING = ""  # in a cursor: the job has no value
Nothing = Literal[""]
_Integer = Annotated[int, Field(ge=-(2**31), lt=2**31)]
_BigInteger = Annotated[int, Field(ge=-(2**63), lt=2**63)]
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class SortKey:
    """The key of an order. The time of creation and the id follow it."""

    sql: ColumnElement[Any] | InstrumentedAttribute[Any]
    of: Callable[[Job], Stored] | None  # None: the list reads the text of `sql` with each job
    stored: Any  # the type of what `of` returns
    greatest: ColumnElement[Any] | None = None  # the value of `sql` for a job that has no value yet
    is_nullable: bool = False  # a job may have no value: such jobs come last in both directions

    def bound(self, stored: Stored) -> ColumnElement[Any]:
        """A value of a cursor as SQL."""
        if stored == NOTHING and self.greatest is not None:
            return self.greatest
        return literal(stored, self.sql.type) if self.of else cast(literal(stored, SqlText), JSONB)


def _time(name: str) -> SortKey:
    """A time. What has not happened yet comes after all that has happened."""

    def of(job: Job) -> Stored:
        at: datetime | None = getattr(job, name)
        return NOTHING if at is None else at

    moment = DateTime(timezone=True)
    infinity = literal_column("'infinity'::timestamptz", moment)
    return SortKey(literal_column(SORTED_BY[name], moment), of, Moment | Nothing, infinity)


def _duration_us(job: Job) -> Stored:
    if job.started_at is None or job.ended_at is None:
        return NOTHING
    return (job.ended_at - job.started_at) // _MICROSECOND


def _figure(name: str, part: str, field: str, kind: TypeEngine[Any], stored: Any) -> SortKey:
    """A number of a job's plan or summary. A job may not have it."""

    def of(job: Job) -> Stored:
        value: float | None = (getattr(job, part) or {}).get(field)
        return NOTHING if value is None else float(value) if stored is float else value

    return SortKey(literal_column(SORTED_BY[name], kind), of, stored | Nothing, is_nullable=True)


def _result(name: str) -> SortKey:
    return _figure(name, "summary", name, Float(53), float)


def _by_field(name: str) -> SortKey:
    """The value of any field. A job may not have it."""
    return SortKey(value_of(name).sort_key, None, Text, is_nullable=True)


KEYS: dict[str, SortKey | None] = {
    "created_at": None,  # all orders end with it
    "started_at": _time("started_at"),
    "ended_at": _time("ended_at"),
    "duration": SortKey(
        literal_column(SORTED_BY["duration"], BigInteger()),
        _duration_us,
        _BigInteger | Nothing,
        literal_column(str(2**63 - 1), BigInteger()),
    ),
    "name": SortKey(Job.name, lambda job: job.name, Text),
    "priority": SortKey(Job.priority, lambda job: job.priority, _Integer),
    "gpus": SortKey(Job.gpus, lambda job: job.gpus, _Integer),
    "stored": SortKey(
        literal_column(SORTED_BY["stored"], BigInteger()),
        lambda job: (job.checkpoint_bytes or 0) + (job.artifact_bytes or 0),
        _BigInteger,
    ),
    "batch_size": _figure("batch_size", "plan", "global_batch", BigInteger(), _BigInteger),
    "learning_rate": _figure("learning_rate", "plan", "learning_rate", Float(53), float),
    "val_accuracy": _result("val_accuracy"),
    "val_loss": _result("val_loss"),
    "train_samples_per_s": _result("train_samples_per_s"),
}


def _positions(key: SortKey | None) -> TypeAdapter[tuple[Stored, ...]]:
    return positions(*([] if key is None else [key.stored]), Moment, Text)


_POSITIONS = {name: _positions(key) for name, key in KEYS.items()}
_POSITIONS_BY_FIELD = positions(Text, Moment, Text)


def key_of(order: str) -> SortKey | None:
    """The key of an order; None for the time of creation alone. Raises `jobs.model.job_fields.UnknownField`."""
    name = _name_of(order)
    return KEYS[name] if name in KEYS else _by_field(name)


def has_index(order: str) -> bool:
    """Whether an index has this order. Without one the database sorts all jobs of the list."""
    return _name_of(order) in KEYS


def positions_in(order: str) -> TypeAdapter[tuple[Stored, ...]]:
    """The kind of the positions in a list of this order."""
    return _POSITIONS.get(_name_of(order), _POSITIONS_BY_FIELD)


def _name_of(order: str) -> str:
    name = order.removeprefix("-")
    return _INDEXED.get(name, name)
