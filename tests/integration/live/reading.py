"""A reader of a live stream, in its own thread, and rows that a job writes meanwhile."""

import json
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import httpx2
from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs.lifecycle.store import add_event, transition
from jobs.model.states import EndReason, EventKind, Status
from jobs.telemetry import ingest
from jobs.telemetry.ingest import LogRow, MetricRow
from tests.waiting import until

AT = datetime(2030, 1, 1, tzinfo=UTC)


class SentEvent(NamedTuple):
    id: str
    event: str
    data: Any


class Reader:
    """Reads a stream until it ends or `leave` is called."""

    def __init__(self, url: str, token: str, after: str | None) -> None:
        headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
        self._client = httpx2.Client(timeout=60)
        request = self._client.build_request("GET", url, headers=headers | ({"Last-Event-ID": after} if after else {}))
        self.answer = self._client.send(request, stream=True)
        self.events: list[SentEvent] = []
        self.has_ended = False  # True if the stream ended without an error
        self._thread = threading.Thread(target=self._read_events, name="reader")
        self._thread.start()

    def _read_events(self) -> None:
        try:
            if self.answer.headers.get("content-type", "").startswith("text/event-stream"):
                for event in httpx2.EventSource(self.answer):
                    if event.data:
                        self.events.append(SentEvent(event.id, event.event, json.loads(event.data)))
            self.has_ended = True
        except httpx2.TransportError:
            pass  # the connection broke
        finally:
            self.answer.close()

    def of(self, kind: str) -> list[Any]:
        """The data of the events of a kind so far."""
        return [event.data for event in list(self.events) if event.event == kind]

    def texts(self) -> list[str]:
        """The log lines so far."""
        return [line["text"] for lines in self.of("logs") for line in lines["items"]]

    def notes(self) -> list[str]:
        """The texts of the lines of history that `note` has added so far."""
        return [data["data"]["note"] for data in self.of("event") if "note" in data["data"]]

    def until_ended(self) -> list[SentEvent]:
        """All events, once the server has ended the stream."""
        until(lambda: self.has_ended, what="the end of the stream")
        return self.events

    def leave(self) -> None:
        """Close the connection."""
        connection = self.answer.extensions["network_stream"].get_extra_info("socket")
        if self._thread.is_alive() and connection is not None:
            with suppress(OSError):  # it is closed already
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(120)
        self._client.close()


def note(session: Session, job_id: str, text: str) -> None:
    """Add a line of history with a text."""
    add_event(session, job_id, EventKind.CHECKPOINT_SAVED, data={"note": text})


def cancel(session: Session, job_id: str) -> None:
    """Let the job end as cancelled."""
    transition(session, job_id, Status.CANCELLED, end_reason=EndReason.CANCELLED)
    add_event(session, job_id, EventKind.ENDED)


def cut_off_others(session: Session) -> None:
    """End all other connections to the database of this one."""
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    session.execute(text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"))  # noqa: S608


def lines(session: Session, job_id: str, texts: Sequence[str]) -> None:
    """Store log lines of rank 0."""
    ingest.store_logs(session, [LogRow(job_id, 1, 0, AT, text) for text in texts])


def points(session: Session, job_id: str, steps: Sequence[int], *, rank: int = 0, attempt: int = 1) -> None:
    """Store a loss for each of the steps, half of its number."""
    ingest.store_metrics(session, [MetricRow(job_id, "loss", rank, step, attempt, 1, AT, step / 2) for step in steps])
