"""The files by which a supervisor keeps and stops its ranks, and the notes of ranks: they work on a full disk."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from jobs.model.records import NOTE_BYTES, RankExited, RankNote
from jobs.model.states import EndReason
from tests.full_disks import fill_up, small_disk, use_up_files
from trainer.note import Note
from trainer.stopping import LeaseFile
from worker.attempt import lease_file, notes, stop_file
from worker.attempt.paths import AttemptPaths


@pytest.fixture(params=[fill_up, use_up_files])
def paths(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AttemptPaths]:
    """The files of an attempt of two ranks, on a disk that is full since."""
    with small_disk(tmp_path / "disk", size_bytes=2**20, files=100) as disk:
        paths = AttemptPaths(disk / "job", 1)
        paths.create(range(2))
        lease_file.extend(paths.lease_file, 10.0)
        use_up: Callable[[Path], Path] = request.param
        use_up(disk)
        with pytest.raises(OSError, match="No space left"):
            (disk / "new").write_bytes(b"\0" * 4096)
        yield paths


def test_a_lease_is_extended_ranks_are_stopped_and_leave_their_exit_record(paths: AttemptPaths) -> None:
    lease = LeaseFile(paths.lease_file)
    assert lease.is_over()
    lease_file.extend(paths.lease_file, 1e9)
    assert lease_file.read_until(paths.lease_file) == 1e9
    assert not lease.is_over()

    assert not paths.stop_file.exists()
    stop_file.make(paths.stop_file)
    stop_file.make(paths.stop_file)
    assert paths.stop_file.exists()
    finish_file = paths.stop_file.with_name("stop-finish")
    assert not finish_file.exists()
    stop_file.make(paths.stop_file, finish=True)
    assert finish_file.exists()

    Note(paths.records / "rank-1.note").write(
        records=7, why="No space left on device", exit={"kind": "exit", "at": 1.0, "reason": "no_space", "message": "x"}
    )
    rank_notes = notes.read_notes(paths.records, range(2))
    exited = RankExited(at=1.0, reason=EndReason.NO_SPACE, message="x")
    assert rank_notes == {1: RankNote(records=7, why="No space left on device", exit=exited)}
    assert notes.exits_in(rank_notes) == {1: exited}
    assert (paths.records / "rank-1.note").stat().st_size == NOTE_BYTES


def test_a_long_message_is_cut_to_the_size_of_a_note(tmp_path: Path) -> None:
    note = Note(tmp_path / "rank-0.note")
    note.write(why="x" * 5000, exit={"kind": "exit", "at": 1.0, "reason": "internal_error", "message": "\u20ac" * 5000})
    read = notes.read_note(tmp_path, 0)
    assert read is not None
    assert read.exit is not None
    assert read.exit.reason is EndReason.INTERNAL_ERROR
    assert (read.exit.message or "").startswith("\u20ac\u20ac")


def test_a_reader_never_takes_half_of_a_new_lease_for_a_lease(tmp_path: Path) -> None:
    path, done = tmp_path / "lease", Event()
    times = [199999.999999, 200000.0]
    lease_file.extend(path, times[0])

    def write() -> None:
        number = 0
        while not done.is_set():
            number += 1
            lease_file.extend(path, times[number % 2])

    writer = Thread(target=write)
    writer.start()
    try:
        seen = {lease_file.read_until(path) for _ in range(5_000)}
    finally:
        done.set()
        writer.join()
    assert seen - {None} <= set(times)


@pytest.mark.parametrize("text", [b"000000000099.000000 00000000\n", b"", b"tomorrow"])
def test_a_damaged_lease_extends_nothing(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "lease"
    path.write_bytes(text)
    assert lease_file.read_until(path) is None
    assert LeaseFile(path).is_over()


def test_the_lease_of_an_older_version_is_read(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    path.write_text(repr(1e9 + 0.25))
    assert lease_file.read_until(path) == 1e9 + 0.25
    assert not LeaseFile(path).is_over()
    lease_file.extend(path, 5.0)
    assert lease_file.read_until(path) == 5.0
    assert os.listdir(tmp_path) == ["lease"]
