"""What all views have in common, and pages of them."""

from collections.abc import Sequence
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict

Item = TypeVar("Item")


class View(BaseModel):
    """Read from a row, a value of `jobs`, or JSON."""

    model_config = ConfigDict(from_attributes=True)


class Listed(View, Generic[Item]):
    """A page of a list; `next_cursor` asks for the next one and is null at the end."""

    items: Sequence[Item]
    next_cursor: str | None = None
