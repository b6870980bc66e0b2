"""A supervisor's side and a member's side of one attempt, as real processes; a shell stands for ssh."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import psutil
import pytest

from jobs.model.records import NOTE_BYTES, RankNote
from jobs.model.spec import spec_from
from jobs.runtime.processes import command_line
from jobs.runtime.settings import Settings
from tests.full_disks import fill_up, make_read_only, small_disk, use_up_files
from tests.waiting import slowdown, until
from trainer.note import Note
from worker.attempt import lease_file
from worker.attempt.layout import HostShare, Layout
from worker.attempt.member_connection import MemberFailed
from worker.attempt.members import Members, MembersLaunch
from worker.attempt.paths import AttemptPaths, paths_of
from worker.attempt.processes import pids_with_mark
from worker.attempt.shares import member_task, members_launch
from worker.attempt.supervisor_task import launch_of
from worker.attempt.unsent_lines import take_unsent_lines

Start = Callable[..., Members]

LAYOUT = Layout([HostShare("lead", "10.0.0.1", [0], [], 1), HostShare("other", "10.0.0.2", [1], [], 1)], "eth0")
HERE = ["bash", "-c", 'eval "exec setsid $1"']  # takes an address and a command, as ssh does, for a session of its own


@pytest.fixture
def paths(tmp_path: Path) -> AttemptPaths:
    """The paths of the attempt's files. Both hosts share their storage."""
    paths = paths_of(tmp_path, "j", 1)
    paths.create()
    return paths


@pytest.fixture
def start(paths: AttemptPaths, mark: str, started: list[Members]) -> Start:
    """Starts the members of the attempt."""

    def start(
        *, lease_s: float = 30.0, ssh: list[str] = HERE, ready_within_s: float = 120.0, layout: Layout = LAYOUT
    ) -> Members:
        lease_file.extend(paths.lease_file, time.monotonic() + lease_s)
        launch = launch_of("j", spec_from({"dataset": "digits"}), paths, Settings(), layout)
        member = member_task(launch, layout.shares[1], paths, mark=mark)
        launch = members_launch([member], layout, paths, ssh=ssh, environment=os.environ, ready_within_s=ready_within_s)
        started.append(Members.start(MembersLaunch(**asdict(launch))))
        return started[-1]

    return start


