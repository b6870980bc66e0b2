"""Live streams: what they share, what ends them, and what they survive."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from sqlalchemy import text, update

from api import costs
from api.live import hub, reading, response
from hora.service import Service
from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Token, User
from jobs.lifecycle.store import touch
from jobs.model.scopes import Scope
from jobs.people.tokens import store_token
from tests.integration.api.rights.lasting import STREAMS
from tests.integration.api.starting_rows import SPEC, TOKEN
from tests.integration.jobs.writing import change, write
from tests.integration.live.reading import Reader, cancel, cut_off_others, lines, note, points
from tests.raw_http import RawConnection
from tests.waiting import until

StartReader = Callable[..., Reader]
_LISTENING = text(
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'"
)


def listening(sessions: Sessions) -> list[int]:
    """The pids of the database connections on which the api listens for hints."""
    with sessions() as session:
        return list(session.scalars(_LISTENING))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub checks for changes and for invalid tokens every 0.1 s."""
    monkeypatch.setattr(hub, "LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(hub, "TOKENS_EVERY_S", 0.1)


@contextmanager
def raw_stream(url: str, job_id: str, query: str = "") -> Iterator[socket.socket]:
    """A connection that requested the stream of a job. It takes little before somebody reads from it."""
    head = f"GET /v1/jobs/{job_id}/events?{query} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
    with RawConnection(int(url.rpartition(":")[2]), timeout_s=240, receives=4096) as connection:
        connection.send(f"{head}Accept: text/event-stream\r\n\r\n".encode())
        yield connection.socket


def test_listeners_of_a_job_share_a_read_and_a_connection(
    monkeypatch: pytest.MonkeyPatch, sessions: Sessions, job_id: str, start_reader: StartReader
) -> None:
    reads: list[object] = []
    next_step = reading.next_step

    def recording_next_step(*arguments: Any) -> Any:
        reads.append(arguments[2])
        return next_step(*arguments)

    monkeypatch.setattr(reading, "next_step", recording_next_step)
    readers = [start_reader(f"/v1/jobs/{job_id}/events") for _ in range(10)]
    until(lambda: all(reader.of("progress") for reader in readers), what="a word to everybody")
    reads.clear()
    write(sessions, note, job_id, "one")
    until(lambda: all(reader.notes() == ["one"] for reader in readers), what="the line")
    sent_events = [one for reader in readers for one in reader.events if one.event == "event"]
    assert len({str(one.data) for one in sent_events}) == 2
    # An id belongs to one read, so the ids of this event are at most as many as the reads since.
    newest = max(one.data["id"] for one in sent_events)
    assert len({one.id for one in sent_events if one.data["id"] == newest}) <= len(reads)
    assert 1 <= len(reads) <= 5
    assert len(listening(sessions)) == 1


def test_a_stream_outlives_all_connections_to_the_database(
    sessions: Sessions, job_id: str, start_reader: StartReader
) -> None:
    reader = start_reader(f"/v1/jobs/{job_id}/events")
    (before,) = until(lambda: listening(sessions), what="a connection that listens")
    with sessions.begin() as session:
        cut_off_others(session)
        note(session, job_id, "meanwhile")
    until(lambda: reader.notes() == ["meanwhile"], what="what happened meanwhile")
    until(lambda: listening(sessions) not in ([], [before]), what="another connection that listens")
    assert not reader.has_ended


def test_changes_without_a_hint_are_found(
    quick: None, sessions: Sessions, job_id: str, start_reader: StartReader
) -> None:
    with sessions.begin() as session:
        session.add(Attempt(job_id=job_id, number=1, host="ha", gpus=2, lease_expires_at=text("now()")))
        touch(session, job_id, attempt=1)
        session.execute(text("DROP TRIGGER tell_of_history ON job_events"))
    reader = start_reader(f"/v1/jobs/{job_id}/events", "include=event,progress,logs,metrics")
    until(lambda: reader.of("progress"), what="the first word")
    write(sessions, note, job_id, "without a hint")
    until(lambda: reader.notes() == ["without a hint"], what="a line of history")
    with sessions.begin() as session:
        lines(session, job_id, ["printed"])
        points(session, job_id, [1, 2])
        session.execute(update(Attempt).where(Attempt.job_id == job_id).values(offsets={"log:0": 8}))
    until(lambda: reader.texts() == ["printed"] and reader.of("metrics"), what="what its ranks wrote")
    write(sessions, touch, job_id, progress={"step": 3})
    until(lambda: reader.of("progress")[-1]["step"] == 3, what="the progress")


def test_points_that_a_later_attempt_runs_again_are_void(
    quick: None, sessions: Sessions, job_id: str, start_reader: StartReader
) -> None:
    attempt = {"job_id": job_id, "host": "ha", "gpus": 2, "lease_expires_at": text("now()")}
    with sessions.begin() as session:
        session.add(Attempt(number=1, resumed_step=0, ended_at=text("now()"), **attempt))
        points(session, job_id, range(1, 11))
    reader = start_reader(f"/v1/jobs/{job_id}/events", "include=metrics")
    (first,) = until(lambda: reader.of("metrics"), what="points")
    with sessions.begin() as session:
        session.add(Attempt(number=2, resumed_step=6, **attempt))
        touch(session, job_id, attempt=2)
        points(session, job_id, range(7, 9), attempt=2)
    second = until(lambda: reader.of("metrics")[1:], what="points of the second attempt")[0]
    assert (first["attempt"], first["void_after"], first["series"][0]["step"]) == (1, None, list(range(1, 11)))
    assert (second["attempt"], second["void_after"], second["series"][0]["step"]) == (2, 6, [7, 8])


def test_a_slow_reader_gets_everything_in_the_end(
    monkeypatch: pytest.MonkeyPatch, sessions: Sessions, url: str, job_id: str, start_reader: StartReader
) -> None:
    monkeypatch.setattr(response, "SEND_TIMEOUT_S", 600)  # until the slow one begins to read
    with raw_stream(url, job_id, "include=logs") as slow:
        fast = start_reader(f"/v1/jobs/{job_id}/events", "include=logs")
        for number in range(12):  # three megabytes, which no buffer on the way holds
            with sessions.begin() as session:
                lines(session, job_id, [f"{number * 250 + i:05} {'x' * 1000}" for i in range(250)])
                note(session, job_id, "so that it is looked at")
        until(lambda: len(fast.texts()) == 3000, what="all lines")
        write(sessions, cancel, job_id)
        received = b"".join(iter(lambda: slow.recv(1 << 16), b""))
    line_numbers = [int(part[:5]) for part in received.decode().split('"text":"')[1:]]
    assert line_numbers == list(range(3000))


def test_a_stream_from_the_start_costs_what_its_reads_take(
    sessions: Sessions, job_id: str, url: str, start_reader: StartReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "TURN_S_OF_A_REQUEST", 1e-5)
    with sessions.begin() as session:
        store_token(session, "hora_alice", user="alice", scope=Scope.READ, rate_limit_per_s=5.0)
        lines(session, job_id, [f"line {number}" for number in range(20_000)])
    reader = start_reader(f"/v1/jobs/{job_id}/events", "include=logs", token="hora_alice")
    until(lambda: len(reader.texts()) == 20_000, what="all lines")
    answer = httpx2.get(f"{url}/v1/me", headers={"Authorization": "Bearer hora_alice"})
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) >= 10


