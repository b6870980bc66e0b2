"""Downloads of artifacts continue where they broke off, and never write outside their folder."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import pytest

from hora.errors import HoraError, NotFound, ServiceUnavailable
from hora.service import Service
from tests.integration.hora.checkpoint_server import BreakingStream

NETWORK = bytes(range(256)) * 4096
TAG = '"1-100000-2"'
MODIFIED_S = 1_893_456_000  # 2030-01-01


class ArtifactServer:
    """A service with some files, whose answers can break off."""

    def __init__(self) -> None:
        self.files = {"model.keras": NETWORK, "tensorboard/train/events": b"events"}
        self.tag = TAG
        self.breaks_after: list[int] = []  # bytes of each answer that breaks off
        self.requests: list[tuple[str, str | None]] = []  # paths of files and ranges

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.partition("/artifacts")[2].removeprefix("/")
        if not path:
            items = [
                {"path": name, "bytes": len(content), "modified_at": "2030-01-01T00:00:00Z", "media_type": "x/y"}
                for name, content in self.files.items()
            ]
            return httpx.Response(200, json={"items": items, "next_cursor": None})
        byte_range = request.headers.get("Range")
        self.requests.append((path, byte_range))
        if path not in self.files:
            return httpx.Response(404, json={"title": "Artifact not found"})
        start = 0
        if byte_range is not None and request.headers.get("If-Range") == self.tag:
            start = int(byte_range.removeprefix("bytes=").removesuffix("-"))
            if start >= len(self.files[path]):
                return httpx.Response(416, json={"title": "Range not satisfiable"})
        content, stop = self.files[path][start:], self.breaks_after.pop(0) if self.breaks_after else None
        headers = {"ETag": self.tag, "Last-Modified": "Tue, 01 Jan 2030 00:00:00 GMT"}
        return httpx.Response(206 if start else 200, headers=headers, stream=BreakingStream(content, stop))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> ArtifactServer:
    monkeypatch.setattr("time.sleep", lambda _: None)
    return ArtifactServer()


@pytest.fixture
def service(server: ArtifactServer) -> Iterator[Service]:
    with Service("http://hora.test", "secret", transport=httpx.MockTransport(server)) as service:
        yield service


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def test_a_file_gets_its_name_only_when_it_is_complete(service: Service, tmp_path: Path) -> None:
    progress: list[tuple[int, bool]] = []
    into = tmp_path / "made/network.keras"
    service.download_artifact("j", "model.keras", into, on_bytes=lambda n: progress.append((n, into.exists())))
    assert into.read_bytes() == NETWORK
    assert files_below(tmp_path) == ["made/network.keras"]
    assert into.stat().st_mtime == MODIFIED_S
    assert progress[-1] == (len(NETWORK), False)
    assert [so_far for so_far, _ in progress] == sorted(so_far for so_far, _ in progress)


def test_a_broken_download_continues_where_it_stopped(service: Service, server: ArtifactServer, tmp_path: Path) -> None:
    server.breaks_after = [600_000, 0, 0, 300_000]
    service.download_artifact("j", "model.keras", tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == NETWORK
    starts = [0 if byte_range is None else int(byte_range[6:-1]) for _, byte_range in server.requests]
    assert len(starts) == 5
    assert starts == sorted(starts)
    assert 0 < starts[1] <= 600_000


def test_a_later_call_continues_a_download_unless_the_file_changed(
    service: Service, server: ArtifactServer, tmp_path: Path
) -> None:
    for tag in (TAG, '"another"'):
        server.breaks_after = [600_000, *10 * [0]]
        with pytest.raises(ServiceUnavailable):
            service.download_artifact("j", "model.keras", tmp_path / "m")
        assert len(files_below(tmp_path)) == 1
        server.breaks_after, server.requests, server.tag = [], [], tag
        service.download_artifact("j", "model.keras", tmp_path / "m")
        assert server.requests[0][1] is not None
        assert (tmp_path / "m").read_bytes() == NETWORK
        assert files_below(tmp_path) == ["m"]
        (tmp_path / "m").unlink()
        server.tag = TAG
    mark = hashlib.sha256(b"j model.keras").hexdigest()[:16]
    (tmp_path / f".hora-{mark}.1-100000-2.part").write_bytes(NETWORK)  # complete, but without its name
    service.download_artifact("j", "model.keras", tmp_path / "m")
    assert ((tmp_path / "m").read_bytes(), files_below(tmp_path)) == (NETWORK, ["m"])


def test_all_files_are_saved_in_folders_and_unchanged_ones_are_not_fetched_again(
    service: Service, server: ArtifactServer, tmp_path: Path
) -> None:
    saved = service.download_artifacts("j", tmp_path / "out")
    assert saved == [tmp_path / "out/model.keras", tmp_path / "out/tensorboard/train/events"]
    assert saved[1].read_bytes() == b"events"
    server.files["tensorboard/train/events"] += b" and more"
    server.requests.clear()
    service.download_artifacts("j", tmp_path / "out")
    assert server.requests == [("tensorboard/train/events", None)]
    assert saved[1].read_bytes() == b"events and more"


EVIL = ["../evil", "a/../../evil", "/tmp/evil", "..", "", "a//b", "a/.ssh/keys", "evil\x00", "a\x1b[2J", "x" * 300]


@pytest.mark.parametrize("name", EVIL, ids=range(len(EVIL)))
def test_no_file_is_written_outside_the_folder_whatever_its_name(
    service: Service, server: ArtifactServer, tmp_path: Path, name: str
) -> None:
    server.files = {"first": b"good", name: b"evil"}
    top = tmp_path / "below/out"
    with pytest.raises(HoraError, match="not a path below a folder"):
        service.download_artifacts("j", top)
    assert files_below(tmp_path) == []


@pytest.mark.parametrize("link", ["out/tensorboard", "out/tensorboard/train"])
def test_a_folder_that_is_a_link_is_not_written_into(service: Service, tmp_path: Path, link: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / link).parent.mkdir(parents=True)
    (tmp_path / link).symlink_to(elsewhere)
    (tmp_path / "file").write_text("no folder")
    for into in ("out", "file"):
        with pytest.raises(HoraError, match="cannot be written"):
            service.download_artifacts("j", tmp_path / into)
    assert files_below(elsewhere) == []


def test_a_link_in_the_place_of_a_file_is_replaced_and_a_missing_file_leaves_nothing(
    service: Service, tmp_path: Path
) -> None:
    with pytest.raises(NotFound):
        service.download_artifact("j", "nothing", tmp_path / "m")
    assert os.listdir(tmp_path) == []
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/model.keras").symlink_to(tmp_path / "precious")
    service.download_artifacts("j", tmp_path / "out")
    assert (tmp_path / "precious").read_text() == "mine"
    assert (tmp_path / "out/model.keras").read_bytes() == NETWORK
