"""A stream sends everything once: live, when resumed at any event, and when ids appear out of order."""

import random
from collections.abc import Callable
from itertools import pairwise

from sqlalchemy import select

from jobs.db.engine import Sessions
from jobs.db.tables import LogLine
from jobs.lifecycle.store import touch
from tests.integration.jobs.writing import write
from tests.integration.live.reading import Reader, SentEvent, cancel, lines, note, points
from tests.waiting import until

ALL = "include=event,state,progress,metrics,logs"
StartReader = Callable[..., Reader]


def facts(events: list[SentEvent]) -> list[object]:
    """Every event, line and point that was sent, one by one: the portions in which they came do not matter."""
    all_facts: list[object] = []
    for event in events:
        if event.event == "event":
            all_facts.append(("event", event.data["id"]))
        elif event.event == "logs":
            all_facts += [("line", line["id"]) for line in event.data["items"]]
        elif event.event == "metrics":
            all_facts += [(series["name"], step) for series in event.data["series"] for step in series["step"]]
    return all_facts


def test_a_stream_resumed_at_every_event_sends_everything_once(
    sessions: Sessions, job_id: str, start_reader: StartReader
) -> None:
    live = start_reader(f"/v1/jobs/{job_id}/events", ALL)
    until(lambda: live.of("progress"), what="the first word")
    draw = random.Random(7)  # noqa: S311 - the same for everybody
    for number in range(1, 16):  # as live as it gets: readers come and go while this writes
        with sessions.begin() as session:
            if draw.random() < 0.5:
                note(session, job_id, f"n{number}")
            if draw.random() < 0.7:
                lines(session, job_id, [f"{number}-{i}" for i in range(draw.randrange(1, 15))])
            if draw.random() < 0.7:
                points(session, job_id, range(number * 10, number * 10 + draw.randrange(1, 10)))
            touch(session, job_id, progress={"step": number})
        if number == 7:
            until(lambda: len(live.texts()) > 5, what="the first lines")
    write(sessions, cancel, job_id)
    all_events = live.until_ended()
    assert all_events[-1].event == "end"
    everything = facts(all_events)
    assert len(everything) == len(set(everything))
    assert len(everything) > 80
    whole_state = {"status": "cancelled", "end_reason": "cancelled"}
    for index, event in enumerate(all_events[:-1]):
        events_after = start_reader(f"/v1/jobs/{job_id}/events", ALL, after=event.id).until_ended()
        assert sorted(map(str, facts(all_events[: index + 1]) + facts(events_after))) == sorted(map(str, everything))
        assert events_after[-1].event == "end"
        for kind, last in (("state", whole_state), ("progress", {"step": 15})):
            states = [
                each.data | {"revision": 0} for each in (*all_events[: index + 1], *events_after) if each.event == kind
            ]
            assert states[-1].items() >= last.items()
            assert all(earlier != later for earlier, later in pairwise(states))
    again = start_reader(f"/v1/jobs/{job_id}/events", ALL, after=all_events[-1].id)
    assert again.answer.status_code == 204


def test_an_earlier_id_that_is_committed_later_is_sent_to_readers_that_stay_and_that_come_back(
    sessions: Sessions, job_id: str, start_reader: StartReader
) -> None:
    path = f"/v1/jobs/{job_id}/events"
    staying, reader = (start_reader(path, "include=event,logs") for _ in range(2))
    with sessions() as slow:
        note(slow, job_id, "first")  # takes the lower id, and does not commit
        lines(slow, job_id, ["first"])
        for number in range(3):
            with sessions.begin() as session:
                note(session, job_id, f"later {number}")
                lines(session, job_id, [f"later {number}"])
            until(lambda: len(reader.notes()) == len(reader.texts()) == number + 1, what="a later line")  # noqa: B023
        until(lambda: len(staying.notes()) == len(staying.texts()) == 3, what="the later lines")
        last_id = reader.events[-1].id
        reader.leave()
        slow.commit()
    until(lambda: staying.notes()[-1] == staying.texts()[-1] == "first", what="the earlier line")
    assert len(staying.notes()) == len(staying.texts()) == 4
    write(sessions, note, job_id, "third")
    back = start_reader(path, "include=event,logs", after=last_id)
    until(lambda: sorted(back.notes()) == ["first", "third"] and back.texts() == ["first"], what="the earlier line")


def test_a_stream_sends_the_lines_after_an_id_and_goes_on_from_its_last_event(
    sessions: Sessions, job_id: str, start_reader: StartReader
) -> None:
    with sessions.begin() as session:
        lines(session, job_id, ["old", "newest"])
        first = session.scalars(select(LogLine.id).order_by(LogLine.id)).first()
    reader = start_reader(f"/v1/jobs/{job_id}/events", f"include=logs&logs_after={first}")
    until(lambda: reader.texts() == ["newest"], what="the newest line")
    last_id = reader.events[-1].id
    reader.leave()
    write(sessions, lines, job_id, ["next"])
    back = start_reader(f"/v1/jobs/{job_id}/events", f"include=logs&logs_after={first}", after=last_id)
    until(lambda: back.texts() == ["next"], what="the next line")
