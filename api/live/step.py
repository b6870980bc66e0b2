"""A step of a listener: what is new since its position, as the bytes that it is sent. Made by `reading` and `feed`."""

import hashlib
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fastapi.sse import format_sse_event
from pydantic import BaseModel

from api.live.positions import Position, id_of

P = TypeVar("P", bound=Position)


@dataclass(frozen=True)
class Step(Generic[P]):
    """`more`: there is more that is new already. `over`: nothing will follow, ever."""

    chunk: bytes
    position: P
    more: bool = False
    over: bool = False


class Telling(Generic[P]):
    """Puts a step together, event by event."""

    def __init__(self, position: P, *, of: str) -> None:
        self.position = position
        self._of = of
        self._parts: list[bytes] = []

    def tell(self, kind: str, data: str, /, **moved: Any) -> None:
        """Add an event, after which the listener's position has moved."""
        self.position = self.position.model_copy(update=moved)
        self._parts.append(format_sse_event(event=kind, data_str=data, id=id_of(self.position, of=self._of)))

    def mention(self, event: str, data: str) -> None:
        """Add an event of which no id tells."""
        self._parts.append(format_sse_event(event=event, data_str=data))

    def settle(self, **moved: Any) -> None:
        """Put the position in its shortest form, so that listeners who were told the same are at the same one."""
        self.position = self.position.model_copy(update=moved)

    def step(self, *, more: bool = False, over: bool = False) -> Step[P]:
        """What came of it."""
        return Step(b"".join(self._parts), self.position, more, over)


def tag_of(view: BaseModel, *, besides: frozenset[str] = frozenset()) -> str:
    """A short text that changes with a view, but for the fields `besides`."""
    return hashlib.sha256(view.model_dump_json(exclude=set(besides)).encode()).hexdigest()[:12]
