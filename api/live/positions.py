"""What a listener was told, and the opaque id of an event that says so. Used by `reading` and `feed`."""

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from api.live.sent_rows import Id, Told
from jobs.db import cursors
from jobs.db.cursors import InvalidCursor

Tag = Annotated[str, Field(max_length=16)]  # of what was told last


class Position(BaseModel):
    """Of any stream."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Points(Position):
    """Of metrics: the attempt that wrote last, and the newest steps of series of every epoch and of every step."""

    attempt: Annotated[int, Field(ge=0, lt=2**31)] = 0
    epochs: Id = 0
    steps: Id = 0


class JobPosition(Position):
    """Of the stream of one job. What a stream does not include stays at its start."""

    event: Told = Told()
    logs: Told = Told()
    metrics: Points = Points()
    state: Tag = ""
    progress: Tag = ""
    ended: bool = False


class FeedPosition(Position):
    """Of the stream of all jobs; `event` is None before its first step.

    How much progress was told is not in an id: after a return all of it is told.
    """

    event: Told | None = None
    progress: int = Field(0, exclude=True)


Some = TypeVar("Some", bound=Position)


def id_of(position: Position, *, of: str) -> str:
    """The id of the event after which a listener is there, in the stream `of` something."""
    return cursors.encode((position.model_dump_json(exclude_defaults=True),), of=f"live {of}")


def position_in(event_id: str, model: type[Some], *, of: str) -> Some:
    """The position that an id is of. Raises `InvalidCursor`."""
    (told, *_) = cursors.decode(event_id, of=f"live {of}")
    try:
        return model.model_validate_json(str(told))
    except ValidationError:
        raise InvalidCursor from None
