"""Folders that are closed to other users, files that are opened only if they are regular, and the size of a folder."""

import os
import socket
import stat
from pathlib import Path

import pytest

from jobs.runtime.closed_home import close_home
from jobs.runtime.files import NotRegular, bytes_below, make_private, open_regular, path_of


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_folder_and_those_above_it_are_closed_whatever_the_umask_is(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        make_private(tmp_path / "a" / "b" / "c")
        make_private(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(umask)
    assert {mode_of(path) for path in (tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c")} == {0o700}


def test_a_file_in_the_place_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(FileExistsError):
        make_private(tmp_path / "a")
    with pytest.raises(NotADirectoryError):
        make_private(tmp_path / "a" / "b")


def test_the_home_of_an_older_release_is_closed_at_its_top_alone(tmp_path: Path) -> None:
    home, disk = tmp_path / "home", tmp_path / "disk"
    for folder in ("runs/job", "datasets", "logs", "run"):
        (home / folder).mkdir(parents=True)
    disk.mkdir()
    (home / "cache").symlink_to(disk)  # the operator's own place
    (home / "of_a_person").mkdir()
    (home / "url").touch()
    for path in (home, disk, *home.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755)
    close_home(home)
    closed = {path: mode_of(home / path) for path in (".", "runs", "datasets", "logs", "run", "url")}
    assert closed == {".": 0o700, "runs": 0o700, "datasets": 0o700, "logs": 0o700, "run": 0o700, "url": 0o700}
    assert {mode_of(path) for path in (disk, home / "of_a_person", home / "runs" / "job")} == {0o755}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_the_user_of_the_database_may_still_pass(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for folder, mode in ((home, 0o711), (home / "run", 0o710), (home / "runs", 0o755), (home / "postgres", 0o700)):
        folder.mkdir(mode=mode)
        folder.chmod(mode)
    os.chown(home / "postgres", 65534, 65534)
    close_home(home)
    assert [mode_of(path) for path in (home, home / "run", home / "runs")] == [0o711, 0o710, 0o700]


def test_a_home_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    close_home(tmp_path / "home")
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("kind", "said"),
    [("fifo", "a named pipe"), ("socket", "a socket"), ("folder", "a folder"), ("link to a fifo", "a named pipe")],
)
def test_what_is_no_regular_file_is_not_opened(tmp_path: Path, kind: str, said: str) -> None:
    path = tmp_path / "x"
    with socket.socket(socket.AF_UNIX) as listener:
        if kind == "socket":
            listener.bind(str(path))
        elif kind == "folder":
            path.mkdir()
        else:
            os.mkfifo(tmp_path / "fifo" if kind == "link to a fifo" else path)
            if kind == "link to a fifo":
                path.symlink_to("fifo")
        with pytest.raises(NotRegular, match=f"it is {said}, not a file"):
            open_regular(path)
    with pytest.raises(NotRegular, match="it is a device"):
        open_regular("/dev/zero")


def test_a_regular_file_is_read_also_through_a_link_and_by_the_path_of_its_descriptor(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"content")
    (tmp_path / "b").symlink_to("a")
    descriptor = open_regular(tmp_path / "b")
    (tmp_path / "a").unlink()
    os.mkfifo(tmp_path / "a")  # what was checked is what is read
    with open(path_of(descriptor), "rb") as again, open(descriptor, "rb") as file:
        assert (file.read(), again.read()) == (b"content", b"content")
    with pytest.raises(NotRegular, match="it is a link"):
        open_regular(tmp_path / "b", follow=False)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "c")


def test_a_file_with_several_names_counts_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(100))
    os.link(tmp_path / "a", tmp_path / "b")
    (tmp_path / "c").symlink_to(tmp_path / "missing")
    assert bytes_below(tmp_path) == 100 + len(str(tmp_path / "missing"))
    assert bytes_below(tmp_path / "nowhere") == 0
