"""What `hora doctor` says about this machine: data roots, SSH keys and the parts of a stack."""

import os
from pathlib import Path
from typing import Any

import pytest

from hora.doctor.findings import Finding
from hora.doctor.machine import data_roots, disk_space, gpu_finding, parts, scripts, ssh_keys, writable
from hora.home import Home, State
from jobs.runtime.processes import ProcessId
from jobs.runtime.ssh_keys import SshKeys
from tests.full_disks import small_disk, use_up_files


def test_data_roots_have_to_be_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    gone, file = tmp_path / "gone", tmp_path / "file"
    for roots, level, found in (
        (f"{tmp_path}:s3://bucket/sets", "ok", f"{tmp_path}, s3://bucket/sets"),
        (f"{tmp_path}:{gone}:{file}", "fail", f"no such folder: {gone}, {file}"),
        ("", "ok", "registered"),
    ):
        monkeypatch.setenv("HORA_DATA_ROOTS", roots)
        finding = data_roots()
        assert (finding.level, found in finding.found) == (level, True)
    monkeypatch.setenv("HORA_MODELS", "acme.nets")
    finding = data_roots()
    assert (finding.level, "module:function" in finding.found) == ("fail", True)


def test_an_environment_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there" / "bin").mkdir(parents=True)
    (tmp_path / "there" / "bin" / "python").touch()
    monkeypatch.setenv("HORA_CODE", "on")
    monkeypatch.setenv("HORA_ENVIRONMENTS", f"there={tmp_path / 'there'},gone={tmp_path / 'gone'}")
    finding = next(finding for finding in scripts() if finding.check == "environments")
    assert (finding.level, finding.found) == ("fail", "there is no bin/python in the environments gone")


def test_a_home_without_space_is_not_said_to_belong_to_somebody_else(tmp_path: Path) -> None:
    with small_disk(tmp_path / "home") as home:
        use_up_files(home)
        finding = writable(home)
    assert (finding.level, finding.found) == ("fail", f"{home}: No space left on device")
    assert finding.advice == "Free some space."


def test_every_disk_that_is_written_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORA_MIN_FREE_GB", "1000000")
    monkeypatch.setenv("HORA_DATASETS_DIR", "/dev/shm/sets")
    findings = list(disk_space(tmp_path))
    assert {finding.level for finding in findings} == {"fail"}
    assert all("less than 1,000,000.0 GB" in finding.found for finding in findings)
    assert "runs" in findings[0].found
    monkeypatch.setenv("HORA_MIN_FREE_GB", "0")
    assert {finding.level for finding in disk_space(tmp_path)} <= {"ok", "warn"}


def test_a_folder_of_the_home_that_other_users_can_read_is_named(tmp_path: Path) -> None:
    for name, mode in (("runs", 0o700), ("disk", 0o755)):
        (tmp_path / name).mkdir(mode=mode)
    assert writable(tmp_path).level == "ok"
    (tmp_path / "cache").symlink_to("disk")  # a folder of the operator, which Hora does not change
    finding = writable(tmp_path)
    assert (finding.level, finding.found) == ("warn", f"open to other users: {tmp_path / 'cache'}")


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SshKeys:
    """SSH keys as `hora keys` writes them."""
    keys = SshKeys(tmp_path / "ssh")
    keys.folder.mkdir(mode=0o700)
    for file in (keys.client_key, keys.host_key):
        file.touch(mode=0o600)
        file.with_suffix(".pub").touch()
    monkeypatch.setenv("HORA_SSH_DIR", str(keys.folder))
    return keys


def test_ssh_keys_have_to_be_there_and_private(keys: SshKeys, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(ssh_keys()) == [Finding("ssh keys", "ok", str(keys.folder))]
    for path, open_mode, mode in ((keys.client_key, 0o640, 0o600), (keys.folder, 0o755, 0o700)):
        path.chmod(open_mode)
        (finding,) = ssh_keys()
        assert (finding.level, finding.found) == ("fail", f"open to other users: {path}")
        path.chmod(mode)
    keys.host_key.unlink()
    (finding,) = ssh_keys()
    assert (finding.level, finding.found) == ("fail", f"not in {keys.folder}: {keys.host_key.name}")
    assert "hora keys" in finding.advice
    monkeypatch.delenv("HORA_SSH_DIR")
    assert list(ssh_keys()) == []


def test_a_part_that_does_not_run_is_named_with_its_log(tmp_path: Path) -> None:
    assert list(parts(tmp_path)) == []
    alive = ProcessId.of(os.getpid())
    assert alive is not None
    gone = ProcessId(alive.pid, alive.started + 1)
    found = {"database": alive, "api": gone, "migrations": gone}
    Home.at(tmp_path).write_state(State(parts=found, failure="The api does not start."))
    failure, dead = parts(tmp_path)
    assert (failure.found, dead.found) == ("The api does not start.", "api does not run")
    assert str(tmp_path / "logs" / "api.log") in dead.advice


FACTS: dict[str, Any] = {
    "setting": "auto", "no_gpus": None, "driver": {"version": "550.54.15", "cuda": "12.4"}, "tensorflow": "2.18.1",
    "gpus": [{"index": 0, "name": "H200", "unusable": None}, {"index": 1, "name": "H200", "unusable": None}],
    "nccl": True, "slots": {"gpu": 2, "cpu": 0}, "problem": None,
}  # fmt: skip
IS_FOR_CPUS = "2 GPUs (H200) are here, but TensorFlow 2.18.1 is built for CPUs: `HORA_DEVICE=gpu make setup` installs"
WELL = "2 GPUs (H200), driver 550.54.15 for CUDA 12.4, TensorFlow 2.18.1, Horovod with NCCL; HORA_DEVICE is auto: "
ONE_OF_TWO = [FACTS["gpus"][0], {"index": 1, "name": "H200", "unusable": "cuInit failed"}]
NONE = {"gpus": [], "slots": {"gpu": 0, "cpu": 4}}
NO_SLOTS = {"gpu": 0, "cpu": 0}


@pytest.mark.parametrize(
    ("changes", "level", "found"),
    [
        ({}, "ok", f"{WELL}2 GPU slots, 0 CPU slots"),
        (NONE | {"no_gpus": "no driver"}, "ok", "no driver; HORA_DEVICE is auto: 0 GPU slots, 4 CPU slots"),
        ({"slots": NONE["slots"], "problem": IS_FOR_CPUS, "nccl": False}, "warn", IS_FOR_CPUS),
        ({"setting": "gpu", "slots": NO_SLOTS, "problem": IS_FOR_CPUS}, "fail", IS_FOR_CPUS),
        ({"gpus": ONE_OF_TWO, "problem": "It can use 1"}, "warn", "GPU 1 cannot be used: cuInit failed; It can use 1"),
    ],
)
def test_what_can_be_used_of_gpus_is_said(changes: dict[str, Any], level: str, found: str) -> None:
    finding = gpu_finding(FACTS | changes)
    assert finding.level == level
    assert finding.found == found if level == "ok" else found in finding.found
    if level == "warn":
        assert ("driver" if "gpus" in changes else "HORA_DEVICE=gpu make setup") in finding.advice
