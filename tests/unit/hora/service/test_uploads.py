"""Uploads in pieces to a simulated service that sometimes gives no answer."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from hora.errors import Json, ServiceUnavailable
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
    """A service that takes uploads. It does not answer the pieces in `silent_at`, and stores the odd ones of them."""

    open_uploads: list[Json] = field(default_factory=list)
    silent_at: set[int] = field(default_factory=set)
    stored_bytes: bytearray = field(default_factory=bytearray)
    started: int = 0
    pieces_sent: int = 0

    def uploads(self) -> list[Json]:
        return self.open_uploads

    def start_upload(self, *, filename: str, size_bytes: int, **fields: str) -> Json:
        self.started += 1
        return self.upload("new")

    def upload(self, upload_id: str) -> Json:
        return {"id": upload_id, "received_bytes": len(self.stored_bytes), "chunk_bytes": 30}

    def send_piece(self, upload_id: str, offset: int, piece: bytes) -> Json:
        assert offset == len(self.stored_bytes)
        self.pieces_sent += 1
        if self.pieces_sent in self.silent_at:
            self.stored_bytes += piece if self.pieces_sent % 2 else b""
            raise ServiceUnavailable("no answer")
        self.stored_bytes += piece
        return self.upload(upload_id)


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


def test_an_upload_without_an_answer_continues_at_the_offset_of_the_service() -> None:
    service = Played(silent_at={2, 3, 4})
    reported_offsets(service)
    assert bytes(service.stored_bytes) == BYTES


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
