"""Positions: what was sent to a listener, and the opaque event id that contains it. Used by `reading` and `feed`."""

import hashlib
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from sqlalchemy.orm import Session

from api.live.sent_rows import Id, SentRows
from jobs.db.cursors import InvalidCursor, as_bytes, as_text
from jobs.db.signing import is_signed, signature

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

    `progress` is not part of an event id: a listener that comes back is sent the progress of all jobs, and deletions.
    """

    event: SentRows | None = None
    progress: int = Field(0, exclude=True)


PositionT = TypeVar("PositionT", bound=Position)


def id_of(session: Session, position: Position, *, of: str) -> str:
    """The id of the event after which a listener is at this position. `of` names the stream."""
    document = position.model_dump_json(exclude_defaults=True)
    signed = as_text(signature(session, document.encode(), of=_stream(of)))
    payload = _Content.dump_json((document, signed))
    return as_text(_checksum(payload, of) + payload)


def position_in(session: Session, event_id: str, model: type[PositionT], *, of: str) -> PositionT:
    """The position in an event id. Raises `InvalidCursor`."""
    content = as_bytes(event_id)
    payload = content[_CHECKSUM_BYTES:]
    if content[:_CHECKSUM_BYTES] != _checksum(payload, of):
        raise InvalidCursor
    try:
        document, *signed = _Content.validate_json(payload)
        if signed and not is_signed(session, as_bytes(signed[0]), document.encode(), of=_stream(of)):
            raise InvalidCursor
        return model.model_validate_json(document)
    except ValidationError:
        raise InvalidCursor from None


# While a service is upgraded, listeners go from apis of the version before to new ones and back. So an id has the
# checksum of the version before, which reads the position and ignores the signature. And an id of that version, which
# has none, is read too. That is harmless: a position only says what was sent, and its types and ranges are checked.
_CHECKSUM_BYTES = 6
_Content: TypeAdapter[tuple[str] | tuple[str, str]] = TypeAdapter(
    tuple[str] | tuple[str, str], config=ConfigDict(strict=True)
)


def _checksum(payload: bytes, of: str) -> bytes:
    return hashlib.sha256(_stream(of).encode() + b"\0" + payload).digest()[:_CHECKSUM_BYTES]


def _stream(of: str) -> str:
    return f"live {of}"
