"""Event ids of live streams: signed, read by the version before, refused if they are no position of this stream.

And which rows of a table were sent, when ids become visible out of sequence.
"""

import hashlib
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.orm import Session

from api.live.changes import jobs_in
from api.live.positions import FeedPosition, JobPosition, MetricsPosition, id_of, position_in
from api.live.sent_rows import MOST_RUNS, SentRows
from jobs.db.cursors import InvalidCursor
from jobs.db.engine import OF_PROCESS

POSITION = JobPosition(
    event=SentRows(floor=5, beyond=((7, 9), (12, 12))),
    metrics=MetricsPosition(attempt=1, steps=40),
    state="3f2a",
)


@pytest.fixture
def session() -> Session:
    """A session that knows the key; it never connects."""
    return Session(info={OF_PROCESS: {"signing key": b"k" * 32}})


def with_checksum(payload: bytes, *, of: str) -> str:
    """An id as the version before the signatures made it."""
    content = hashlib.sha256(f"live {of}".encode() + b"\0" + payload).digest()[:6] + payload
    return urlsafe_b64encode(content).decode().rstrip("=")


def test_an_id_is_read_back_only_for_its_own_stream(session: Session) -> None:
    event_id = id_of(session, POSITION, of="3k9v")
    assert position_in(session, event_id, JobPosition, of="3k9v") == POSITION
    with pytest.raises(InvalidCursor):
        position_in(session, event_id, JobPosition, of="4k9v")
    other_service = Session(info={OF_PROCESS: {"signing key": b"K" * 32}})
    with pytest.raises(InvalidCursor):
        position_in(other_service, event_id, JobPosition, of="3k9v")


def test_a_signed_id_with_another_position_is_refused(session: Session) -> None:
    content = urlsafe_b64decode(id_of(session, POSITION, of="3k9v") + "==")
    document, signed = json.loads(content[6:])
    for changed in (document.replace('"floor":5', '"floor":6'), "{}"):
        event_id = with_checksum(json.dumps([changed, signed]).encode(), of="3k9v")
        with pytest.raises(InvalidCursor):
            position_in(session, event_id, JobPosition, of="3k9v")
    for wrong in ("", "A" * 22, "é", signed[:-1]):
        event_id = with_checksum(json.dumps([document, wrong]).encode(), of="3k9v")
        with pytest.raises(InvalidCursor):
            position_in(session, event_id, JobPosition, of="3k9v")


def test_ids_pass_between_this_version_and_the_one_before(session: Session) -> None:
    """Listeners of an older api go on at a new one, and back, while a service is upgraded."""
    earlier = with_checksum(json.dumps([POSITION.model_dump_json(exclude_defaults=True)]).encode(), of="3k9v")
    assert position_in(session, earlier, JobPosition, of="3k9v") == POSITION

    event_id = id_of(session, POSITION, of="3k9v")
    content = urlsafe_b64decode(event_id + "=" * (-len(event_id) % 4))
    assert content[:6] == hashlib.sha256(b"live 3k9v\0" + content[6:]).digest()[:6]
    document, *_ = json.loads(content[6:])  # as the earlier version reads it
    assert JobPosition.model_validate_json(document) == POSITION


FOREIGN = [
    b"", b"{", b"[", b"null", b"5", b"[]", b"{}", b"[null]", b"[5]", b"[{}]", b'["x"]', b'["{}", 5]', b'["{}", "x"]',
    b'["{}", "", ""]', b"[" * 3000, b'["[]"]', b'["{\\"event\\":5}"]', b'["{\\"x\\":5}"]', b'["\\ud800"]', b"\xff",
    b'["{\\"event\\":{\\"floor\\":-1}}"]', b'["{\\"event\\":{\\"floor\\":4611686018427387904}}"]',
    b'["{\\"event\\":{\\"beyond\\":[[9,8]]}}"]', b'["{\\"event\\":{\\"floor\\":NaN}}"]',
]  # fmt: skip


@pytest.mark.parametrize("payload", FOREIGN, ids=lambda payload: repr(payload[:40]))
def test_what_is_no_position_is_refused(session: Session, payload: bytes) -> None:
    for model in (JobPosition, FeedPosition):
        with pytest.raises(InvalidCursor):
            position_in(session, with_checksum(payload, of="3k9v"), model, of="3k9v")


def has(sent: SentRows, row_id: int) -> bool:
    return row_id <= sent.floor or any(first <= row_id <= last for first, last in sent.beyond)


@given(st.lists(st.sets(st.integers(1, 80), min_size=1), max_size=6), st.integers(0, 90))
def test_sent_rows_above_the_floor_are_exactly_those_that_were_sent(batches: list[set[int]], floor: int) -> None:
    sent = SentRows()
    for batch in batches:
        sent = sent.with_rows(sorted(batch), floor=0)
    everything = set().union(*batches)
    assert {each for each in range(1, 100) if has(sent, each)} == everything
    settled = sent.with_rows([], floor=floor)
    assert all(has(settled, each) for each in everything)
    assert settled.floor <= floor
    assert not any(has(settled, each) for each in range(floor + 1, 100) if each not in everything)
    assert settled.floor <= max(everything, default=0)  # never above the newest sent row: nothing above was read


def test_adjacent_ids_become_one_run() -> None:
    sent = SentRows().with_rows([3, 4, 5, 9], floor=0).with_rows([6], floor=0)
    assert sent.beyond == ((3, 6), (9, 9))
    assert sent.multirange == "{[3,6],[9,9]}"


def test_floor_moves_over_the_oldest_runs_when_there_are_too_many() -> None:
    sent = SentRows().with_rows(range(2, 2 * MOST_RUNS + 6, 2), floor=0)
    assert len(sent.beyond) == MOST_RUNS
    assert sent.floor == 4
    assert sent.beyond[0] == (6, 6)


def test_hint_names_its_jobs_or_means_all_jobs() -> None:
    assert (jobs_in("a b"), jobs_in("*")) == ({"a", "b"}, None)
