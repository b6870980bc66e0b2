"""Where a stream of all jobs begins: it sends every event that becomes visible after its start, and no other."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from api.live import feed
from api.live.feed import FeedFilter, FeedTopic
from api.live.positions import FeedPosition
from api.live.topics import Reads
from jobs.db.engine import Sessions
from tests.integration.jobs.job_rows import a_job
from tests.integration.live.reading import note

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
    with sessions.begin() as session:
        note(session, job_id, "a line")


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
