"""`hora run`, `hora code` and `hora diff`, against a whole stack that runs the scripts."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hora.cli.exit_codes import ERROR, FAILED, NOT_FOUND, USAGE
from hora.service import Service
from hora.stack.control import Stack
from tests.commands import hora, in_terminal

TRAIN = """
import sys
from hora import run

print("rank", run.rank, "trains with", sys.argv[1:], flush=True)
run.report(step=1, mae=run.params["mae"])
sys.exit(run.params.get("code", 0))
"""
RUN = ("run", "--gpus", "2", "--set", "params.mae=0.5", "--name", "first", "--")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a script, in a git repository."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "train.py").write_text(TRAIN)
    (folder / "notes.txt").write_text("old\n")
    (folder / ".horaignore").write_text("*.bin\n")
    (folder / "left-out.bin").write_bytes(b"x")
    author = ("-c", "user.name=ada", "-c", "user.email=ada@hora.test", "-c", "commit.gpgsign=false")
    for command in (("init", "-q"), ("add", "."), (*author, "commit", "-qm", "first")):
        subprocess.run(["git", "-C", str(folder), *command], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def first_run(stack: Stack, folder: Path) -> subprocess.CompletedProcess[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return hora(stack.home, *RUN, "python", "train.py", "--x={params.mae}")


@pytest.fixture(scope="module")
def first(first_run: subprocess.CompletedProcess[str], client: Service) -> Mapping[str, Any]:
    """The job of the first run."""
    assert first_run.returncode == 0, first_run.stderr
    (listed,) = client.jobs(name="first")
    return client.job(listed["id"])


def test_run_sends_the_folder_and_shows_what_rank_0_prints(
    first_run: subprocess.CompletedProcess[str], first: Mapping[str, Any], folder: Path
) -> None:
    lines = first_run.stdout.splitlines()
    assert "rank 0 trains with ['--x=0.5']" in lines
    assert "rank 1 trains with ['--x=0.5']" not in lines
    assert lines.index("rank 0 trains with ['--x=0.5']") < lines.index("succeeded")
    assert first["spec"]["command"] == ["python", "train.py", "--x={params.mae}"]
    asked = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    commit = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    assert first["labels"].items() >= {"git.commit": commit, "git.dirty": "false"}.items()


def test_a_terminal_shows_the_output_above_the_bar_and_a_script_may_fail(stack: Stack, folder: Path) -> None:
    params = ("--set", "params={mae: 1, code: 3}")
    code, printed = in_terminal(stack.home, "run", "--folder", str(folder), *params, "python", "train.py", "-d", "-x")
    assert code == FAILED
    assert "rank 0 trains with ['-d', '-x']" in printed  # they are of the command, not of `hora run`
    assert "the script exited with 3" in printed


def test_a_detached_run_prints_its_id_alone_and_its_code_is_not_sent_again(
    stack: Stack, folder: Path, client: Service, first: Mapping[str, Any]
) -> None:
    spec_file = folder.parent / "spec.yaml"
    spec_file.write_text(f"code: {folder.name}\ncommand: [python, train.py]\nparams: {{mae: 1}}\n")
    detached = hora(stack.home, "run", "-d", "--folder", str(folder), "--set", "params.mae=2", "python", "train.py")
    new = client.job(detached.stdout.strip())
    assert (detached.returncode, new["code"]) == (0, first["code"])
    assert f"`hora show {new['id']} --wait`" in detached.stderr
    preview = hora(stack.home, "submit", str(spec_file), "--dry-run", "--json")
    assert json.loads(preview.stdout)["spec"]["code"] == first["code"]
    assert len(list(client.audit(action="code.sent", subject=first["code"]))) == 1
    shown = hora(stack.home, "show", detached.stdout.strip(), "--wait")
    assert shown.returncode == 0
    assert "rank 0 trains with []" in shown.stdout  # a person who comes back sees it too


def test_code_shows_and_fetches_what_ran(
    stack: Stack, first: Mapping[str, Any], job: Mapping[str, Any], tmp_path: Path
) -> None:
    shown = hora(stack.home, "code", first["id"])
    for text in ("python train.py '--x={params.mae}'", first["code"], first["labels"]["git.commit"]):
        assert text in shown.stdout
    assert "left-out.bin" not in shown.stdout
    document = json.loads(hora(stack.home, "code", first["code"], "--json").stdout)
    assert (document["code"]["digest"], document["job"]) == (first["code"], None)
    for what in (first["id"], first["code"]):
        output = tmp_path / what
        assert hora(stack.home, "code", what, "-o", str(output)).stdout == f"{output}\n"
        assert (output / "train.py").read_text() == TRAIN
    again = hora(stack.home, "code", first["id"], "-o", str(tmp_path))
    assert (again.returncode, f"{tmp_path} is there already" in again.stderr) == (ERROR, True)
    assert hora(stack.home, "code", "0" * 64).returncode == NOT_FOUND
    none = hora(stack.home, "code", job["id"])
    assert (none.returncode, f"Job {job['id']} ran no code of its own" in none.stderr) == (ERROR, True)
    assert {path.name for path in tmp_path.iterdir()} == {first["id"], first["code"]}  # nothing is left over


def test_diff_shows_what_differs(
    stack: Stack, folder: Path, client: Service, first: Mapping[str, Any], job: Mapping[str, Any], tmp_path: Path
) -> None:
    changed = tmp_path / "changed"
    changed.mkdir()
    (changed / "train.py").write_text(TRAIN.replace("trains", "learns"))
    (changed / "new.npy").write_bytes(b"\0\1")
    (changed / ".horaignore").write_text("*.bin\n")
    run = hora(stack.home, "run", "-d", "--folder", str(changed), "--set", "params.mae=0.25", "python", "train.py")
    second = run.stdout.strip()
    client.wait(second, timeout_s=120)
    text = hora(stack.home, "diff", first["id"], second).stdout
    changed_line = '+print("rank", run.rank, "learns with", sys.argv[1:], flush=True)'
    listed = {"added    new.npy", "removed  notes.txt", "changed  train.py", "binary   new.npy"}
    assert {*listed, f"--- {first['id']}/train.py", changed_line, "-old"} <= {*text.splitlines()}
    found = json.loads(hora(stack.home, "diff", first["id"], second, "--json").stdout)
    assert found["spec"]["params.mae"] == [0.5, 0.25]
    assert found["results"]["metrics.mae.best"] == [0.5, 0.25]
    assert "code" not in found["spec"]
    assert hora(stack.home, "diff", second, second).stderr == "The jobs do not differ.\n"
    without_code = json.loads(hora(stack.home, "diff", first["id"], job["id"], "--json").stdout)
    assert without_code["code"]["removed"] == [".horaignore", "notes.txt", "train.py"]


def test_code_that_cannot_be_sent_is_refused_before_it_is_sent(stack: Stack, client: Service, tmp_path: Path) -> None:
    uploads = list(client.uploads())  # other tests of this stack may have left some
    with (tmp_path / "large.bin").open("wb") as file:
        file.truncate(65 * 10**6)
    refused = hora(stack.home, "run", "--folder", str(tmp_path), "true")
    assert (refused.returncode, "may have at most 64000000 bytes here" in refused.stderr) == (USAGE, True)
    assert "65.0 MB  large.bin\nLeave files out with lines in .horaignore." in refused.stderr
    (tmp_path / ".horaignore").write_text("*.bin\n")
    for options in (["--set", "model=mlp", "true"], ["-d", "--dry-run", "true"], []):
        assert hora(stack.home, "run", "--folder", str(tmp_path), *options).returncode == USAGE
    assert list(client.uploads()) == uploads
