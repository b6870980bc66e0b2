"""Uploads in pieces to a simulated service that sometimes gives no answer."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from hora.errors import Conflict, HoraError, Json, ProblemError, ServiceUnavailable, UnexpectedAnswer
from hora.service import Service, uploads
from hora.service.uploads import send_source

BYTES = bytes(range(100))


class UploadSource:
    filename = "abc-chips.tar"
    size_bytes = len(BYTES)

    def read(self, offset: int, size: int) -> bytes:
        return BYTES[offset : offset + size]


@dataclass
class Played:
    """A service that takes uploads. It fails for the pieces in `silent_at`, and may store the odd ones of them."""

    open_uploads: list[Json] = field(default_factory=list)
    silent_at: set[int] = field(default_factory=set)
    failure: HoraError = field(default_factory=lambda: ServiceUnavailable("no answer"))
    stores_odd: bool = True
    silent_asked: int = 0  # how often it does not say how far an upload is
    stored_bytes: bytearray = field(default_factory=bytearray)
    started: int = 0
    pieces_sent: int = 0

    def uploads(self) -> list[Json]:
        return self.open_uploads

    def start_upload(self, *, filename: str, size_bytes: int, **fields: str) -> Json:
        self.started += 1
        return self._view("new")

    def upload(self, upload_id: str) -> Json:
        if self.silent_asked:
            self.silent_asked -= 1
            raise ServiceUnavailable("no answer")
        return self._view(upload_id)

    def _view(self, upload_id: str) -> Json:
        return {"id": upload_id, "received_bytes": len(self.stored_bytes), "chunk_bytes": 30}

    def send_piece(self, upload_id: str, offset: int, piece: bytes) -> Json:
        assert offset == len(self.stored_bytes)
        self.pieces_sent += 1
        if self.pieces_sent in self.silent_at:
            self.stored_bytes += piece if self.stores_odd and self.pieces_sent % 2 else b""
            raise self.failure
        self.stored_bytes += piece
        return self._view(upload_id)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads.time, "sleep", lambda _: None)


def reported_offsets(service: Played) -> list[int]:
    told: list[int] = []
    send_source(cast("Service", service), UploadSource(), told.append)
    return told


def test_a_service_that_loses_what_it_took_is_not_asked_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Played()
    monkeypatch.setattr(service, "send_piece", lambda *_: service.upload("new"))
    with pytest.raises(UnexpectedAnswer, match="has not got it"):
        reported_offsets(service)


def test_all_pieces_are_sent_in_order() -> None:
    service = Played()
    assert reported_offsets(service) == [0, 30, 60, 90, 100]
    assert (bytes(service.stored_bytes), service.started) == (BYTES, 1)


@pytest.mark.parametrize(
    "failure",
    [
        ServiceUnavailable("no answer"),
        ProblemError(503, "Store is away", type="urn:hora:problem:store-away"),
        ProblemError(502, "HTTP 502 Bad Gateway"),
        Conflict(409, "Upload is busy", type="urn:hora:problem:upload-busy"),
    ],
)
def test_an_upload_without_an_answer_continues_at_the_offset_of_the_service(failure: HoraError) -> None:
    service = Played(silent_at={2, 3, 4}, failure=failure)
    reported_offsets(service)
    assert bytes(service.stored_bytes) == BYTES


def test_an_upload_continues_when_the_service_does_not_say_at_once_how_far_it_is() -> None:
    service = Played(silent_at={2}, silent_asked=1)
    reported_offsets(service)
    assert (bytes(service.stored_bytes), service.silent_asked) == (BYTES, 0)


@pytest.mark.parametrize(
    "failure", [ProblemError(410, "Gone"), Conflict(409, "Code is off", type="urn:hora:problem:code-off")]
)
def test_what_does_not_pass_ends_an_upload(failure: HoraError) -> None:
    with pytest.raises(type(failure)):
        reported_offsets(Played(silent_at={2}, failure=failure))


def test_a_service_that_stays_away_ends_an_upload(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 10_000, 7))
    monkeypatch.setattr(uploads.time, "monotonic", lambda: next(now))
    service = Played(silent_at=set(range(1, 100)), stores_odd=False)
    with pytest.raises(ServiceUnavailable):
        reported_offsets(service)
    assert 1 < service.pieces_sent < 12


def test_earlier_upload_of_the_same_file_is_continued() -> None:
    same: dict[str, Any] = {
        "filename": UploadSource.filename,
        "size_bytes": 100,
        "received_bytes": 40,
        "chunk_bytes": 30,
    }
    others = [same | {"id": "x", "size_bytes": 99}, same | {"id": "y", "filename": "other"}]
    service = Played(open_uploads=[*others, same | {"id": "old"}], stored_bytes=bytearray(BYTES[:40]))
    assert reported_offsets(service)[0] == 40
    assert (bytes(service.stored_bytes), service.started) == (BYTES, 0)
