"""Walks and opens below a folder in which somebody else changes names all the while."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobs.runtime.files import NotRegular
from jobs.runtime.open_folders import open_below, open_folder, walk


@pytest.fixture
def top(tmp_path: Path) -> Iterator[int]:
    """The open folder `theirs`, beside which lies what nobody may reach through it."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("secret")
    (tmp_path / "theirs" / "a" / "b").mkdir(parents=True)
    (tmp_path / "theirs" / "a" / "key").write_text("own")
    opened = open_folder(tmp_path / "theirs")
    yield opened
    os.close(opened)
    subprocess.run(["rm", "-rf", tmp_path / "theirs"], check=True)  # pytest removes no folders that are so deep


def swap(folder: Path, make: Callable[[Path], object]) -> None:
    """Put something else in the place of a folder."""
    folder.rename(folder.with_name("away"))
    make(folder)


def test_a_walk_of_any_depth_takes_few_descriptors(top: int, tmp_path: Path) -> None:
    depth, here = 3000, os.open(tmp_path / "theirs" / "a" / "b", os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    before = len(os.listdir("/proc/self/fd"))
    most, paths = 0, []
    for below in walk(top):
        most = max(most, len(os.listdir("/proc/self/fd")) - before)
        paths.append(below.path)
    assert len(paths) == 3 + depth
    assert most < depth / 10  # other threads of this process open some too
    assert paths[:4] == ["", "a/", "a/b/", "a/b/d/"]


@pytest.mark.parametrize("leave_out", [False, True])
@pytest.mark.parametrize(
    "make",
    [lambda path: path.symlink_to(path.parent.parent / "secret"), os.mkfifo, Path.touch],
    ids=["link", "pipe", "file"],
)
def test_a_folder_that_becomes_something_else_is_not_entered(
    make: Callable[[Path], object], leave_out: bool, top: int, tmp_path: Path
) -> None:
    walked = walk(top, leave_out=leave_out)
    assert next(walked).folders == ["a"]
    swap(tmp_path / "theirs" / "a", make)
    if leave_out:
        assert [below.path for below in walked] == []
    else:
        with pytest.raises(FileNotFoundError):
            list(walked)


def test_a_walk_ends_where_a_folder_was_moved_out_of_it(top: int, tmp_path: Path) -> None:
    walked = walk(top)
    assert [next(walked).path for _ in range(3)] == ["", "a/", "a/b/"]
    (tmp_path / "theirs" / "a" / "b").rename(tmp_path / "secret" / "b")
    with pytest.raises(OSError, match="moved"):
        next(walked)


def test_only_regular_files_below_are_opened(top: int, tmp_path: Path) -> None:
    descriptor = open_below(top, "a/key")
    assert os.read(descriptor, 10) == b"own"
    os.close(descriptor)
    theirs = tmp_path / "theirs"
    (theirs / "link").symlink_to(tmp_path / "secret")
    (theirs / "key").symlink_to(tmp_path / "secret" / "key")
    os.mkfifo(theirs / "pipe")
    for path in ("link/key", "key"):
        with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
            open_below(top, path)
    for path in ("pipe", "a"):
        with pytest.raises(NotRegular):
            open_below(top, path)


def test_what_was_opened_stays_even_if_a_link_takes_the_place_of_its_folder(
    top: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = os.open

    def open_then_swap(name: str, flags: int, *, dir_fd: int) -> int:
        descriptor = original(name, flags, dir_fd=dir_fd)
        if name == "a":
            swap(tmp_path / "theirs" / "a", lambda path: path.symlink_to(tmp_path / "secret"))
        return descriptor

    monkeypatch.setattr(os, "open", open_then_swap)
    descriptor = open_below(top, "a/key")
    assert os.read(descriptor, 10) == b"own"
    os.close(descriptor)
