"""Opaque cursors: where a list goes on. Made and read by `jobs.listing` and `jobs.history`.

A cursor carries the position after which to go on, and a checksum over it and the list that it belongs to, so
that a damaged one, or one of another list, is refused and never misread.

    InvalidCursor       the text is not a cursor of this list
"""

import hashlib
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Position = Sequence[str | int]
Item = TypeVar("Item")

_CHECKSUM_BYTES = 6


class InvalidCursor(ValueError):
    """The cursor is damaged, or it was given out by another list or with other filters."""

    def __init__(self) -> None:
        super().__init__("not a cursor of this list; take next_cursor from an answer with the same filters and sort")


@dataclass(frozen=True)
class Page(Generic[Item]):
    """A part of a list, and the cursor of the next part: None at the end."""

    items: Sequence[Item]
    next_cursor: str | None


def encode(position: Position, *, of: str) -> str:
    """The cursor for `position` in the list that `of` identifies (its name, sort and filters)."""
    payload = json.dumps(list(position), separators=(",", ":")).encode()
    return urlsafe_b64encode(_checksum(payload, of) + payload).decode().rstrip("=")


def decode(cursor: str, *, of: str) -> list[str | int]:
    """The position of a cursor. Raises `InvalidCursor`."""
    try:
        raw = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
    except ValueError:
        raise InvalidCursor from None
    checksum, payload = raw[:_CHECKSUM_BYTES], raw[_CHECKSUM_BYTES:]
    if checksum != _checksum(payload, of):
        raise InvalidCursor
    position: list[str | int] = json.loads(payload)
    return position


def _checksum(payload: bytes, of: str) -> bytes:
    return hashlib.sha256(of.encode() + b"\0" + payload).digest()[:_CHECKSUM_BYTES]
