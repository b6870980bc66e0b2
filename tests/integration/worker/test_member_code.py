"""The archive of a script on its way to a member on another host, as real processes; a shell stands for ssh."""

import hashlib
import os
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from jobs.data.script_data import ScriptData
from jobs.model.spec import spec_from
from jobs.runtime.settings import Settings
from tests.integration.jobs.code_rows import packed
from tests.integration.worker.test_members import HERE, LAYOUT, Start
from tests.waiting import until
from worker.attempt import lease_file
from worker.attempt.member_connection import MemberFailed
from worker.attempt.members import Members, MembersLaunch
from worker.attempt.paths import AttemptPaths, paths_of
from worker.attempt.script_launch import CodeOfMember, script_launch
from worker.attempt.shares import member_task, members_launch
from worker.attempt.supervisor_task import launch_of

FILES = {"train.py": b"print('hi')\n", "data.bin": os.urandom(24_000_000)}  # larger than a pipe, and than its memory


@pytest.fixture
def paths(tmp_path: Path) -> AttemptPaths:
    paths = paths_of(tmp_path / "runs", "j", 1)
    paths.create()
    paths.code_archive.write_bytes(packed(FILES))
    return paths


@pytest.fixture
def start(paths: AttemptPaths, tmp_path: Path, mark: str, started: list[Members]) -> Start:
    """Starts the member of a script."""

    def start(*, digest: str | None = None, train: str | None = None, size: int | None = None) -> Members:
        content = paths.code_archive.read_bytes()
        digest = digest or hashlib.sha256(content).hexdigest()
        spec, settings = spec_from({"code": digest, "command": ["python", "train.py"]}), Settings(home=tmp_path)
        data = ScriptData(train, None, [])
        script = script_launch(spec, paths, settings, gpus=2, sizes=None, data=data, memory_bytes=5)
        launch = launch_of("j", spec, paths, settings, LAYOUT, script=script)
        code = CodeOfMember(size or len(content), 7)
        member = member_task(launch, LAYOUT.shares[1], paths, code, mark=mark)
        lease_file.extend(paths.lease_file, time.monotonic() + 60)
        members = members_launch([member], LAYOUT, paths, ssh=HERE, environment=os.environ, ready_within_s=20)
        started.append(Members.start(MembersLaunch(**asdict(members))))
        return started[-1]

    return start


def test_a_member_has_the_code_before_its_ranks_may_start(start: Start, paths: AttemptPaths) -> None:
    members, there = start(), paths.of_member("other")
    assert (paths.launch_dir / "10.0.0.2.json").exists()
    assert {name: (there.code / name).read_bytes() for name in FILES} == FILES
    assert (there.lib / "hora" / "__init__.py").is_file()
    assert not there.code_archive.exists()
    assert not paths.code_archive.exists(), "it was sent to all"
    assert members.why_lost() is None
    members.ask_to_stop()
    until(there.stop_file.exists, what="a command after the code")
    members.close()
    until(lambda: not there.code.exists(), what="the end of the member")


def test_a_damaged_archive_ends_the_launch_with_a_sentence(start: Start, paths: AttemptPaths) -> None:
    with pytest.raises(MemberFailed, match=r"host other: .*the archive of the code is damaged"):
        start(digest="c" * 64)
    assert not (paths.launch_dir / "10.0.0.2.json").exists(), "no rank may start"


def test_data_that_the_other_host_does_not_have_ends_the_launch(start: Start, tmp_path: Path) -> None:
    with pytest.raises(MemberFailed, match="there is no nothing, which the lead host has"):
        start(train=str(tmp_path / "nothing"))
