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


def test_existing_data_roots_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORA_DATA_ROOTS", f"{tmp_path}:s3://bucket/sets")
    finding = data_roots()
    assert (finding.level, finding.found) == ("ok", f"{tmp_path}, s3://bucket/sets")


def test_data_root_that_is_no_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HORA_DATA_ROOTS", f"{tmp_path}:{tmp_path / 'gone'}:{tmp_path / 'file'}")
    finding = data_roots()
    assert finding.level == "fail"
    assert finding.found == f"no such folder: {tmp_path / 'gone'}, {tmp_path / 'file'}"
    assert "HORA_DATA_ROOTS" in finding.advice


def test_without_data_roots_only_registered_datasets_are_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HORA_DATA_ROOTS", raising=False)
    finding = data_roots()
    assert (finding.level, "registered" in finding.found) == ("ok", True)


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


def test_a_wrong_setting_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORA_MODELS", "acme.nets")
    finding = data_roots()
    assert finding.level == "fail"
    assert "module:function" in finding.found


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


def test_ssh_keys_are_checked_only_when_their_folder_is_set(keys: SshKeys, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_missing_keys_are_named(keys: SshKeys) -> None:
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


FACTS: dict[str, Any] = {
    "setting": "auto", "no_gpus": None, "driver": {"version": "550.54.15", "cuda": "12.4"}, "tensorflow": "2.18.1",
    "gpus": [{"index": 0, "name": "H200", "unusable": None}, {"index": 1, "name": "H200", "unusable": None}],
    "nccl": True, "slots": {"gpu": 2, "cpu": 0}, "problem": None,
}  # fmt: skip


def test_gpus_that_can_be_used_are_listed_with_driver_and_nccl() -> None:
    finding = gpu_finding(FACTS)
    assert finding.level == "ok"
    assert finding.found == (
        "2 GPUs (H200), driver 550.54.15 for CUDA 12.4, TensorFlow 2.18.1, Horovod with NCCL;"
        " HORA_DEVICE is auto: 2 GPU slots, 0 CPU slots"
    )


def test_a_machine_without_a_driver_has_cpu_slots_and_nothing_to_do() -> None:
    finding = gpu_finding(FACTS | {"gpus": [], "no_gpus": "no NVIDIA driver", "slots": {"gpu": 0, "cpu": 4}})
    assert finding == Finding("gpus", "ok", "no NVIDIA driver; HORA_DEVICE is auto: 0 GPU slots, 4 CPU slots")
    cpu = gpu_finding(FACTS | {"setting": "cpu", "gpus": [], "slots": {"gpu": 0, "cpu": 4}})
    assert cpu == Finding("gpus", "ok", "HORA_DEVICE is cpu: 0 GPU slots, 4 CPU slots")


def test_gpus_that_cannot_be_used_are_explained() -> None:
    problem = "2 GPUs (H200) are here, but TensorFlow 2.18.1 is built for CPUs: `HORA_DEVICE=gpu make setup` installs"
    finding = gpu_finding(FACTS | {"slots": {"gpu": 0, "cpu": 4}, "problem": problem, "nccl": False})
    assert (finding.level, problem in finding.found) == ("warn", True)
    assert "HORA_DEVICE=gpu make setup" in finding.advice
    none = gpu_finding(FACTS | {"setting": "gpu", "slots": {"gpu": 0, "cpu": 0}, "problem": problem})
    assert none.level == "fail"
    missing = gpu_finding(FACTS | {"gpus": [], "slots": {"gpu": 0, "cpu": 0}, "problem": "HORA_DEVICE is gpu, but"})
    assert (missing.level, missing.found) == ("fail", "HORA_DEVICE is gpu, but")


def test_a_gpu_that_cannot_be_used_beside_others_is_named() -> None:
    cards = [{"index": 0, "name": "H200", "unusable": None}, {"index": 1, "name": "H200", "unusable": "cuInit failed"}]
    finding = gpu_finding(FACTS | {"gpus": cards, "problem": "TensorFlow 2.18.1 can use 1 of 2 GPUs"})
    assert finding.level == "warn"
    assert "GPU 1 cannot be used: cuInit failed; TensorFlow 2.18.1 can use 1 of 2 GPUs" in finding.found
    assert "driver" in finding.advice
