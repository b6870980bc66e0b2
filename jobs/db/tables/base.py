"""What all tables have in common: how Python's types are stored, and how constraints are named.

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
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase

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
    }
