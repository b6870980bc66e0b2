"""The disk cache of raw files: each file is fetched once for all jobs of a host, within a limit."""

import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem

from tests.archives import write_files
from trainer.data.cache import DiskCache


class Counting(LocalFileSystem):  # type: ignore[misc]
    """Local files; `fetched` names each file that was fetched."""

    protocol = "counting"
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []

    def get_file(self, path: str, target: str, **kwargs: Any) -> None:
        self.fetched.append(Path(path).name)
        super().get_file(path, target, **kwargs)


@pytest.fixture
def files() -> Counting:
    """A filesystem that counts."""
    return Counting()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Twenty files of 100 bytes."""
    return write_files(tmp_path / "source", {f"{number}": bytes([number]) * 100 for number in range(20)})


def disk_cache(tmp_path: Path, limit_bytes: int = 10_000) -> DiskCache:
    return DiskCache(tmp_path / "cache", limit_bytes)


def copies(tmp_path: Path) -> list[Path]:
    """The files that the cache keeps."""
    return [path for path in (tmp_path / "cache").iterdir() if path.name not in {"lock", "used"}]


def age(path: Path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds,) * 2)


def test_a_file_is_fetched_once_by_all_jobs(tmp_path: Path, source: Path, files: Counting) -> None:
    first = disk_cache(tmp_path)
    assert [first.read(files, str(source / "7")) for _ in range(3)] == [b"\7" * 100] * 3
    assert disk_cache(tmp_path).read(files, str(source / "7")) == b"\7" * 100
    assert files.fetched == ["7"]
    assert len(copies(tmp_path)) == 1


def test_open_file_can_seek_and_stays_readable_after_eviction(tmp_path: Path, source: Path, files: Counting) -> None:
    with disk_cache(tmp_path).open(files, str(source / "7")) as file:
        (copy,) = copies(tmp_path)
        copy.unlink()
        file.seek(95)
        assert file.read() == b"\7" * 5


def test_a_source_that_changed_or_a_copy_that_is_cut_off_is_fetched_again(
    tmp_path: Path, source: Path, files: Counting
) -> None:
    path = source / "7"
    disk_cache(tmp_path).read(files, str(path))
    (copy,) = copies(tmp_path)
    copy.write_bytes(b"half")
    assert disk_cache(tmp_path).read(files, str(path)) == b"\7" * 100
    assert copy.stat().st_size == 100
    path.write_bytes(b"y" * 100)
    age(path, 10)
    assert disk_cache(tmp_path).read(files, str(path)) == b"y" * 100


def test_full_cache_keeps_files_in_use_and_reads_others_from_their_source(
    tmp_path: Path, source: Path, files: Counting, capsys: pytest.CaptureFixture[str]
) -> None:
    cache_on_disk = disk_cache(tmp_path, 550)
    for _ in range(3):
        for number in range(20):
            assert cache_on_disk.read(files, str(source / f"{number}")) == bytes([number]) * 100
    assert files.fetched == ["0", "1", "2", "3", "4"]
    assert len(copies(tmp_path)) == 5
    assert capsys.readouterr().out.count("disk cache: its limit is reached") == 1


def test_full_cache_evicts_the_least_recently_used_idle_file(tmp_path: Path, source: Path, files: Counting) -> None:
    for number in range(5):
        disk_cache(tmp_path, 500).read(files, str(source / f"{number}"))
    by_content = {path.read_bytes()[0]: path for path in copies(tmp_path)}
    for number, seconds in {0: 2 * 3600, 1: 3 * 3600, 2: 4 * 3600, 3: 1800, 4: 0}.items():
        age(by_content[number], seconds)
    disk_cache(tmp_path, 500).read(files, str(source / "2"))  # a use
    disk_cache(tmp_path, 500).read(files, str(source / "10"))
    assert {path.read_bytes()[0] for path in copies(tmp_path)} == {0, 2, 3, 4, 10}


def test_a_file_that_is_too_large_or_of_unknown_size_is_not_kept(tmp_path: Path, source: Path, files: Counting) -> None:
    class Sizeless(Counting):
        def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
            return {"name": path, "size": None, "type": "file"}

    assert disk_cache(tmp_path, 99).read(files, str(source / "7")) == b"\7" * 100
    for filesystem in (files, Sizeless()):
        with pytest.raises(FileNotFoundError):
            disk_cache(tmp_path).read(filesystem, str(source / "none"))
    assert copies(tmp_path) == []


def test_a_partial_file_of_a_killed_rank_is_removed(tmp_path: Path, source: Path, files: Counting) -> None:
    cache_on_disk = disk_cache(tmp_path, 250)
    partial_file = tmp_path / "cache" / ("0" * 64 + "-150.part")
    partial_file.write_bytes(b"half")
    (tmp_path / "cache" / "used").write_text("150")
    for number in (1, 2):
        cache_on_disk.read(files, str(source / f"{number}"))
    assert files.fetched == ["1", "2"]
    assert not partial_file.exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_files_are_read_from_their_source_when_the_disk_is_full(
    tmp_path: Path, source: Path, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    class Full(Counting):
        def get_file(self, path: str, target: str, **kwargs: Any) -> None:
            Path(target).write_bytes(b"half")
            raise OSError(number, "no room")

    cache_on_disk, files = disk_cache(tmp_path), Full()
    assert [cache_on_disk.read(files, str(source / f"{file}")) for file in (1, 2)] == [b"\1" * 100, b"\2" * 100]
    assert copies(tmp_path) == []
    assert int((tmp_path / "cache" / "used").read_text()) == 0
    assert capsys.readouterr().out.count("disk cache: the disk is full") == 1


def test_an_unknown_count_stays_unknown_when_a_file_is_withdrawn(tmp_path: Path, source: Path, files: Counting) -> None:
    class Broken(Counting):
        def get_file(self, path: str, target: str, **kwargs: Any) -> None:
            (tmp_path / "cache" / "used").write_bytes(b"")  # as a process leaves it whose disk is full
            raise ConnectionError

    cache_on_disk = disk_cache(tmp_path, limit_bytes=250)
    for number in (1, 2):
        cache_on_disk.read(files, str(source / f"{number}"))
    (source / "small").write_bytes(b"x" * 50)
    with pytest.raises(ConnectionError):
        cache_on_disk.read(Broken(), str(source / "small"))
    assert disk_cache(tmp_path, limit_bytes=250).read(files, str(source / "3")) == b"\3" * 100
    assert sum(path.stat().st_size for path in copies(tmp_path)) == 200
