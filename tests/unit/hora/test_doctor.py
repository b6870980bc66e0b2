"""What `hora doctor` says of this machine: of the data roots, of keys, of the parts of a stack, of what jobs left."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hora.doctor.machine import data_roots, leftovers, parts, ssh_keys
from hora.home import Home, State
from hora.render.jobs import Finding
from jobs.runtime.processes import MARK, ProcessId
from jobs.runtime.ssh_keys import SshKeys
from tests.waiting import until


def test_data_roots_that_are_there_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORA_DATA_ROOTS", f"{tmp_path}:s3://bucket/sets")
    finding = data_roots()
    assert (finding.level, finding.found) == ("ok", f"{tmp_path}, s3://bucket/sets")


def test_a_data_root_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HORA_DATA_ROOTS", f"{tmp_path}:{tmp_path / 'gone'}:{tmp_path / 'file'}")
    finding = data_roots()
    assert finding.level == "fail"
    assert finding.found == f"no such folder: {tmp_path / 'gone'}, {tmp_path / 'file'}"
    assert "HORA_DATA_ROOTS" in finding.advice


def test_without_data_roots_there_are_registered_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HORA_DATA_ROOTS", raising=False)
    finding = data_roots()
    assert (finding.level, "registered" in finding.found) == ("ok", True)


def test_a_wrong_setting_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORA_MODELS", "acme.nets")
    finding = data_roots()
    assert finding.level == "fail"
    assert "module:function" in finding.found


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SshKeys:
    """Keys as `hora keys` leaves them, to look at."""
    keys = SshKeys(tmp_path / "ssh")
    keys.folder.mkdir(mode=0o700)
    for file in (keys.client_key, keys.host_key):
        file.touch(mode=0o600)
        file.with_suffix(".pub").touch()
    monkeypatch.setenv("HORA_SSH_DIR", str(keys.folder))
    return keys


def test_keys_are_looked_at_where_there_are_any(keys: SshKeys, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(ssh_keys()) == [Finding("ssh keys", "ok", str(keys.folder))]
    monkeypatch.delenv("HORA_SSH_DIR")
    assert list(ssh_keys()) == []


def test_keys_that_others_can_read_are_named(keys: SshKeys) -> None:
    keys.client_key.chmod(0o640)
    (finding,) = ssh_keys()
    assert (finding.level, finding.found) == ("fail", f"open to other users: {keys.client_key}")
    keys.client_key.chmod(0o600)
    keys.folder.chmod(0o755)
    (finding,) = ssh_keys()
    assert (finding.level, finding.found) == ("fail", f"open to other users: {keys.folder}")


def test_keys_that_are_missing_are_named(keys: SshKeys) -> None:
    keys.host_key.unlink()
    (finding,) = ssh_keys()
    assert (finding.level, finding.found) == ("fail", f"not in {keys.folder}: {keys.host_key.name}")
    assert "hora keys" in finding.advice


def test_a_part_that_does_not_run_is_named_with_its_log(tmp_path: Path) -> None:
    assert list(parts(tmp_path)) == []
    alive = ProcessId.of(os.getpid())
    assert alive is not None
    gone = ProcessId(alive.pid, alive.started + 1)
    found = {"database": alive, "api": gone, "migrations": gone}
    Home.at(tmp_path).write_state(State(parts=found, failure="The api does not start."))
    failure, dead = parts(tmp_path)
    assert failure.found == "The api does not start."
    assert dead.found == "api does not run"
    assert str(tmp_path / "logs" / "api.log") in dead.advice


def test_a_supervisor_whose_attempt_is_over_is_named_by_where_it_logs(tmp_path: Path) -> None:
    log = tmp_path / "runs" / "0abc" / "attempt-3" / "supervisor.log"
    log.parent.mkdir(parents=True)
    variables = {**os.environ, "HORA_HOME": str(tmp_path)}
    argv = [sys.executable, "-c", "input()", "worker.supervisor"]
    with log.open("wb") as file, subprocess.Popen(argv, env=variables, stdin=subprocess.PIPE, stderr=file) as process:
        until(lambda: leftovers(tmp_path, lambda *_: False).level == "warn")
        assert f"of 0abc.3: {process.pid}" in leftovers(tmp_path, lambda *_: False).found
        assert leftovers(tmp_path, lambda job_id, number: (job_id, number) == ("0abc", 3)).level == "ok"
        process.kill()


@pytest.fixture
def marked(tmp_path: Path) -> Iterator[ProcessId]:
    """A process of the second attempt of a job."""
    variables = {**os.environ, "HORA_HOME": str(tmp_path), MARK: "0abc.2"}
    with subprocess.Popen([sys.executable, "-c", "input()"], env=variables, stdin=subprocess.PIPE) as process:
        yield until(lambda: ProcessId.of(process.pid))
        process.kill()


def test_a_process_of_an_attempt_that_is_over_is_named(tmp_path: Path, marked: ProcessId) -> None:
    asked: list[tuple[str, int]] = []
    until(lambda: leftovers(tmp_path, lambda job_id, number: bool(asked.append((job_id, number)))).level == "warn")
    assert set(asked) == {("0abc", 2)}
    assert f"of 0abc.2: {marked.pid}" in leftovers(tmp_path, lambda *_: False).found
    assert leftovers(tmp_path, lambda *_: True).level == "ok"
    assert leftovers(tmp_path / "elsewhere", lambda *_: False).level == "ok"
