"""The base class of all views, and pages of views."""

from collections.abc import Sequence
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict

Item = TypeVar("Item")


class View(BaseModel):
    """A view. It is made from a row, a value of `jobs`, or JSON."""

    model_config = ConfigDict(from_attributes=True)


class Listed(View, Generic[Item]):
    """A page of a list. Send `next_cursor` as `cursor` to get the next page; null: this is the last one."""

    items: Sequence[Item]
    next_cursor: str | None = None
