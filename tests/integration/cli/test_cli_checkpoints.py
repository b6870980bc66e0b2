"""`hora artifacts --checkpoints` lists the checkpoints in the store and fetches them."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx2 as httpx
import pytest

from hora.cli.app import main
from hora.service import Service
from tests.integration.hora.checkpoint_server import FILES, CheckpointServer
from tests.integration.hora.test_downloading import files_below

Command = Callable[..., int]


@pytest.fixture
def server() -> CheckpointServer:
    return CheckpointServer()


@pytest.fixture
def checkpoints(server: CheckpointServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Runs the command with these arguments in an empty folder. Returns its exit code."""
    monkeypatch.setattr(
        "hora.connection.connect", lambda **_: Service("http://hora.test", transport=httpx.MockTransport(server))
    )
    monkeypatch.chdir(tmp_path)
    return lambda *arguments, job="j": main(["artifacts", job, "--checkpoints", *arguments])


def test_they_are_listed_as_a_table(
    checkpoints: Command, server: CheckpointServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checkpoints() == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["STEP", "EPOCH", "SIZE", "SAVED", "BEST"]
    assert [line.split()[:4] for line in lines] == [[str(step), str(step // 10), "0.5", "MB"] for step in (30, 20, 10)]
    assert [line.endswith("best") for line in lines] == [False, True, False]
    assert checkpoints("--json") == 0
    assert [item["step"] for item in json.loads(capsys.readouterr().out)["items"]] == [30, 20, 10]
    server.steps = {}
    assert checkpoints() == 0
    assert capsys.readouterr().err == "The store has no checkpoint of this job.\n"
    assert checkpoints(job="nowhere") == 102


def test_one_is_fetched_into_a_folder(checkpoints: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for which, step in (("best", 20), ("10", 10)):
        assert checkpoints("--download", which) == 0
        assert capsys.readouterr().out.splitlines() == [f"j-step-{step}/{path}" for path in FILES]
        assert (tmp_path / f"j-step-{step}/model.pt").read_bytes() == FILES["model.pt"]
    assert checkpoints("--download", "newest", "-o", "mine", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"saved": [f"mine/{path}" for path in FILES]}
    assert files_below(tmp_path / "mine") == [*FILES]


def test_all_are_fetched_into_folders_of_their_own(checkpoints: Command, tmp_path: Path) -> None:
    assert checkpoints("--all") == 0
    expected = [f"j-checkpoints/attempt-1/step-{step}/{path}" for step in (10, 20, 30) for path in FILES]
    assert files_below(tmp_path) == sorted(expected)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--download", "x"], "'x' is no checkpoint: give a step, newest or best"),
        (["--rm"], "--rm removes the files and the checkpoints together"),
        (["--download", "10", "--all"], "give one of --download PATH, --all and --rm"),
        (["-o", "out"], "--output goes with --download PATH or --all"),
    ],
)
def test_wrong_usage_is_said_in_a_sentence(
    checkpoints: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert checkpoints(*arguments) == 2
    assert sentence in " ".join(capsys.readouterr().err.replace("│", "").split())
    assert files_below(tmp_path) == []
