"""What a rank writes, on a real disk that is full: it waits, is skipped or is lost, and the rank goes on."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from fsspec.implementations.local import LocalFileSystem

import trainer.recorder
from jobs.model.records import CheckpointSaved, CheckpointSkipped, PhaseEnded, RankNote
from tests.full_disks import fill_up, make_read_only, small_disk, use_up_files
from tests.unit.trainer.made_up import ListRecorder
from tests.waiting import until
from trainer import callbacks, errors, space
from trainer.callbacks import Checkpointing
from trainer.checkpoint import Checkpoint, CheckpointStore
from trainer.data.cache import DiskCache
from trainer.data.images.decoded import DecodedPart
from trainer.data.indexed import ArrayReader, IndexedPart
from trainer.data.interfaces import Target
from trainer.errors import NoSpace, why_no_space
from trainer.log_stream import log_stream
from trainer.note import Note
from trainer.recorder import Recorder
from trainer.space import wait_for_space
from trainer.state import Progress, State


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk."""
    with small_disk(tmp_path / "disk", size_bytes=2**20, files=100) as disk:
        yield disk


@pytest.fixture
def note(disk: Path) -> Callable[[], RankNote]:
    """Reads the rank's note."""
    path = disk / "rank-0.note"
    path.write_bytes(b" " * 1024)

    def read() -> RankNote:
        said = RankNote.parse(path.read_bytes())
        assert said is not None
        return said

    return read


def record(number: int) -> PhaseEnded:
    return PhaseEnded(at=number, name="data", duration_s=0.5)


def numbers(path: Path) -> list[float]:
    return [PhaseEnded.model_validate_json(line).at for line in path.read_text().splitlines()]


def recorder_on(disk: Path) -> Recorder:
    return Recorder(disk / "rank-0.jsonl", Note(disk / "rank-0.note"))


def test_records_wait_for_space_and_no_line_is_torn(disk: Path, note: Callable[[], RankNote]) -> None:
    recorder = recorder_on(disk)
    recorder.write(record(1))
    fill = fill_up(disk)
    for number in range(2, 200):
        recorder.write(record(number))
    assert recorder.is_behind
    written = (disk / "rank-0.jsonl").read_bytes()
    assert not written.endswith(b"\n")  # the disk was full in the middle of a line
    said = note()
    assert (said.records, said.dropped, said.why) == (199, 0, "No space left on device")
    assert said.held_back_bytes > 0
    fill.unlink()
    recorder.write(record(200))
    assert numbers(disk / "rank-0.jsonl") == list(range(1, 201))
    assert not recorder.is_behind
    said = note()
    assert (said.why, said.held_back_bytes) == (None, 0)


