"""The sort keys of the list of jobs, and a job's position in the list as a cursor stores it.

Used by `jobs.lifecycle.listing`.

Each order of `Order` has an index, which is read forwards and backwards. `SORTED_BY` and `Job` declare them. An order
by another field has none, because metrics and fields of the spec have any names. An order by several fields has none
either; where its first field has one, the database may read in its order and sort only what is equal there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, StringConstraints, TypeAdapter
from sqlalchemy import BigInteger, ColumnElement, DateTime, Float, and_, cast, false, literal, literal_column, or_
from sqlalchemy import Text as SqlText
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.types import TypeEngine

from jobs.db.cursors import Moment, Text, positions
from jobs.db.tables import SORTED_BY, Job
from jobs.lifecycle.field_values import value_of
from jobs.model import orders
from jobs.model.job_fields import UnknownField, kind_of
from jobs.suggestions import meant
from jobs.wording import shortened

Order = Literal[
    "-created_at", "created_at", "-started_at", "started_at", "-ended_at", "ended_at", "-duration", "duration",
    "-name", "name", "-priority", "priority", "-gpus", "gpus", "-stored", "stored", "-batch_size", "batch_size",
    "-learning_rate", "learning_rate", "-val_accuracy", "val_accuracy", "-val_loss", "val_loss",
    "-train_samples_per_s", "train_samples_per_s",
]  # fmt: skip

# By any other field, such as metrics.val_iou or spec.batch_size, and from the greatest on -metrics.val_iou. By several
# fields: -starred,-metrics.val_iou.
FieldOrder = Annotated[
    str,
    StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]+$", max_length=orders.MOST_CHARACTERS),
    Field(json_schema_extra={"format": "field-order"}),
]
# Fields of jobs that an order with an index sorts by.
_INDEXED = {"created": "created_at", "batch": "batch_size", "rate": "learning_rate"}


def known_order(text: Any) -> Any:
    """Refuse a text that is no order, with a sentence that says what is allowed. For pydantic."""
    if not isinstance(text, str):
        return text
    fields = orders.parsed(text)
    named: dict[str, str] = {}
    for field in fields:
        _check_known(field.name)
        key = _key_name(field.name)
        if key in named:
            again = "repeated" if named[key] == field.name else f"the same as `{shortened(named[key], 40)}`"
            raise ValueError(f"`{shortened(field.name, 40)}` is {again}: an order has each field once")
        named[key] = field.name
    return orders.text_of(fields)


def _check_known(name: str) -> None:
    indexed = [order for order in get_args(Order) if not order.startswith("-")]
    if name in indexed:
        return
    try:
        kind_of(name)
    except UnknownField as error:
        proposal = "" if "." in name else meant(name, indexed)
        if proposal:
            raise ValueError(f"no such order `{shortened(name, 40)}`{proposal}") from None
        more = "" if "did you mean" in str(error) else f"; to sort also {', '.join(indexed)}"
        raise ValueError(f"{error}{more}") from None


Stored = datetime | str | int | float  # in a cursor

NOTHING = ""  # in a cursor: the job has no value
Nothing = Literal[""]
_Integer = Annotated[int, Field(ge=-(2**31), lt=2**31)]
_BigInteger = Annotated[int, Field(ge=-(2**63), lt=2**63)]
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class SortKey:
    """A key of an order. Jobs with equal keys are sorted by the time of creation and the id."""

    sql: ColumnElement[Any] | InstrumentedAttribute[Any]
    of: Callable[[Job], Stored] | None  # None: the list reads the text of `sql` with each job
    stored: Any  # the type of what `of` returns
    greatest: ColumnElement[Any] | None = None  # the value of `sql` for a job that has no value yet
    is_nullable: bool = False  # a job may have no value: such jobs come last in both directions
    falls: bool = False  # from the greatest to the least

    def bound(self, stored: Stored) -> ColumnElement[Any]:
        """A value of a cursor as SQL."""
        if stored == NOTHING and self.greatest is not None:
            return self.greatest
        return literal(stored, self.sql.type) if self.of else cast(literal(stored, SqlText), JSONB)

    def sorted(self, column: ColumnElement[Any] | None = None) -> ColumnElement[Any]:
        """Its part of ORDER BY, for its own SQL or for a column that has its values."""
        values = self.sql if column is None else column
        ordered = values.desc() if self.falls else values.asc()
        return ordered.nulls_last() if self.is_nullable else ordered

    def comes_after(self, stored: Stored) -> ColumnElement[bool]:
        """Whether a job's value comes after the value of a cursor."""
        if self.is_nullable and stored == NOTHING:
            return false()
        value = self.bound(stored)
        after: ColumnElement[bool] = self.sql < value if self.falls else self.sql > value
        return or_(after, self.sql.is_(None)) if self.is_nullable else after

    def equals(self, stored: Stored) -> ColumnElement[bool]:
        """Whether a job's value is the value of a cursor."""
        return self.sql.is_(None) if self.is_nullable and stored == NOTHING else self.sql == self.bound(stored)


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


KEYS: dict[str, SortKey] = {
    "created_at": SortKey(Job.created_at, lambda job: job.created_at, Moment),  # all orders end with it
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
_ID = SortKey(Job.id, lambda job: job.id, Text)


def keys_of(order: str) -> tuple[SortKey, ...]:
    """The keys of an order. No two jobs are equal in all of them.

    They end with the time of creation and the id, in the direction of the last field. Raises
    `jobs.model.orders.WrongOrder`, `jobs.model.job_fields.UnknownField`.
    """
    fields = [(_key_name(field.name), field.falls) for field in orders.parsed(order)]
    last_falls = fields[-1][1]
    if "created_at" not in [name for name, _ in fields]:
        fields.append(("created_at", last_falls))
    keys = [replace(KEYS[name] if name in KEYS else _by_field(name), falls=falls) for name, falls in fields]
    return (*keys, replace(_ID, falls=last_falls))


def behind(keys: Sequence[SortKey], position: Sequence[Stored]) -> ColumnElement[bool]:
    """Whether a job comes after a position in the order of some keys, each with a direction of its own."""
    after: ColumnElement[bool] = false()
    for key, stored in reversed(list(zip(keys, position, strict=True))):
        after = or_(key.comes_after(stored), and_(key.equals(stored), after))
    return after


def has_index(order: str) -> bool:
    """Whether an index has this order. Without one the database sorts all jobs of the list."""
    return _key_name(order.removeprefix("-")) in KEYS


def positions_in(order: str) -> TypeAdapter[tuple[Stored, ...]]:
    """The kind of the positions in a list of this order."""
    return _positions(tuple(key.stored for key in keys_of(order)))


@lru_cache
def _positions(kinds: tuple[Any, ...]) -> TypeAdapter[tuple[Stored, ...]]:
    return positions(*kinds)


def _key_name(name: str) -> str:
    return _INDEXED.get(name, name)
