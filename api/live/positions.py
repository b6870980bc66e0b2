"""Positions: what was sent to a listener, and the opaque event id that contains it. Used by `reading` and `feed`."""

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from api.live.sent_rows import Id, SentRows
from jobs.db import cursors
from jobs.db.cursors import InvalidCursor

Tag = Annotated[str, Field(max_length=16)]  # of the last view that was sent


class Position(BaseModel):
    """A position in a stream."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class MetricsPosition(Position):
    """In the metrics: the newest attempt, and the newest steps of the series by epoch and of the series by step."""

    attempt: Annotated[int, Field(ge=0, lt=2**31)] = 0
    epochs: Id = 0
    steps: Id = 0


class JobPosition(Position):
    """In the stream of one job. Kinds that the stream does not include stay at their start."""

    event: SentRows = SentRows()
    logs: SentRows = SentRows()
    metrics: MetricsPosition = MetricsPosition()
    state: Tag = ""
    progress: Tag = ""
    ended: bool = False


class FeedPosition(Position):
    """In the stream of all jobs; `event` is None before its first step.

    `progress` is not part of an event id: a listener that comes back is sent the progress of all jobs.
    """

    event: SentRows | None = None
    progress: int = Field(0, exclude=True)


PositionT = TypeVar("PositionT", bound=Position)


def id_of(position: Position, *, of: str) -> str:
    """The id of the event after which a listener is at this position. `of` names the stream."""
    return cursors.encode((position.model_dump_json(exclude_defaults=True),), of=f"live {of}")


def position_in(event_id: str, model: type[PositionT], *, of: str) -> PositionT:
    """The position in an event id. Raises `InvalidCursor`."""
    (document, *_) = cursors.decode(event_id, of=f"live {of}")
    try:
        return model.model_validate_json(str(document))
    except ValidationError:
        raise InvalidCursor from None