def test_a_reader_that_stops_reading_is_disconnected(
    monkeypatch: pytest.MonkeyPatch, sessions: Sessions, app: FastAPI, url: str, job_id: str
) -> None:
    monkeypatch.setattr(response, "SEND_TIMEOUT_S", 0.2)
    write(sessions, lines, job_id, ["x" * 1000] * 10_000)
    with raw_stream(url, job_id, "include=logs") as stuck:
        assert stuck.recv(12) == b"HTTP/1.1 200"  # it is a listener now, or was one
        until(lambda: app.state.live.count == 0, what="that it is left")


@pytest.mark.parametrize("column", ["revoked_at", "expires_at", "disabled_at"])
def test_the_streams_of_a_token_end_when_it_becomes_invalid(
    quick: None, sessions: Sessions, job_id: str, start_reader: StartReader, column: str
) -> None:
    write(sessions, store_token, "hora_short", user="ann", scope=Scope.READ)
    paths = [path.format(job_id=job_id) for path in STREAMS.values()]
    withdrawn, valid = ([start_reader(path, token=token) for path in paths] for token in ("hora_short", TOKEN))
    assert [(one.answer.status_code, one.has_ended) for one in (*withdrawn, *valid)] == [(200, False)] * 2 * len(paths)
    table, name = (User, User.name) if column == "disabled_at" else (Token, Token.user_name)
    change(sessions, update(table).where(name == "ann").values({column: text("now()")}))
    for reader in withdrawn:
        reader.until_ended()
    assert not any(reader.has_ended for reader in valid)