def test_records_of_steps_are_dropped_before_others_when_memory_is_full(
    disk: Path, note: Callable[[], RankNote], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(trainer.recorder, "MOST_STEPS_BYTES", 10_000)
    monkeypatch.setattr(trainer.recorder, "MOST_BYTES", 11_000)
    recorder = recorder_on(disk)
    fill = fill_up(disk)
    for number in range(1000):
        recorder.buffer(record(number))
    recorder.write(record(2000))
    for number in range(3000, 4000):
        recorder.write(record(number))
    fill.unlink()
    recorder.flush()
    kept = numbers(disk / "rank-0.jsonl")
    assert kept == sorted(kept)
    assert 2000.0 in kept
    assert 999.0 not in kept
    assert 3999.0 not in kept
    assert f"; {2001 - len(kept)} records were dropped" in capsys.readouterr().out


def test_a_rank_that_starts_on_a_full_disk_says_why_it_ends(disk: Path, note: Callable[[], RankNote]) -> None:
    fill_up(disk)
    use_up_files(disk)
    recorder = recorder_on(disk)
    recorder.write(record(1))
    recorder.close('{"kind": "exit", "at": 1.0, "reason": "no_space", "message": "full"}')
    said = note()
    assert said.exit is not None
    assert (said.exit.reason, said.exit.message) == ("no_space", "full")
    assert not (disk / "rank-0.jsonl").exists()


def test_a_rank_waits_for_its_last_records(disk: Path, note: Callable[[], RankNote]) -> None:
    recorder = recorder_on(disk)
    fill = fill_up(disk)
    for number in range(200):
        recorder.write(record(number))
    with pytest.raises(NoSpace, match=r"there was no space for 0.01 s: .*No space left on device"):
        recorder.settle(within_s=0.01)
    said = note()
    assert said.why is not None
    fill.unlink()
    recorder.settle(within_s=0)
    assert numbers(disk / "rank-0.jsonl") == list(range(200))


def test_a_log_on_a_full_disk_loses_lines_and_says_how_much(disk: Path) -> None:
    path = disk / "rank-0.log"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    log = log_stream(file)
    print("before", file=log)
    fill = fill_up(disk)
    for _ in range(100):
        print("x" * 99, file=log)
    fill.unlink()
    print("after", file=log)
    os.close(file)
    first, *_, lost, last = path.read_text().splitlines()
    assert (first, last) == ("before", "after")
    kept = path.read_text().count("x")
    assert int(lost.strip("[").partition(" ")[0]) >= 99 * 100 - kept > 0


def checkpoint(step: int, size: int = 30_000) -> Checkpoint:
    state = State(ranks=1, global_batch=1, progress=Progress(step=step))
    return Checkpoint(state, {"model": [np.full(size, step, np.float64)]})


def steps_in(store: CheckpointStore, folder: Path) -> list[int]:
    return sorted(int(path.stem.rpartition("-")[2]) for path in folder.glob("attempt-1/*"))


def test_a_checkpoint_without_space_leaves_the_last_one_whole(disk: Path) -> None:
    store = CheckpointStore(disk, attempt=1, keep=2, limit_bytes=1)  # the newest one stays also beyond the limit
    store.save(checkpoint(1))
    fill_up(disk, but_bytes=100_000)
    with pytest.raises(NoSpace, match="the checkpoint cannot be written: No space left on device"):
        store.save(checkpoint(2))
    assert steps_in(store, disk) == [1]
    resumed = CheckpointStore(disk, attempt=1, keep=2).begin({"model": [(30_000,)]})
    assert resumed is not None
    assert resumed.state.progress.step == 1


def test_the_oldest_of_several_checkpoints_makes_room(disk: Path) -> None:
    store = CheckpointStore(disk, attempt=1, keep=2)
    store.save(checkpoint(1))
    store.save(checkpoint(2))
    fill_up(disk, but_bytes=100_000)
    store.save(checkpoint(3))
    assert steps_in(store, disk) == [2, 3]
    with pytest.raises(NoSpace, match="takes 900000 bytes, and the disk has fewer"):
        store.require_space(900_000)
    assert steps_in(store, disk) == [3]


def test_a_skipped_checkpoint_is_recorded_once_and_tried_again(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callbacks, "TRY_AGAIN_S", 0.01)
    store, records, progress = CheckpointStore(disk, attempt=1, keep=1), ListRecorder(), Progress(step=10)
    saving = Checkpointing(lambda: store.save(checkpoint(progress.step)), records, progress, every_epochs=1)
    fill = fill_up(disk)
    saving.save()
    until(lambda: saving.is_overdue)
    progress.step = 11
    saving.save()
    until(lambda: saving.is_overdue)
    fill.unlink()
    progress.step = 12
    saving.save()
    assert not saving.is_overdue
    skipped, saved = records.records
    assert isinstance(skipped, CheckpointSkipped)
    assert (skipped.step, skipped.why) == (10, "the checkpoint cannot be written: No space left on device")
    assert isinstance(saved, CheckpointSaved)
    assert saved.step == 12


def test_a_rank_that_is_asked_to_leave_waits_a_little_for_its_checkpoint(
    disk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(space, "_LOOK_S", 0.01)
    store, progress = CheckpointStore(disk, attempt=1, keep=1), Progress(step=10)
    saving = Checkpointing(lambda: store.save(checkpoint(progress.step)), ListRecorder(), progress, every_epochs=1)
    fill = fill_up(disk)
    saving.save_before_leaving(0.0, lambda _: None)
    assert "nothing is saved of this attempt after its last checkpoint" in capsys.readouterr().out
    waits: list[float] = []

    def waited(seconds: float) -> None:
        waits.append(seconds)
        fill.unlink(missing_ok=True)

    saving.save_before_leaving(60.0, waited)
    assert len(waits) == 1
    assert steps_in(store, disk) == [10]


def test_an_action_runs_again_only_when_its_disk_has_more_space(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "_LOOK_S", 0.001)
    fill, tries, waits = fill_up(disk), [0], [0]

    def write() -> None:
        tries[0] += 1
        (disk / "file").write_bytes(b"x" * 5000)

    def waited(_: float) -> None:
        waits[0] += 1
        if waits[0] == 5:
            fill.unlink()

    wait_for_space(write, waited, within_s=60, folder=disk)
    assert (tries, waits) == ([2], [5])
    with pytest.raises(FileNotFoundError):  # other errors do not wait
        wait_for_space((disk / "none" / "file").touch, waited, within_s=60, folder=disk)


def test_an_action_runs_again_after_another_process_took_space_and_returned_a_part_of_it(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(space, "_LOOK_S", 0.001)
    fills: list[Path] = []

    def write() -> None:
        if not fills:
            fills.append(fill_up(disk))
        (disk / "file").write_bytes(b"x" * 5000)

    def waited(_: float) -> None:
        os.truncate(fills[0], 2**19)

    wait_for_space(write, waited, within_s=10, folder=disk)
    assert (disk / "file").stat().st_size == 5000


def test_the_disk_cache_is_read_on_a_disk_that_was_made_read_only(disk: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"data" * 1000)
    assert DiskCache(disk / "cache", 10**6).read(LocalFileSystem(), str(source)) == b"data" * 1000
    (copy,) = [path for path in (disk / "cache").iterdir() if path.name not in {"lock", "used"}]
    os.utime(copy, (0, 0))
    make_read_only(disk)
    assert DiskCache(disk / "cache", 10**6).read(LocalFileSystem(), str(source)) == b"data" * 1000


def test_a_checkpoint_that_cannot_be_taken_over_leaves_nothing(disk: Path) -> None:
    CheckpointStore(disk, attempt=1, keep=1).save(checkpoint(1))
    names = use_up_files(disk)
    next(names.iterdir()).unlink()  # enough for a folder, and for nothing in it
    with pytest.raises(OSError, match="No space left on device"):
        CheckpointStore(disk, attempt=2, keep=1).begin({"model": [(30_000,)]})
    assert sorted(path.name for path in disk.iterdir()) == [".files", "attempt-1"]


def test_tensorflow_and_hdf5_report_a_full_disk_in_their_own_ways(disk: Path) -> None:
    import h5py
    import tensorflow as tf

    fill_up(disk)
    with pytest.raises(tf.errors.OpError) as of_tensorflow:
        tf.io.write_file(str(disk / "t"), b"x" * 10_000)
    assert errors.exit_of_error(of_tensorflow.value, stop_asked=False)[0] == "no_space"

    def write_hdf5() -> None:
        with h5py.File(disk / "h", "w") as file:
            file["x"] = np.ones(10_000)

    with pytest.raises((OSError, RuntimeError)) as of_hdf5:
        write_hdf5()
    assert why_no_space(of_hdf5.value) == os.strerror(errno.ENOSPC)


def test_decoded_samples_wait_for_space(disk: Path) -> None:
    features, labels = np.zeros((20, 64, 64), np.float32), np.zeros(20, np.int32)
    part = IndexedPart(ArrayReader(features), labels, np.arange(20))
    cached = DecodedPart(part, 20, Target((64, 64), ("0", "1")), np.dtype(np.float32), disk / "decoded")
    fill = fill_up(disk)
    with pytest.raises(NoSpace, match="the decoded samples cannot be written: No space left on device"):
        cached.fill(local_rank=0, local_ranks=1)
    fill.unlink()
    cached.fill(local_rank=0, local_ranks=1)
    assert (disk / "decoded").stat().st_size == cached.size_bytes
