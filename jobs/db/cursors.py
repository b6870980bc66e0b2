"""Opaque cursors: the position from which the next page of a list continues. Used by every list.

A cursor holds the position after which the page begins, signed together with the list, its sort and its filters. So a
cursor that the service did not make, or that belongs to another list, is refused and never read. A list says by which
kind of key it is sorted (`BY_NAME` and others): a position of another kind is refused too, such as that of another
version of Hora.

    InvalidCursor       the text is not a cursor of this list
"""

from base64 import b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

from pydantic import AwareDatetime, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError
from sqlalchemy.orm import Session

from jobs.db.signing import SIGNATURE_BYTES, is_signed, signature

Item = TypeVar("Item")
Position = TypeVar("Position", bound=tuple[Any, ...])

Text = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]
RowId = Annotated[int, Field(ge=0, lt=2**63)]
Moment = AwareDatetime

_STRICT = ConfigDict(strict=True, allow_inf_nan=False)


def positions(*kinds: Any) -> TypeAdapter[Any]:
    """Reads and writes positions with values of these types. No two items of a list have equal values."""
    return TypeAdapter(tuple[kinds], config=_STRICT)  # type: ignore[valid-type]


BY_NAME: TypeAdapter[tuple[str]] = positions(Text)
BY_NUMBER: TypeAdapter[tuple[int]] = positions(RowId)
BY_TIME: TypeAdapter[tuple[datetime, str]] = positions(Moment, Text)
BY_TIME_AND_NUMBER: TypeAdapter[tuple[datetime, int]] = positions(Moment, RowId)


class InvalidCursor(ValueError):
    """The service did not make this cursor, or it belongs to another list, to other filters or to another version."""

    def __init__(self) -> None:
        super().__init__(
            "not a cursor of this list; send next_cursor of an answer with the same filters and sort, or start again"
            " without a cursor"
        )


@dataclass(frozen=True)
class Page(Generic[Item]):
    """A part of a list, and the cursor of the next part: None at the end."""

    items: Sequence[Item]
    next_cursor: str | None


def encode(session: Session, position: Position, *, by: TypeAdapter[Position], of: str) -> str:
    """The cursor for `position` in the list that `of` identifies (its name, sort and filters)."""
    # As UTF-8: escaped, an emoji in a name would take twelve characters, and a cursor has at most four thousand.
    payload = by.dump_json(position)
    return as_text(signature(session, payload, of=of) + payload)


def decode(session: Session, cursor: str, *, by: TypeAdapter[Position], of: str) -> Position:
    """The position of a cursor. Raises `InvalidCursor`."""
    signed = as_bytes(cursor)
    payload = signed[SIGNATURE_BYTES:]
    if not is_signed(session, signed[:SIGNATURE_BYTES], payload, of=of):
        raise InvalidCursor
    try:
        return by.validate_json(payload)
    except ValidationError:  # of a version that sorted this list in another way
        raise InvalidCursor from None


def as_text(signed: bytes) -> str:
    """Bytes as text for a URL or a header."""
    return urlsafe_b64encode(signed).decode().rstrip("=")


def as_bytes(text: str) -> bytes:
    """The bytes of a text that `as_text` made. Raises `InvalidCursor`."""
    try:
        signed = b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (NotBase64, UnicodeEncodeError):
        raise InvalidCursor from None
    if as_text(signed) != text:  # several texts would have the same bytes
        raise InvalidCursor
    return signed


def page_of(
    session: Session,
    rows: Sequence[Item],
    *,
    by: TypeAdapter[Position],
    limit: int,
    of: str,
    position: Callable[[Item], Position],
) -> Page[Item]:
    """A page of at most `limit` items. If there is a next page, `rows` has one more. Rows are in a total order."""
    if len(rows) <= limit:
        return Page(rows, None)
    return Page(rows[:limit], encode(session, position(rows[limit - 1]), by=by, of=of))


def part_of(
    session: Session, items: Sequence[Item], *, limit: int, cursor: str | None, of: str, key: Callable[[Item], str]
) -> Page[Item]:
    """A page of a short list in memory, sorted by `key`, which is unique. Raises `InvalidCursor`."""
    after = "" if cursor is None else decode(session, cursor, by=BY_NAME, of=of)[0]
    ordered = sorted((item for item in items if key(item) > after), key=key)
    rows = ordered[: limit + 1]
    return page_of(session, rows, by=BY_NAME, limit=limit, of=of, position=lambda item: (key(item),))