def test_a_quiet_stream_sends_keepalives(quick: None, monkeypatch: pytest.MonkeyPatch, url: str, job_id: str) -> None:
    monkeypatch.setattr(hub, "KEEPALIVE_AFTER_S", 0.2)
    monkeypatch.setattr(response, "KEEPALIVE_AFTER_S", 0.2)
    with raw_stream(url, job_id) as reader:
        received = b""
        while received.count(b": ping\n\n") < 2:
            received += reader.recv(1 << 16)
    assert b"retry: 2000\n\n" in received


def test_streams_end_when_the_process_gets_sigterm(database: str, sessions: Sessions) -> None:
    environment = os.environ | {"HORA_DATABASE_URL": database, "HORA_BROKER_URL": "memory://", "HORA_TOKEN": TOKEN}
    with socket.create_server(("127.0.0.1", 0)) as listening_at:
        port, number = listening_at.getsockname()[1], listening_at.fileno()
        argv = [sys.executable, "-m", "api", "--fd", str(number), "--timeout-graceful-shutdown", "120"]
        process = subprocess.Popen(argv, env=environment, pass_fds=[number], stderr=subprocess.PIPE, text=True)
    try:
        with Service(f"http://127.0.0.1:{port}", TOKEN) as service:
            job_id = service.submit(SPEC)["id"]
        reader = Reader(f"http://127.0.0.1:{port}/v1/jobs/{job_id}/events?", TOKEN, None)
        until(lambda: reader.of("state"), what="a word")
        process.send_signal(signal.SIGTERM)  # the server waits for open streams
        reader.until_ended()
        reader.leave()
        assert process.wait(120) in (0, -signal.SIGTERM)
    finally:
        process.kill()
        _, stderr = process.communicate()
    assert "Traceback" not in stderr
    assert stderr.count('"event": "request"') == 2


def test_a_reader_that_leaves_is_forgotten_and_open_streams_do_not_count_as_request_durations(
    app: FastAPI, service: Service, job_id: str, start_reader: StartReader
) -> None:
    readers = [start_reader(f"/v1/jobs/{job_id}/events"), start_reader("/v1/events")]
    until(lambda: readers[0].of("state"), what="a word")
    until(lambda: sample(app, "hora_live_listeners") == 2, what="the figure")
    for reader in readers:
        reader.leave()
    until(lambda: app.state.live.count == 0, what="that they are forgotten")
    assert not app.state.live._jobs
    labels = {"method": "GET", "route": "/v1/jobs/{job_id}/events", "status": "200"}
    name = "hora_http_request_duration_seconds_count"
    assert sample(app, name, **labels) is None
    assert [event["kind"] for event in service.events(job_id)] == ["submitted"]
    until(lambda: sample(app, name, **labels) == 1, what="the page's duration")


def sample(app: FastAPI, name: str, **labels: str) -> float | None:
    """A figure of the process, without reading those of the cluster."""
    families = app.state.registry.restricted_registry([name]).collect()
    values = [one.value for family in families for one in family.samples if one.name == name and one.labels == labels]
    return values[0] if values else None


def test_what_no_stream_sends_is_refused_and_so_is_a_listener_too_many(
    monkeypatch: pytest.MonkeyPatch, service: Service, job_id: str, start_reader: StartReader
) -> None:
    path = f"/v1/jobs/{job_id}/events"
    reader = start_reader(path)
    last_id = until(lambda: reader.events, what="an event")[0].id
    other = f"/v1/jobs/{service.clone(job_id)['id']}/events"
    for url, query, after in (
        (path, "include=state,nothing", None), (path, "limit=3", None), (path, "cursor=x", None),
        (path, "", last_id[:-2]), (other, "", last_id), ("/v1/events", "", last_id),
    ):  # fmt: skip
        refused = start_reader(url, query, after=after).answer
        assert (refused.status_code, refused.headers["content-type"]) == (422, "application/problem+json")
    assert start_reader("/v1/jobs/nobody/events").answer.status_code == 404
    monkeypatch.setattr(hub, "MOST_LISTENERS", 1)
    assert start_reader("/v1/events").answer.status_code == 503
