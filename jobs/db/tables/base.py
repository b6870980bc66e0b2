"""The base of all tables: how Python's types are stored, and how constraints are named.

Enumerations are VARCHAR with a CHECK, so that a new value is a plain migration.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    DateTime,
    Enum,
    Float,
    MetaData,
    Text,
    TypeDecorator,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase

from jobs.model.preemption import PreemptionCause
from jobs.model.states import EndReason, EventKind, Status


def _checked(enum: type[StrEnum]) -> Enum:
    return Enum(
        enum,
        native_enum=False,
        create_constraint=True,
        length=32,
        values_callable=lambda members: [member.value for member in members],
        name=enum.__name__.lower(),
    )


class _PreemptionText(TypeDecorator[PreemptionCause]):
    """A cause of a preemption as a line of text, the form that older versions also write and read."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: PreemptionCause | None, dialect: Dialect) -> str | None:
        """The text of the column."""
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> PreemptionCause | None:
        """The cause that the column's text names."""
        return None if value is None else PreemptionCause.parse(value)


class Base(DeclarativeBase):
    """Names every constraint, so that a migration can drop it."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy's own way
        datetime: DateTime(timezone=True),
        dict[str, Any]: JSONB,
        str: Text,
        float: Float(53),
        Status: _checked(Status),
        EndReason: _checked(EndReason),
        EventKind: _checked(EventKind),
        PreemptionCause: _PreemptionText,
    }
