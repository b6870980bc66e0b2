"""Cursors are read back unchanged, and refused if the service did not make them for this list."""

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from jobs.db import cursors
from jobs.db.cursors import BY_NAME, BY_NUMBER, BY_TIME, BY_TIME_AND_NUMBER, InvalidCursor, as_text
from jobs.db.engine import OF_PROCESS
from jobs.db.signing import SIGNATURE_BYTES, signature
from jobs.lifecycle.list_sorts import KEYS, positions_in

MOMENT = datetime(2030, 1, 1, 0, 0, 0, 1, tzinfo=UTC)
POSITIONS_OF_KINDS: list[tuple[TypeAdapter[Any], tuple[Any, ...]]] = [
    (BY_NAME, ("é ~",)),
    (BY_NUMBER, (2**62,)),
    (BY_TIME, (MOMENT, "3k9v")),
    (BY_TIME_AND_NUMBER, (MOMENT, 7)),
    (positions_in("created_at"), (MOMENT, "3k9v")),
    (positions_in("name"), ("😀" * 128, MOMENT, "3k9v")),
    (positions_in("started_at"), (MOMENT, MOMENT, "3k9v")),
    (positions_in("val_loss"), ("", MOMENT, "3k9v")),
    (positions_in("learning_rate"), (0.1 + 0.2, MOMENT, "3k9v")),
]


def session_with(key: bytes) -> Session:
    """A session that knows the key; it never connects."""
    return Session(info={OF_PROCESS: {"signing key": key}})


@pytest.fixture
def session() -> Session:
    return session_with(b"k" * 32)


@pytest.mark.parametrize(("kind", "position"), POSITIONS_OF_KINDS, ids=lambda value: str(value)[:40])
def test_cursor_is_read_back_only_for_its_own_list_and_service(
    session: Session, kind: TypeAdapter[Any], position: tuple[Any, ...]
) -> None:
    cursor = cursors.encode(session, position, by=kind, of="list")

    assert cursor.replace("-", "").replace("_", "").isalnum()
    assert len(cursor) <= 1000
    assert cursors.decode(session_with(b"k" * 32), cursor, by=kind, of="list") == position
    with pytest.raises(InvalidCursor):
        cursors.decode(session, cursor, by=kind, of="other list")
    with pytest.raises(InvalidCursor):
        cursors.decode(session_with(b"K" * 32), cursor, by=kind, of="list")


def test_every_damaged_cursor_is_refused(session: Session) -> None:
    cursor = cursors.encode(session, (MOMENT, "3k9v"), by=BY_TIME, of="list")
    shortened = [cursor[:length] for length in range(len(cursor))]
    altered = [cursor[:i] + ("A" if cursor[i] != "A" else "B") + cursor[i + 1 :] for i in range(len(cursor))]
    spread = [cursor[:i] + extra + cursor[i:] for i in (0, 9, len(cursor)) for extra in ("!", " ", "=", "\n", "AAAA")]

    for damaged in [*shortened, *altered, *spread, "é", "\x00", "====", "a b", "\ud800", "٣" * 40]:
        with pytest.raises(InvalidCursor):
            cursors.decode(session, damaged, by=BY_TIME, of="list")


FOREIGN = [
    b"", b"{", b"[", b"null", b"5", b"[]", b"{}", b"[null]", b"[[]]", b'[{"a": 1}]', b"[1e999]", b"[NaN]", b"[1.5]",
    b'["x"]', b'["5"]', b'["x", "y"]', b"[1, 2]", b"[true]", b"[-1]", b"[9223372036854775808]", b'["\\u0000"]',
    b'["\\ud800"]', b"\xff", b"[" * 600, b'["2030-01-01T00:00:00", "x"]', b'["2030-01-01T00:00:00Z"]',
    b'["2030-01-01T00:00:00Z", 5]', b'["2030-01-01T00:00:00Z", "x", "y"]', b'["99999-01-01T00:00:00Z", "x"]',
    b'[1e400, "2030-01-01T00:00:00Z", "x"]', b'[2147483648, "2030-01-01T00:00:00Z", "x"]', b"[" + b"9" * 5000 + b"]",
]  # fmt: skip
KINDS = {
    "name": BY_NAME, "number": BY_NUMBER, "time": BY_TIME, "time and number": BY_TIME_AND_NUMBER,
    **{f"jobs by {key}": positions_in(key) for key in KEYS},
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_signed_position_of_another_kind_is_refused(session: Session, kind: TypeAdapter[Any]) -> None:
    """Such as one that another version of Hora signed."""
    refused = 0
    for payload in FOREIGN:
        cursor = as_text(signature(session, payload, of="list") + payload)
        try:
            position = cursors.decode(session, cursor, by=kind, of="list")
        except InvalidCursor:
            refused += 1
        else:  # one of the texts may be a position of this kind
            assert kind.validate_json(kind.dump_json(position)) == position
    assert refused >= len(FOREIGN) - 3


def test_a_cursor_with_a_checksum_instead_of_a_signature_is_refused(session: Session) -> None:
    payload = json.dumps(["3k9v"]).encode()
    for length in (6, SIGNATURE_BYTES, 32):
        checksum = hashlib.sha256(b"list\0" + payload).digest()[:length]
        with pytest.raises(InvalidCursor):
            cursors.decode(session, as_text(checksum + payload), by=BY_NAME, of="list")
