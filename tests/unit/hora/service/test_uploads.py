"""Uploads in pieces to a simulated service that sometimes gives no answer, and what is read of real files for them."""

import io
import os
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from hora.errors import Conflict, HoraError, Json, ProblemError, ServiceUnavailable, UnexpectedAnswer
from hora.service import Service, uploads
from hora.service.upload_sources import FileSource, FolderSource, upload_source
from hora.service.uploads import send_source
from tests.archives import write_files

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


FILES = {"b/2.png": b"x" * 700, "a/1.png": b"", "a/" + "ä" * 90 + ".png": b"y" * 512, "z.txt": b"last"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_files(tmp_path / "chips", FILES | dict.fromkeys((".git/x", "_cache/y", ".DS_Store"), b"hidden"))


def test_folder_is_read_as_a_tar_of_its_visible_files_in_pieces_of_any_size(folder: Path) -> None:
    (folder / "loop").symlink_to(folder)
    (folder / "gone.png").symlink_to("nowhere")
    source = FolderSource(folder)
    whole = source.read(0, source.size_bytes)
    assert len(whole) == source.size_bytes
    with tarfile.open(fileobj=io.BytesIO(whole)) as archive:
        found = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    assert found == FILES
    for size in (1, 7, 512, 513, 5000):
        pieces = [source.read(offset, size) for offset in range(0, source.size_bytes, size)]
        assert b"".join(pieces) == whole


def test_upload_name_changes_only_when_the_folder_changes(folder: Path) -> None:
    before = FolderSource(folder).filename
    assert FolderSource(folder).filename == before
    os.utime(folder / "z.txt", (1, 1))
    assert FolderSource(folder).filename != before


def test_a_file_that_became_shorter_is_an_error(folder: Path) -> None:
    source = FolderSource(folder)
    (folder / "b/2.png").write_bytes(b"short")
    with pytest.raises(HoraError, match="shorter"):
        source.read(0, source.size_bytes)


def test_a_file_is_sent_as_it_is(folder: Path) -> None:
    source = upload_source(folder / "b/2.png")
    assert isinstance(source, FileSource)
    assert (source.size_bytes, source.read(690, 100), source.filename.endswith("-2.png")) == (700, b"x" * 10, True)


@pytest.mark.timeout(60)
def test_an_empty_folder_and_a_named_pipe_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HoraError, match="no files"):
        upload_source(tmp_path)
    os.mkfifo(tmp_path / "chips.zip")
    with pytest.raises(HoraError, match=r"chips\.zip is neither a file nor a folder"):
        upload_source(tmp_path / "chips.zip")
