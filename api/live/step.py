"""A step of a listener: what is new since its position, as bytes to send. Built by `reading` and `feed`."""

import hashlib
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fastapi.sse import format_sse_event
from pydantic import BaseModel
from sqlalchemy.orm import Session

from api.live.positions import Position, id_of

P = TypeVar("P", bound=Position)


@dataclass(frozen=True)
class Step(Generic[P]):
    """The bytes to send, and the position after them. `has_more`: the next step has events already."""

    chunk: bytes
    position: P
    has_more: bool = False
    is_last: bool = False
    read_s: float = 0.0  # how long it took to read


class StepBuilder(Generic[P]):
    """Builds a step, event by event."""

    def __init__(self, session: Session, position: P, *, of: str) -> None:
        self._session = session
        self.position = position
        self._of = of
        self._parts: list[bytes] = []

    def add(self, kind: str, data: str, /, **changes: Any) -> None:
        """Add an event, and make these changes to the position after it."""
        self.position = self.position.model_copy(update=changes)
        event_id = id_of(self._session, self.position, of=self._of)
        self._parts.append(format_sse_event(event=kind, data_str=data, id=event_id))

    def add_without_id(self, kind: str, data: str) -> None:
        """Add an event that does not count in the position."""
        self._parts.append(format_sse_event(event=kind, data_str=data))

    def shorten(self, **changes: Any) -> None:
        """Put the position in its shortest form, so that listeners who were sent the same are at the same one."""
        self.position = self.position.model_copy(update=changes)

    def step(self, *, has_more: bool = False, is_last: bool = False) -> Step[P]:
        """The step with all events that were added."""
        return Step(b"".join(self._parts), self.position, has_more, is_last)


def tag_of(view: BaseModel, *, exclude: frozenset[str] = frozenset()) -> str:
    """A short text that changes with a view, except for the fields `exclude`."""
    return hashlib.sha256(view.model_dump_json(exclude=set(exclude)).encode()).hexdigest()[:12]
