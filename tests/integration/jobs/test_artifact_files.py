"""Artifact files: which are listed, and that nothing outside a job's folder is ever opened."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.data import artifact_files
from jobs.data.artifact_files import ArtifactNotFound, ArtifactsUnseen, listed, opened, parts_of
from tests.archives import write_files

JOB = "job1"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write_files(tmp_path, {"secret.txt": b"secret", "runs/job2/artifacts/model.keras": b"another's"})
    write_files(tmp_path / "runs" / JOB, {"checkpoints/epoch-1.h5": b"secret"})
    files = {"model.keras": b"network", "tensorboard/train/events.out.tfevents.1": b"events"}
    write_files(tmp_path / "runs" / JOB / "artifacts", files | {".tmp-model.keras": b"half of a network"})
    return tmp_path / "runs"


def read_artifact(runs: Path, path: str) -> bytes:
    artifact_file = opened(runs, JOB, path)
    try:
        return os.pread(artifact_file.descriptor, 100, 0)
    finally:
        os.close(artifact_file.descriptor)


def open_files() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


def test_files_are_listed_in_order_without_those_being_written(runs: Path) -> None:
    before = open_files()
    artifacts = listed(runs, JOB)
    assert [(artifact.path, artifact.bytes) for artifact in artifacts] == [
        ("model.keras", 7),
        ("tensorboard/train/events.out.tfevents.1", 6),
    ]
    assert [read_artifact(runs, artifact.path) for artifact in artifacts] == [b"network", b"events"]
    assert open_files() == before


OUTSIDE = [
    "", "/", ".", "..", "../checkpoints/epoch-1.h5", "../../job2/artifacts/model.keras", "../../../secret.txt",
    "tensorboard/../../checkpoints/epoch-1.h5", "./model.keras", "tensorboard//train/events.out.tfevents.1",
    "/model.keras", "model.keras/", "tensorboard", "tensorboard/train", "/etc/passwd", ".tmp-model.keras",
    "tensorboard/.hidden", "model.keras\x00.txt", "model\n.keras", "..\\..\\secret.txt", "%2e%2e/secret.txt",
    "\ud800", "x" * 256, "a/" * 20 + "b", "x" * 2000, "model.keras/x", "no such file",
]  # fmt: skip


@pytest.mark.parametrize("path", OUTSIDE, ids=range(len(OUTSIDE)))
def test_a_path_that_is_no_artifact_opens_no_file(runs: Path, path: str) -> None:
    before = open_files()
    with pytest.raises(ArtifactNotFound):
        opened(runs, JOB, path)
    assert open_files() == before


def ways_to_plant(runs: Path) -> dict[str, Callable[[Path], None]]:
    secret = runs.parent / "secret.txt"
    return {
        "link": lambda path: path.symlink_to(secret),
        "relative": lambda path: path.symlink_to("../../../secret.txt"),
        "within": lambda path: path.symlink_to("model.keras"),
        "folder": lambda path: path.symlink_to(runs.parent),
        "pipe": os.mkfifo,
    }


@pytest.mark.parametrize("kind", ["link", "relative", "within", "folder", "pipe"])
def test_links_folders_and_pipes_are_neither_listed_nor_opened(runs: Path, kind: str) -> None:
    before = [artifact.path for artifact in listed(runs, JOB)]
    ways_to_plant(runs)[kind](runs / JOB / "artifacts/planted")
    assert [artifact.path for artifact in listed(runs, JOB)] == before
    for path in ("planted", "planted/secret.txt"):
        with pytest.raises(ArtifactNotFound):
            opened(runs, JOB, path)


@pytest.mark.parametrize("part", ["job", "artifacts"])
def test_a_folder_that_is_a_link_is_not_entered(runs: Path, part: str) -> None:
    folder = runs / JOB if part == "job" else runs / JOB / "artifacts"
    folder.rename(runs.parent / "moved")
    folder.symlink_to(runs.parent / "moved")
    for look in (lambda: listed(runs, JOB), lambda: opened(runs, JOB, "model.keras")):
        with pytest.raises(ArtifactsUnseen):
            look()


@pytest.mark.parametrize("part", ["file", "folder"])
def test_a_path_part_replaced_by_a_link_after_the_check_is_not_followed(
    runs: Path, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part of the path is opened from the open folder above it, and never as a link."""
    train = runs / JOB / "artifacts/tensorboard/train"
    (runs.parent / "events.out.tfevents.1").write_bytes(b"secret")
    original_parts_of = artifact_files.parts_of

    def parts_then_swap(path: str) -> list[str]:
        parts = original_parts_of(path)
        if part == "file":
            (train / "events.out.tfevents.1").unlink()
            (train / "events.out.tfevents.1").symlink_to(runs.parent / "events.out.tfevents.1")
        else:
            train.rename(train.with_name("moved"))
            train.symlink_to(runs.parent)
        return parts

    monkeypatch.setattr(artifact_files, "parts_of", parts_then_swap)
    with pytest.raises(ArtifactNotFound):
        opened(runs, JOB, "tensorboard/train/events.out.tfevents.1")


def test_every_change_of_a_file_changes_its_tag(runs: Path) -> None:
    path = runs / JOB / "artifacts/model.keras"
    tags = {listed(runs, JOB)[0].etag}
    times = path.stat()
    path.with_name("other").write_bytes(b"NETWORK")
    os.replace(path.with_name("other"), path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # the same length and time, but another file
    tags.add(listed(runs, JOB)[0].etag)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns + 1))
    tags.add(listed(runs, JOB)[0].etag)
    path.write_bytes(b"networks")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    tags.add(listed(runs, JOB)[0].etag)
    assert len(tags) == 4


def test_a_job_without_a_folder_differs_from_one_without_files(runs: Path) -> None:
    (runs / "bare/artifacts").mkdir(parents=True)
    assert listed(runs, "bare") == []
    for folder in (runs, runs.parent / "nowhere"):
        with pytest.raises(ArtifactsUnseen):
            listed(folder, "absent")


def test_names_in_any_script_are_valid_and_the_length_of_a_path_is_limited() -> None:
    assert parts_of("größe/模型.keras") == ["größe", "模型.keras"]
    assert parts_of("%2e%2e") == ["%2e%2e"]  # a name like any other, and not decoded once more
    assert len(parts_of("/".join("a" * 20))) == 20
    assert parts_of("/".join(["a" * 249] * 4))
    for path in ("/".join("a" * 21), "/".join(["a" * 250] * 4)):
        with pytest.raises(ArtifactNotFound):
            parts_of(path)
