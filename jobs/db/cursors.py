"""Opaque cursors: the position from which the next page of a list continues. Used by every list.

A cursor holds the position after which the page begins, and a checksum over this position and the list. So a damaged
cursor, or a cursor of another list, is refused and never misread.

    InvalidCursor       the text is not a cursor of this list
"""

import hashlib
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Position = Sequence[str | int | float]
Item = TypeVar("Item")

_CHECKSUM_BYTES = 6


class InvalidCursor(ValueError):
    """The cursor is damaged, or it belongs to another list or to other filters."""

    def __init__(self) -> None:
        super().__init__("not a cursor of this list; send next_cursor of an answer with the same filters and sort")


@dataclass(frozen=True)
class Page(Generic[Item]):
    """A part of a list, and the cursor of the next part: None at the end."""

    items: Sequence[Item]
    next_cursor: str | None


def encode(position: Position, *, of: str) -> str:
    """The cursor for `position` in the list that `of` identifies (its name, sort and filters)."""
    # Not escaped: an emoji in a name would take twelve characters, and a cursor has at most a thousand.
    payload = json.dumps(list(position), separators=(",", ":"), ensure_ascii=False).encode()
    return urlsafe_b64encode(_checksum(payload, of) + payload).decode().rstrip("=")


def decode(cursor: str, *, of: str) -> Position:
    """The position of a cursor. Raises `InvalidCursor`."""
    try:
        raw = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
    except ValueError:
        raise InvalidCursor from None
    checksum, payload = raw[:_CHECKSUM_BYTES], raw[_CHECKSUM_BYTES:]
    if checksum != _checksum(payload, of):
        raise InvalidCursor
    position: Position = json.loads(payload)
    return position


def page_of(rows: Sequence[Item], *, limit: int, of: str, position: Callable[[Item], Position]) -> Page[Item]:
    """A page of at most `limit` items. If there is a next page, `rows` has one more. Rows are in a total order."""
    if len(rows) <= limit:
        return Page(rows, None)
    return Page(rows[:limit], encode(position(rows[limit - 1]), of=of))


def part_of(
    items: Sequence[Item], *, limit: int, cursor: str | None, of: str, key: Callable[[Item], str]
) -> Page[Item]:
    """A page of a short list in memory, sorted by `key`, which is unique. Raises `InvalidCursor`."""
    after = "" if cursor is None else str(decode(cursor, of=of)[0])
    ordered = sorted((item for item in items if key(item) > after), key=key)
    return page_of(ordered[: limit + 1], limit=limit, of=of, position=lambda item: (key(item),))


def _checksum(payload: bytes, of: str) -> bytes:
    return hashlib.sha256(of.encode() + b"\0" + payload).digest()[:_CHECKSUM_BYTES]
