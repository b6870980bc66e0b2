"""The stream of all jobs: what it sends, where it begins, and the client that follows streams."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from itertools import islice
from threading import Thread
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import insert

from api.live import feed, hub
from api.live.feed import FeedFilter, FeedTopic
from api.live.positions import FeedPosition
from api.live.topics import Reads
from hora.service import Service
from jobs.db.engine import Sessions
from jobs.db.tables import JobEvent
from jobs.lifecycle.store import add_event, touch, transition
from jobs.model.states import EventKind, Status
from tests.integration.api.starting_rows import SPEC
from tests.integration.jobs.job_rows import a_job
from tests.integration.jobs.writing import write
from tests.integration.live.reading import Reader, cancel, cut_off_others, note
from tests.waiting import until

StartReader = Callable[..., Reader]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "LOOK_EVERY_S", 0.1)


def start_job(sessions: Sessions, job_id: str, *, step: int) -> None:
    with sessions.begin() as session:
        transition(session, job_id, Status.LAUNCHING)
        transition(session, job_id, Status.RUNNING)
        add_event(session, job_id, EventKind.RANK_STARTED)
        touch(session, job_id, progress={"step": step})


def test_changes_of_all_jobs_are_sent(service: Service, sessions: Sessions, start_reader: StartReader) -> None:
    old = service.submit(SPEC)["id"]
    other_form = quote("team:Zoe\u0308 訓練")
    reader, labelled = (
        start_reader("/v1/events"),
        start_reader("/v1/events", f"label={other_form}&owner=admin&project=default"),
    )
    of_nobody = start_reader("/v1/events", "owner=nobody")
    until(lambda: has_sent_a_state(sessions, old, reader), what="a stream that is told")
    job = service.submit(SPEC | {"name": "it's <ok>\u3000👩\u200d🔬", "labels": {"team": "Zoë 訓練"}})
    job_id = job["id"]
    until(lambda: [one["id"] for one in labelled.of("state")] == [job_id], what="the new job")
    assert labelled.of("state")[0]["name"] == job["name"] == "it's <ok>\u3000👩\u200d🔬"
    start_job(sessions, job_id, step=5)
    until(lambda: reader.of("state")[-1]["status"] == "running", what="its start")
    until(lambda: labelled.of("progress"), what="its progress")
    assert labelled.of("progress")[-1] == {"id": job_id, "progress": reader.of("progress")[-1]["progress"]}
    assert reader.of("progress")[-1]["progress"]["step"] == 5
    assert of_nobody.events == []


def test_a_deletion_is_sent_once_to_each_reader_and_to_one_who_comes_later(
    service: Service, sessions: Sessions, start_reader: StartReader
) -> None:
    kept, gone = (service.submit(SPEC)["id"] for _ in range(2))
    reader, of_nobody = start_reader("/v1/events"), start_reader("/v1/events", "owner=nobody")
    until(lambda: has_sent_a_state(sessions, kept, reader), what="a stream that is told")
    service.cancel(gone)
    service.delete(gone)
    until(lambda: reader.of("deleted") and of_nobody.of("deleted"), what="the deletion")
    later = start_reader("/v1/events")
    until(lambda: later.of("deleted"), what="the deletion, to one who comes later")
    count = len(reader.of("state"))
    write(sessions, note, kept, "once more")
    until(lambda: len(reader.of("state")) > count, what="another event")
    assert reader.of("deleted") == of_nobody.of("deleted") == later.of("deleted") == [{"id": gone}]


def has_sent_a_state(sessions: Sessions, job_id: str, reader: Reader) -> bool:
    """A stream sends only changes made after it was opened: change something until a state arrives."""
    write(sessions, note, job_id, "again")
    return bool(reader.of("state"))


def test_a_returning_reader_gets_the_changes_made_meanwhile(
    service: Service, sessions: Sessions, start_reader: StartReader
) -> None:
    ids = [service.submit(SPEC)["id"] for _ in range(4)]
    reader = start_reader("/v1/events")
    until(lambda: has_sent_a_state(sessions, ids[0], reader), what="a stream that is told")
    reader.leave()
    start_job(sessions, ids[1], step=7)
    with sessions.begin() as session:  # more than one step reads
        session.execute(insert(JobEvent), [{"job_id": ids[2], "kind": EventKind.PAUSE_REQUESTED}] * 1200)
    back = start_reader("/v1/events", after=reader.events[-1].id)
    until(lambda: {job["id"] for job in back.of("state")} - {ids[0]} == set(ids[1:3]), what="the two that changed")
    until(lambda: back.of("progress"), what="the progress of what runs")


def test_a_client_follows_a_job_to_its_end_despite_a_broken_connection(service: Service, sessions: Sessions) -> None:
    job_id = service.submit(SPEC)["id"]
    stream = service.follow(job_id, include=["event", "state"])
    first = next(stream)
    with sessions.begin() as session:  # the connection breaks here, and the next one continues
        cut_off_others(session)
        cancel(session, job_id)
    events = [first, *stream]
    assert [one.data["kind"] for one in events if one.event == "event"] == ["submitted", "ended"]
    assert [one.event for one in events][-1] == "end"
    rest = list(service.follow(job_id, include=["event", "state"], last_event_id=first.id))
    assert [one.data.get("kind") for one in rest if one.event == "event"] == ["ended"]
    assert list(service.follow(job_id, last_event_id=rest[-1].id)) == []


def test_all_jobs_are_followed(service: Service, sessions: Sessions) -> None:
    job_id = service.submit(SPEC)["id"]
    stream = service.follow_jobs(owner="admin")
    first_events: list[Any] = []
    thread = Thread(target=lambda: first_events.extend(islice(stream, 1)))
    thread.start()

    def is_found() -> bool:
        write(sessions, note, job_id, "again")
        return not thread.is_alive()

    until(is_found, what="a job")
    assert first_events[0].event == "state"
    assert first_events[0].data["status"] == "queued"


TellNext = Callable[[], Awaitable[list[str]]]
Story = Callable[[TellNext], Awaitable[None]]


def play(sessions: Sessions, story: Story) -> None:
    """Run a story with a new listener in a process that has read nothing yet. Each step returns job ids."""

    async def run() -> None:
        reads, position = Reads(sessions, host_timeout_s=60), FeedPosition()

        async def tell_next() -> list[str]:
            nonlocal position
            step = await FeedTopic(reads).step(position, FeedFilter())
            position = step.position
            return [json.loads(line[6:])["id"] for line in step.chunk.decode().splitlines() if line.startswith("data:")]

        await story(tell_next)

    asyncio.run(run())


def add_note(sessions: Sessions, job_id: str) -> None:
    write(sessions, note, job_id, "a line")


def test_the_very_first_job_is_sent(sessions: Sessions) -> None:
    async def story(tell_next: TellNext) -> None:
        assert await tell_next() == []
        job_id = a_job(sessions)
        assert await tell_next() == [job_id]
        assert await tell_next() == []

    play(sessions, story)


def test_only_events_committed_after_the_start_are_sent(sessions: Sessions) -> None:
    ids = [a_job(sessions) for _ in range(3)]

    async def story(tell_next: TellNext) -> None:
        with sessions() as slow:
            note(slow, ids[0], "before")
            add_note(sessions, ids[1])
            assert await tell_next() == []
            add_note(sessions, ids[2])
            assert await tell_next() == [ids[2]]
            slow.commit()
        assert await tell_next() == [ids[0]]

    play(sessions, story)


def test_an_event_far_behind_the_newest_id_is_not_sent(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "_MOST_BEFORE", 2)
    ids = [a_job(sessions) for _ in range(3)]

    async def story(tell_next: TellNext) -> None:
        with sessions() as slow:
            note(slow, ids[0], "before")
            for _ in range(2):
                add_note(sessions, ids[1])
            assert await tell_next() == []
            slow.commit()
        assert await tell_next() == [], "it was two lines late"
        add_note(sessions, ids[2])
        assert await tell_next() == [ids[2]]

    play(sessions, story)
