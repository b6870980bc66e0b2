"""Folders that are handed to the user of scripts: real owners and modes, so it needs root."""

import os
import pwd
import stat
from pathlib import Path

import pytest

from jobs.runtime.script_user import give

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
