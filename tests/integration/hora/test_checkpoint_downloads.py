"""Downloads of checkpoints are checked, and stay in their folder. They share the rest with those of artifacts."""

from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import pytest

from hora.errors import HoraError
from hora.service import Service
from tests.integration.hora.checkpoint_server import FILES, WEIGHTS, CheckpointServer
from tests.integration.hora.test_downloading import EVIL, files_below


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> CheckpointServer:
    monkeypatch.setattr("time.sleep", lambda _: None)
    return CheckpointServer()


@pytest.fixture
def service(server: CheckpointServer) -> Iterator[Service]:
    with Service("http://hora.test", "secret", transport=httpx.MockTransport(server)) as service:
        yield service


@pytest.mark.parametrize(("which", "step"), [("newest", 30), ("best", 20), (10, 10)])
def test_the_files_of_a_checkpoint_are_saved_in_a_folder(
    service: Service, server: CheckpointServer, tmp_path: Path, which: int | str, step: int
) -> None:
    saved = service.download_checkpoint("j", which, tmp_path / "out")
    assert {str(path.relative_to(tmp_path / "out")): path.read_bytes() for path in saved} == FILES
    assert files_below(tmp_path) == ["out/model.pt", "out/rank0/optimizer.pt"]
    assert [path for path, _ in server.requests] == [f"1/{step}/model.pt", f"1/{step}/rank0/optimizer.pt"]


def test_files_that_are_there_are_fetched_again_only_if_they_differ(
    service: Service, server: CheckpointServer, tmp_path: Path
) -> None:
    service.download_checkpoint("j", "newest", tmp_path)
    (tmp_path / "model.pt").write_bytes(WEIGHTS[::-1])  # of the same size
    server.requests.clear()
    service.download_checkpoint("j", "newest", tmp_path)
    assert [path for path, _ in server.requests] == ["1/30/model.pt"]
    assert (tmp_path / "model.pt").read_bytes() == WEIGHTS


def test_a_damaged_file_is_not_saved(service: Service, server: CheckpointServer, tmp_path: Path) -> None:
    server.damages = True
    with pytest.raises(HoraError, match=r"model\.pt is not what was stored"):
        service.download_checkpoint("j", "newest", tmp_path)
    assert files_below(tmp_path) == []
    server.damages = False
    service.download_checkpoint("j", "newest", tmp_path)
    assert (tmp_path / "model.pt").read_bytes() == WEIGHTS


@pytest.mark.parametrize(
    ("which", "sentence"),
    [
        ("15", "The store has no checkpoint of step 15: the store has the steps 30, 20, 10."),
        ("last", "'last' is no checkpoint: give a step, newest or best; the store has the steps 30, 20, 10."),
        ("best", "The best checkpoint is not in the store, or nothing says which one it is: the store has the steps"),
    ],
)
def test_a_checkpoint_that_is_not_there_is_answered_with_those_that_are(
    service: Service, server: CheckpointServer, tmp_path: Path, which: str, sentence: str
) -> None:
    server.steps = dict.fromkeys(server.steps, False)
    with pytest.raises(HoraError) as refused:
        service.download_checkpoint("j", which, tmp_path)
    assert str(refused.value).startswith(sentence)
    assert files_below(tmp_path) == []
    server.steps = {}
    with pytest.raises(HoraError, match=r"The store has no checkpoint of this job\."):
        service.download_checkpoint("j", which, tmp_path)


HARMLESS = {".bashrc", "a/.ssh/keys"}


@pytest.mark.parametrize("name", [name for name in EVIL if name not in HARMLESS])
def test_no_file_is_written_outside_the_folder_whatever_its_name(
    service: Service, server: CheckpointServer, tmp_path: Path, name: str
) -> None:
    server.files = {"first": b"good", name: b"evil"}
    with pytest.raises(HoraError, match="not a path below a folder"):
        service.download_checkpoint("j", "newest", tmp_path / "below/out")
    assert files_below(tmp_path) == []


@pytest.mark.parametrize("name", [".metadata", "shards/.metadata"])
def test_hidden_files_are_saved_only_in_a_folder_of_their_own(
    service: Service, server: CheckpointServer, tmp_path: Path, name: str
) -> None:
    server.files[name] = b"of PyTorch"
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.profile").touch()
    with pytest.raises(HoraError, match=r"has the hidden file .* name a new folder"):
        service.download_checkpoint("j", "newest", tmp_path / "home")
    assert files_below(tmp_path / "home") == [".profile"]
    server.breaks_after = [300_000, *10 * [0]]
    with pytest.raises(HoraError):
        service.download_checkpoint("j", "newest", tmp_path / "own")
    server.breaks_after = []
    service.download_checkpoint("j", "newest", tmp_path / "own")
    assert files_below(tmp_path / "own") == sorted(server.files)
