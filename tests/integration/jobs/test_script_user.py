"""Folders that are handed to the user of scripts: real owners and modes, so it needs root."""

import os
import pwd
import stat
import subprocess
from pathlib import Path

import pytest

from jobs.runtime.script_user import give, open_to_read, remove, take_back
from jobs.runtime.shared_memory import SHARED_MEMORY, remove_unused

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
NOBODY = pwd.getpwnam("nobody").pw_uid


def test_what_the_worker_made_is_handed_over_and_nothing_else(tmp_path: Path) -> None:
    secret, folder, own = tmp_path / "secret", tmp_path / "folder", tmp_path / "own"
    for path in (folder, own / "deep"):
        path.mkdir(parents=True)
    program, theirs = own / "deep" / "program", own / "theirs"
    program.touch(0o700)
    theirs.touch(0o600)
    os.chown(theirs, 1, 1)
    secret.touch(0o600)
    (folder / "inner").touch(0o600)
    (own / "link").symlink_to(secret)
    (own / "folder").symlink_to(folder)
    os.link(secret, own / "second-name")
    give([own], "nobody")
    assert (program.stat().st_uid, stat.S_IMODE(program.stat().st_mode)) == (NOBODY, 0o760)
    assert (own / "deep").stat().st_uid == NOBODY
    assert theirs.stat().st_uid == 1
    assert [path.stat().st_uid for path in (secret, folder, folder / "inner")] == [0, 0, 0]
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def modes(folder: Path) -> dict[str, tuple[int, str]]:
    """The owner and the mode of everything below a folder."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_uid, oct(stat.S_IMODE(path.lstat().st_mode)))
        for path in sorted(folder.rglob("*"))
    }


def test_what_a_script_left_is_owned_again_and_nothing_elsewhere_changes(tmp_path: Path) -> None:
    secret, left = tmp_path / "secret", tmp_path / "left"
    secret.touch(0o644)
    (left / "closed").mkdir(parents=True)
    (left / "closed" / "program").touch()
    os.link(secret, left / "second-name")
    (left / "link").symlink_to(secret)
    for path, mode in ((left, 0o2770), (left / "closed" / "program", 0o4711), (left / "closed", 0o2000)):
        os.chown(path, NOBODY, 0)
        path.chmod(mode)
    take_back([left, tmp_path / "none"], "nobody")
    assert modes(left) == {
        "closed": (0, "0o700"), "closed/program": (0, "0o700"), "link": (0, "0o777"), "second-name": (0, "0o644"),
    }  # fmt: skip
    assert stat.S_IMODE(left.stat().st_mode) == 0o700


def test_where_there_is_no_such_user_nothing_is_taken_back_or_removed(tmp_path: Path) -> None:
    (tmp_path / "theirs").touch()
    os.chown(tmp_path / "theirs", NOBODY, 0)
    (tmp_path / "theirs").chmod(0o640)
    take_back([tmp_path], "no-such-user")
    remove_unused("no-such-user")
    assert modes(tmp_path) == {"theirs": (NOBODY, "0o640")}


def test_files_in_memory_that_no_process_uses_are_removed() -> None:
    """Where scripts share /dev/shm, those that ended leave files there."""
    left, used = (Path(SHARED_MEMORY, f"hora-test-{os.getpid()}-{name}") for name in ("left", "used"))
    for path in (left, used):
        path.write_bytes(b"x")
        os.chown(path, NOBODY, 0)
    with used.open() as file, subprocess.Popen(["sleep", "60"], stdin=file, user=NOBODY, group=0) as script:
        remove_unused("nobody")
        assert (left.exists(), used.exists()) == (False, True)
        script.kill()
    remove_unused("nobody")
    assert not used.exists()


def test_a_script_that_moves_its_folders_meanwhile_turns_no_right_on_others(tmp_path: Path) -> None:
    """It swaps a folder and a link to another one, as fast as it can. Root changes modes all the while."""
    secret, theirs = tmp_path / "secret", tmp_path / "theirs"
    (secret / "inner").mkdir(parents=True)
    (secret / "inner" / "key").touch(0o604)
    secret.chmod(0o755)
    (secret / "inner").chmod(0o755)
    tmp_path.chmod(0o711)
    theirs.mkdir()
    os.chown(theirs, NOBODY, 0)
    swaps = f"""
import os
os.chdir("{theirs}")
os.makedirs("folder/inner")
open("folder/inner/key", "w")
os.symlink("{secret}", "link")
print(flush=True)
while True:
    for one, other in (("folder", "away"), ("link", "folder"), ("folder", "link"), ("away", "folder")):
        try:
            os.rename(one, other)
        except OSError:
            pass
"""
    before = modes(secret)
    for above in tmp_path.parents[:-1]:
        above.chmod(above.stat().st_mode | 0o011)
    with subprocess.Popen(["/usr/bin/python3", "-c", swaps], stdout=subprocess.PIPE, user=NOBODY, group=0) as script:
        assert script.stdout is not None
        script.stdout.readline()
        for _ in range(300):
            give([theirs], "nobody")
            open_to_read([str(theirs)], "nobody")
            take_back([theirs], "nobody")
            os.chown(theirs, NOBODY, 0)
        script.kill()
    assert modes(secret) == before
    remove([theirs], "nobody")
    assert (theirs.exists(), modes(secret)) == (False, before)
