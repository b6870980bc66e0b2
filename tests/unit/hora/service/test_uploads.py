"""Uploads in pieces to a simulated service that sometimes gives no answer."""

from dataclasses import dataclass, field
from typing import cast

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
        assert (upload_id in ("new", "old"), offset) == (True, len(self.stored_bytes))
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
    service = Played(silent_at={2}, failure=failure, silent_asked=1)
    reported_offsets(service)
    assert (bytes(service.stored_bytes), service.silent_asked) == (BYTES, 0)


def test_a_service_that_stays_away_refuses_or_loses_pieces_ends_an_upload(monkeypatch: pytest.MonkeyPatch) -> None:
    for failure in (ProblemError(410, "Gone"), Conflict(409, "Code is off", type="urn:hora:problem:code-off")):
        with pytest.raises(type(failure)):
            reported_offsets(Played(silent_at={2}, failure=failure))
    now = iter(range(0, 10_000, 7))
    monkeypatch.setattr(uploads.time, "monotonic", lambda: next(now))
    service = Played(silent_at=set(range(1, 100)), stores_odd=False)
    with pytest.raises(ServiceUnavailable):
        reported_offsets(service)
    assert 1 < service.pieces_sent < 12
    losing = Played()
    monkeypatch.setattr(losing, "send_piece", lambda *_: losing.upload("new"))
    with pytest.raises(UnexpectedAnswer, match="has not got it"):
        reported_offsets(losing)


def test_earlier_upload_of_the_same_file_is_continued() -> None:
    same: Json = {"filename": UploadSource.filename, "size_bytes": 100, "received_bytes": 40, "chunk_bytes": 30}
    others = [same | {"id": "x", "size_bytes": 99}, same | {"id": "y", "filename": "other"}]
    service = Played(open_uploads=[*others, same | {"id": "old"}], stored_bytes=bytearray(BYTES[:40]))
    assert reported_offsets(service)[0] == 40
    assert (bytes(service.stored_bytes), service.started) == (BYTES, 0)
