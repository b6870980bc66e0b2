"""Hints of the database, and the floor: the id below which no event can still appear."""

from collections.abc import Iterator

import psycopg
import pytest

from api.live.changes import FloorTracker
from jobs.db.engine import Sessions
from jobs.lifecycle.store import add_event
from jobs.model.states import EventKind
from tests.integration.jobs.job_rows import a_job
from tests.waiting import until


@pytest.fixture
def hints(database: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("LISTEN hora_jobs")
        yield connection


def payloads_up_to(hints: psycopg.Connection, last: str) -> list[str]:
    """The payloads of all hints up to `last`."""
    received: list[str] = []

    def is_over() -> bool:
        received.extend(hint.payload for hint in hints.notifies(timeout=0.1))
        return last in received

    until(is_over, what="a hint")
    return received


def test_a_hint_of_an_event_names_its_job(sessions: Sessions, hints: psycopg.Connection) -> None:
    job_id, other_job_id = a_job(sessions), a_job(sessions)
    with sessions() as session:
        add_event(session, job_id, EventKind.RESUMED)
        session.rollback()
    last = a_job(sessions)
    assert payloads_up_to(hints, last) == [job_id, other_job_id, last]


def test_a_hint_for_more_jobs_than_a_payload_holds_means_any_job(sessions: Sessions, hints: psycopg.Connection) -> None:
    with sessions.begin() as session:
        session.connection().exec_driver_sql(
            "INSERT INTO jobs (id, name, owner, status, spec, plan, labels, gpus, priority)"
            " SELECT 'j' || n, 'j', 'me', 'queued', '{}', '{}', '{}', 1, 50 FROM generate_series(1, 10000) n"
        )
        session.connection().exec_driver_sql("INSERT INTO job_events (job_id, kind) SELECT id, 'submitted' FROM jobs")
    assert payloads_up_to(hints, "*") == ["*"]


def test_the_floor_waits_for_open_transactions_even_if_some_is_open_at_all_times(sessions: Sessions) -> None:
    job_id, floors = a_job(sessions), FloorTracker()
    with sessions() as reader, sessions() as slow, sessions() as overlapping:

        def floor() -> int:
            reader.rollback()
            return floors.update(reader).events

        before = floor()
        add_event(slow, job_id, EventKind.RESUMED)
        with sessions.begin() as session:
            add_event(session, job_id, EventKind.RESUMED)
        assert [floor() for _ in range(3)] == [before] * 3
        add_event(overlapping, job_id, EventKind.RESUMED)
        slow.commit()
        floor()
        assert floor() == before + 2
        overlapping.commit()
        assert floor() == before + 3