@pytest.fixture
def rank(mark: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A process of the attempt, which stands for a rank on the other host and ignores SIGTERM."""
    script = 'trap "" TERM; while :; do sleep 1; done'
    process = subprocess.Popen(["bash", "-c", script], env={**os.environ, "HORA_ATTEMPT": mark})
    until(lambda: process.pid in pids_with_mark(mark), what="the rank")
    yield process
    process.kill()
    process.wait()


def member_pid(members: Members) -> int:
    """The process at the other end of the one connection."""
    (shell,) = members.pids()
    below = [shell, *(child.pid for child in psutil.Process(shell).children())]
    return next(pid for pid in below if command_line(pid)[1:3] == [b"-m", b"worker.member"])


def test_the_lines_and_notes_of_the_other_host_arrive_as_they_were_written(start: Start, paths: AttemptPaths) -> None:
    there = paths.of_member("other")
    members = start()
    assert members.hosts == ["other"]
    note = there.records / "rank-1.note"
    assert note.stat().st_size == NOTE_BYTES  # made before a rank starts
    Note(note).write(records=3, why="No space left on device")
    said = until(lambda: members.notes().get(1), what="the note")
    assert RankNote.parse(said) == RankNote(records=3, why="No space left on device")
    log_bytes = bytes(range(256)) * 1000 + b"unfinished"
    with (there.logs / "rank-1.log").open("ab") as log, (there.records / "rank-1.jsonl").open("ab") as records:
        for at in range(0, len(log_bytes), 50_000):
            log.write(log_bytes[at : at + 50_000])
            log.flush()
        records.write(b'{"kind": "x"}\n')
    until(lambda: members.clean_hosts() == ["other"], what="the last line")
    assert (paths.logs / "rank-1.log").read_bytes() == log_bytes
    assert (paths.records / "rank-1.jsonl").read_bytes() == b'{"kind": "x"}\n'


def test_ranks_of_a_member_are_asked_terminated_and_killed_and_no_new_rank_starts(
    start: Start, paths: AttemptPaths, rank: "subprocess.Popen[bytes]"
) -> None:
    members, there = start(), paths.of_member("other")
    launch_file = paths.launch_dir / "10.0.0.2.json"
    assert launch_file.exists()
    members.ask_to_stop()
    until(there.stop_file.exists, what="the stop file")
    until(lambda: not members.are_gone() and not launch_file.exists(), what="a look")
    members.signal(signal.SIGTERM)
    assert not members.are_gone()
    assert members.clean_hosts() == []
    members.signal(signal.SIGKILL)
    until(members.are_gone, what="the end")
    assert rank.wait(120) == -signal.SIGKILL
    assert members.clean_hosts() == ["other"]


def test_a_late_lease_extension_counts_from_the_last_message_of_the_member(start: Start, paths: AttemptPaths) -> None:
    members, there = start(lease_s=30.0), paths.of_member("other")
    first = lease_file.read_until(there.lease_file)
    assert 0 < (first or 0) <= time.monotonic() + 30
    pid = member_pid(members)
    os.kill(pid, signal.SIGSTOP)
    sent_at = time.monotonic()
    until(lambda: time.monotonic() > sent_at + 1.5)
    members.extend(40.0)
    until(lambda: time.monotonic() > sent_at + 2.5)
    os.kill(pid, signal.SIGCONT)
    until(lambda: lease_file.read_until(there.lease_file) != first, what="an extension")
    extended = lease_file.read_until(there.lease_file) or 0
    assert 0 < extended <= sent_at + 40, "what was late extended something"


def test_a_member_without_extensions_ends_its_ranks(start: Start, rank: "subprocess.Popen[bytes]", mark: str) -> None:
    members = start()
    begun = time.monotonic()  # leave out the start, which takes long on a busy machine
    members.extend(3.0)
    assert rank.wait(120) == -signal.SIGKILL
    assert time.monotonic() - begun <= 3 + 0.5 * slowdown()
    until(lambda: members.why_lost() is not None, what="a host that is lost")
    assert "other: the connection broke: leaving: the lease of its ranks was not extended" in str(members.why_lost())
    assert members.are_gone()
    assert members.clean_hosts() == []


def test_a_member_that_dies_or_is_silent_for_as_long_as_its_lease_is_lost(start: Start) -> None:
    members = start()
    assert members.why_lost() is None
    os.kill(member_pid(members), signal.SIGKILL)
    assert (until(members.why_lost, what="the death") or "").startswith("host other: the connection broke")
    members = start()
    pid = member_pid(members)
    members.extend(2.0)
    os.kill(pid, signal.SIGSTOP)
    assert members.why_lost() is None
    assert until(members.why_lost, what="a host that is lost") == "host other: silent for 4 s"
    os.kill(pid, signal.SIGCONT)


def test_an_unreachable_host_is_named_with_the_error_of_ssh(start: Start) -> None:
    with pytest.raises(MemberFailed, match="host other: the connection broke: No route to host"):
        start(ssh=["bash", "-c", "echo warming up >&2; echo No route to host >&2; exit 255"])
    with pytest.raises(MemberFailed, match=r"host other: not ready after 0\.5 s"):
        start(ssh=["bash", "-c", "echo Welcome; sleep 30"], ready_within_s=0.5)


def test_a_member_whose_gpu_another_process_uses_says_so_and_lets_no_rank_start(
    start: Start, drivers: dict[str, Path], paths: AttemptPaths
) -> None:
    share = HostShare("other", "10.0.0.2", [1], ["GPU-00", "GPU-01"], 0)
    stub = ["bash", "-c", f"export LD_LIBRARY_PATH={drivers['new']} NVML_STUB=wp; {HERE[2]}"]
    why = "host other: .* a process that is not of this job computes on GPU GPU-01 of host other"
    with pytest.raises(MemberFailed, match=why):
        start(ssh=stub, layout=Layout([LAYOUT.shares[0], share], "eth0"))
    assert not (paths.launch_dir / "10.0.0.2.json").exists()


def test_lines_of_the_other_host_wait_for_space_on_the_lead(start: Start, paths: AttemptPaths) -> None:
    line = b'{"kind": "exit", "at": 1.0, "reason": "completed"}\n'
    with small_disk(paths.records, size_bytes=2**16) as disk:
        fill = fill_up(disk)
        members = start()
        (paths.of_member("other").records / "rank-1.jsonl").write_bytes(line)
        until(lambda: members.clean_hosts() == ["other"], what="the last line")
        assert members.why_lost() is None
        assert members.unstored_records() == {1: line}
        fill.unlink()
        until(lambda: not members.unstored_records(), what="the line in its file")
        assert (disk / "rank-1.jsonl").read_bytes() == line


def test_a_host_without_space_says_so(start: Start, paths: AttemptPaths) -> None:
    with small_disk(paths.of_member("other").host_dir, size_bytes=2**16) as disk:
        fill_up(disk)
        use_up_files(disk)
        with pytest.raises(MemberFailed, match=r"host other: the connection broke: leaving: .*No space left on device"):
            start()


@pytest.mark.parametrize("is_asked", [True, False])
def test_the_ranks_of_a_host_whose_disk_was_made_read_only_are_ended_when_asked_or_when_the_member_leaves(
    start: Start, paths: AttemptPaths, rank: "subprocess.Popen[bytes]", is_asked: bool
) -> None:
    with small_disk(paths.launch_dir, size_bytes=2**16) as disk:
        members = start()
        make_read_only(disk)
        if is_asked:
            assert not members.are_gone()
            members.signal(signal.SIGKILL)
            until(members.are_gone, what="the end")
            assert members.why_lost() is None
        else:
            members.close()  # as the supervisor does when it dies
            assert members.pids() == []
        assert rank.wait(10 * slowdown()) == -signal.SIGKILL  # later its lease would end it


def test_what_ranks_wrote_on_shared_storage_and_the_lead_did_not_get_is_taken_once(paths: AttemptPaths) -> None:
    there = paths.of_member("n2")
    for folder in (there.records, there.logs):
        folder.mkdir(parents=True)
    (there.records / "rank-1.jsonl").write_bytes(b'{"a": 1}\n{"b": 2}\n')
    (there.logs / "rank-1.log").write_bytes(b"all of it\n")
    (there.records / "rank-1.note").write_bytes(b"no lines")
    (paths.records / "rank-1.jsonl").write_bytes(b'{"a": 1}\n{"b')
    (paths.records / "rank-0.jsonl").write_bytes(b"{}\n")
    for _ in range(2):
        take_unsent_lines(paths)
        assert (paths.records / "rank-1.jsonl").read_bytes() == b'{"a": 1}\n{"b": 2}\n'
        assert (paths.logs / "rank-1.log").read_bytes() == b"all of it\n"
        assert (paths.records / "rank-0.jsonl").read_bytes() == b"{}\n"
        assert not (paths.records / "rank-1.note").exists()
