"""What a host's copier brings to the store: whole checkpoints, the newest and the best, and artifacts."""

import errno
import os
import shutil
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from jobs.copies.manifests import Manifests
from jobs.copies.store import Store, StoreAway
from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, JobEvent
from jobs.lifecycle import deletion
from jobs.lifecycle.store import locked_job
from jobs.model.states import EndReason, EventKind
from jobs.runtime.settings import Settings
from tests.integration.jobs import job_rows
from tests.integration.jobs.writing import change
from tests.integration.worker.copies.runs import Run, a_script_run, copy_until, is_checkpoint, started
from tests.waiting import until
from worker.copies import artifact_copies, copying
from worker.copies import copier as copier_module
from worker.copies import rest as rest_module
from worker.copies import rows as copies_rows
from worker.copies.attempt_copies import AttemptCopies
from worker.copies.copier import Copier
from worker.copies.copying import JobHere
from worker.copies.rest import Rest
from worker.copies.rows import attempts_to_copy


def all_files(store: Store) -> list[str]:
    return [file.key for file in store.files("jobs")]


def test_a_checkpoint_is_copied_with_a_digest_and_an_event_once_its_records_are_stored(
    run: Run, copier: Copier, tmp_path: Path
) -> None:
    run.store.write(f"jobs/{run.job_id}/checkpoints/attempt-1/step-0000000005/checkpoint-0000000005.npz", b"half")
    path = run.save(10)
    run.save(20, is_noted=False)
    copy_until(copier, lambda: run.events(EventKind.CHECKPOINT_COPIED), "a copy")
    manifest = run.manifest(10)
    (file,) = manifest.files
    run.store.download(file.key, tmp_path / "back.npz")
    assert is_checkpoint(tmp_path / "back.npz", 10)
    assert (file.bytes, manifest.host) == (path.stat().st_size, "ha")
    (event,) = run.events(EventKind.CHECKPOINT_COPIED)
    assert (event["step"], event["bytes"]) == (10, file.bytes)
    for _ in range(20):
        copier.once()
    assert (run.copied(), steps_with_files(run.store)) == ({(1, 10)}, {10}), "nothing half is left"


def test_the_newest_ones_and_the_best_are_copied_and_kept(run: Run, copier: Copier) -> None:
    for step in range(1, 10):
        run.save(step, value=0.5 - step / 1000)  # so the first is the best
    copy_until(copier, lambda: (1, 9) in run.copied() and (1, 1) in run.copied(), "copies")
    assert run.copied() == {(1, 9), (1, 1)}
    for step, value in ((10, 0.5), (20, 0.9), (30, 0.6), (40, 0.7), (50, 0.8)):
        run.save(step, value=value)
        copy_until(copier, lambda step=step: (1, step) in run.copied(), f"step {step}")
    copy_until(copier, lambda: run.copied() == {(1, 20), (1, 40), (1, 50)}, "the others to go")
    copy_until(copier, lambda: steps_with_files(run.store) == {20, 40, 50}, "their files to go")


def steps_with_files(store: Store) -> set[int]:
    """The steps of checkpoints of which there is any file."""
    return {int(key.split("/")[4].removeprefix("step-")) for key in all_files(store) if "/checkpoints/" in key}


def test_of_a_job_that_saves_often_checkpoints_are_copied_before_their_rows_are_known(run: Run, copier: Copier) -> None:
    """Each is removed from the disk before its row is stored."""
    waiting: list[tuple[int, Path]] = []
    steps = iter(range(10, 100_000, 10))

    def goes_on() -> bool:
        step = next(steps)
        waiting.append((step, run.save(step, is_noted=False)))
        if len(waiting) > 3:
            late_step, path = waiting.pop(0)
            path.unlink()
            run.note(late_step)
        return len(run.copied()) >= 2

    copy_until(copier, goes_on, "two copies")


def test_a_checkpoint_that_the_job_removes_meanwhile_is_still_copied(
    run: Run, copier: Copier, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = run.save(10)
    upload = Store.upload

    def slow(store: Store, key: str, source: str, **options: object) -> None:
        path.unlink(missing_ok=True)
        upload(store, key, source, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "upload", slow)
    copy_until(copier, run.copied, "a copy")
    run.store.download(run.manifest(10).files[0].key, tmp_path / "back.npz")
    assert is_checkpoint(tmp_path / "back.npz", 10)
    copy_until(copier, lambda: not list((run.paths.job_dir / "copying").rglob("*.npz")), "nothing held")
    run.end()
    copy_until(copier, run.is_all_copied, "all")
    assert not (run.paths.job_dir / "copying").exists()


def test_what_an_attempt_left_is_copied_once_and_the_next_attempt_too(
    run: Run, copier: Copier, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.save(10)
    (run.paths.artifacts / "tensorboard").mkdir()
    (run.paths.artifacts / "tensorboard" / "events").write_bytes(b"e" * 1000)
    (run.paths.artifacts / "name with 'quotes' and ü?.txt").write_text("x")
    run.end(EndReason.PREEMPTED)
    copy_until(copier, run.is_all_copied, "all")
    assert run.copied() == {(1, 10)}
    assert artifacts_in(run) == {"name with 'quotes' and ü?.txt": b"x", "tensorboard/events": b"e" * 1000}
    change(run.sessions, update(Attempt).values(copied_at=None))
    with monkeypatch.context() as patch:
        patch.setattr(Store, "upload", lambda *_, **__: pytest.fail("it is there already"))
        run.copy()
    second = run.next(run.settings, resumed_step=10)
    second.save(20)
    copy_until(copier, lambda: (2, 20) in second.copied(), "the checkpoint of the second attempt")


def test_an_artifact_that_changes_has_one_version_in_the_store(
    run: Run, copier: Copier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifact_copies, "_QUIET_S", 0.0)
    monkeypatch.setattr(artifact_copies, "_SHORTEST_REST_S", 0.0)
    report = run.paths.artifacts / "report"

    for content in (b"first", b"second", b"third"):
        report.write_bytes(content)
        copy_until(copier, lambda content=content: artifacts_in(run) == {"report": content}, "the new version")
    report.unlink()
    copy_until(copier, lambda: artifacts_in(run) == {}, "it to go")
    run.end()
    copy_until(copier, run.is_all_copied, "all")
    assert not [key for key in all_files(run.store) if "/artifacts/" in key]


@pytest.mark.parametrize("has_ended", [False, True])
def test_copies_stay_when_the_folder_of_the_job_is_gone_from_its_host(
    run: Run, copier: Copier, has_ended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifact_copies, "_QUIET_S", 0.0)
    (run.paths.artifacts / "report").write_bytes(b"all that is left")
    copy_until(copier, lambda: artifacts_in(run) == {"report": b"all that is left"}, "a copy")
    shutil.rmtree(run.paths.artifacts)
    if has_ended:
        run.end()
    for _ in range(20):
        copier.once()
    assert artifacts_in(run) == {"report": b"all that is left"}


def test_a_file_that_grows_all_the_time_is_never_older_than_a_checkpoint(run: Run, copier: Copier) -> None:
    diary, has_ended = run.paths.artifacts / "diary", threading.Event()

    def write() -> None:
        with diary.open("a", buffering=1) as file:
            number = 0
            while not has_ended.wait(0.0002):
                number += 1
                print(number, file=file)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for step in (10, 20, 30):
            until(lambda: diary.exists() and diary.stat().st_size > 100)
            written = diary.read_text().split()[:-1]
            run.save(step)
            copy_until(copier, lambda step=step: (1, step) in run.copied(), "the checkpoint")
            assert artifacts_in(run)["diary"].decode().split()[: len(written)] == written
    finally:
        has_ended.set()
        writer.join()


def test_a_new_copier_keeps_what_it_has_not_looked_at_yet(
    run: Run, copier: Copier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifact_copies, "_QUIET_S", 0.0)
    (run.paths.artifacts / "model").write_bytes(b"m" * 100)
    copy_until(copier, lambda: artifacts_in(run) == {"model": b"m" * 100}, "the model")
    copier.close()
    monkeypatch.setattr(artifact_copies, "_QUIET_S", 3600.0)
    monkeypatch.setattr(artifact_copies, "_SMALL_BYTES", 10)  # the model is large now
    monkeypatch.setattr(artifact_copies, "_REST", float("inf"))  # and waits for long
    (run.paths.artifacts / "note").write_bytes(b"n")
    run.save(10)
    run.copy(lambda: (1, 10) in run.copied(), "the checkpoint")
    assert artifacts_in(run) == {"model": b"m" * 100, "note": b"n"}


def artifacts_in(run: Run) -> dict[str, bytes]:
    """The artifacts that the store has, by path."""
    manifest = Manifests(run.store, run.job_id).artifacts()
    return {} if manifest is None else {file.path: run.store.read(file.key) for file in manifest.files}


def test_what_an_earlier_attempt_left_is_no_concern_once_a_later_one_trains(
    run: Run, copier: Copier, other: Settings
) -> None:
    run.save(10)
    run.end()
    run.next(other, resumed_step=0)
    copy_until(copier, run.is_all_copied, "a look")
    assert run.copied() == set()


def test_a_host_that_was_cut_off_removes_nothing_of_a_later_attempt(run: Run, copier: Copier, other: Settings) -> None:
    run.save(10)
    copy_until(copier, run.copied, "a copy")
    run.end()
    later = run.next(other, resumed_step=None)  # it may be fetching step 10 now
    for step in (20, 30, 40):
        run.save(step)
    copy_until(copier, run.is_all_copied, "late copies")
    assert run.copied() == {(1, 10), (1, 40)}
    later.end()


def test_what_waits_for_too_long_is_said_on_the_job_and_taken_back(
    run: Run, copier: Copier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copier_module, "_BEHIND_S", 0.0)
    monkeypatch.setattr(copier_module, "_SAY_S", 0.0)
    upload = Store.upload

    def refuses(*_: object, **__: object) -> None:
        raise StoreAway("it is full")

    monkeypatch.setattr(Store, "upload", refuses)
    size = run.save(10).stat().st_size
    copy_until(copier, lambda: (run.copies_behind() or {}).get("why") == "it is full", "a word on the job")
    behind = run.copies_behind()
    assert behind is not None
    assert (behind["host"], behind["step"], behind["bytes"]) == ("ha", 10, size)
    assert len(run.events(EventKind.COPIES_BEHIND)) == 1
    monkeypatch.setattr(Store, "upload", upload)
    copy_until(copier, lambda: run.copies_behind() is None, "the end of it")
    assert run.copied() == {(1, 10)}


def test_after_a_copy_no_job_that_runs_is_copied_for_a_while(
    run: Run, sessions: Sessions, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest_module, "_SHARE", 1e-9)
    job_rows.a_host(sessions, run.settings.host, slots=4)
    copier = run.copier(cores=1)
    run.save(10)
    copy_until(copier, lambda: run.copied() and copier._rest.is_on, "the rest after the first copy")
    other = started(sessions, store, run.settings, job_rows.a_job(sessions), resumed_step=0, slots=(2, 3))
    run.save(20)
    other.save(30)
    for _ in range(20):
        copier.once()
    assert (run.copied(), other.copied()) == ({(1, 10)}, set())
    run.end()
    copy_until(copier, run.is_all_copied, "what the job that ended left")
    assert run.copied() == {(1, 10), (1, 20)}
    change(sessions, update(JobEvent).values(at=JobEvent.at - timedelta(hours=1)))
    monkeypatch.setattr(Rest, "is_on", False)
    copy_until(copier, other.copied, "a copy after the rest")
    assert not run.events(EventKind.COPIES_BEHIND) + other.events(EventKind.COPIES_BEHIND)
    copier.close()


def test_a_store_that_was_emptied_or_is_not_mounted_is_said_and_not_filled_again(
    run: Run, copier: Copier, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(copier_module, "_CHECK_S", 0.0)
    run.save(10)
    copy_until(copier, run.copied, "a copy")
    (tmp_path / "team").rename(tmp_path / "unmounted")
    copy_until(copier, run.no_store, "a word on the host")
    assert "emptied, or it is not mounted" in (run.no_store() or "")
    run.save(20)
    (run.paths.artifacts / "model").write_bytes(b"m" * 100)
    run.end(EndReason.TIME_LIMIT)
    again = run.copier()  # without what it knows of the store
    for _ in range(20):
        again.once()
    again.close()
    assert not (tmp_path / "team").exists()
    assert not run.is_all_copied()
    (tmp_path / "unmounted").rename(tmp_path / "team")
    copy_until(copier, lambda: run.no_store() is None and run.is_all_copied(), "it to go on")
    assert ((1, 20) in run.copied(), artifacts_in(run)) == (True, {"model": b"m" * 100})


def test_a_late_copier_removes_nothing_that_a_later_attempt_left(run: Run, other: Settings) -> None:
    (run.paths.artifacts / "a").write_text("one")
    run.end(EndReason.PREEMPTED)
    with run.sessions() as session:  # what the copier of ha has read when it is stopped
        (seen,) = attempts_to_copy(session, "ha", keep_files_days=30.0)
    second = run.next(other, resumed_step=0)
    (second.paths.artifacts / "b").write_text("two")
    second.end(EndReason.COMPLETED)
    second.copy()
    job = JobHere(run.job_id, 1, "ha", run.settings.runs_dir)
    AttemptCopies(run.sessions, run.store, job, lambda: True, Rest()).copy(seen)
    assert artifacts_in(run) == {"b": b"two"}


def test_of_a_script_regular_files_are_copied_and_no_link_is_followed(
    sessions: Sessions, store: Store, host: Callable[[str], Settings], tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret")
    run = a_script_run(sessions, store, host("ha"))
    linked = run.save_script(6, {"w": b"w"})
    shutil.rmtree(linked)
    linked.symlink_to(tmp_path)
    copier = run.copier()
    for _ in range(20):
        copier.once()
    assert run.copied() == set()

    def add(folder: Path) -> None:
        (folder / "link").symlink_to(secret)
        (folder / "a" / "folder").symlink_to(tmp_path)
        os.mkfifo(folder / "pipe")

    run.save_script(7, {"a/b/weights.bin": b"w" * 5000, ".hidden": b"h"}, add)
    copy_until(copier, run.copied, "a copy")
    copier.close()
    manifest = run.manifest(7)
    assert sorted(file.path for file in manifest.files) == [".hidden", "a/b/weights.bin"]
    assert manifest.script == {"epochs": 3}


def test_a_script_that_swaps_a_folder_for_a_link_while_it_is_copied_copies_nothing_of_others(
    sessions: Sessions, store: Store, host: Callable[[str], Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its files cannot be held, the checkpoint is copied from where the script still writes."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("a secret")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "no second names here")

    monkeypatch.setattr(os, "link", refuse)
    run = a_script_run(sessions, store, host("ha"))
    saved = run.save_script(7, {"folder/key": b"own", "w": b"w" * 5000})
    list_files = copying._files_below

    def list_then_swap(top: int) -> list[str]:
        names = list(list_files(top))
        if not (saved / "folder").is_symlink():
            (saved / "folder").rename(saved / "away")
            (saved / "folder").symlink_to(tmp_path / "secret")
        return names

    monkeypatch.setattr(copying, "_files_below", list_then_swap)
    copier = run.copier()
    copy_until(copier, run.copied, "a copy of what it is afterwards")
    copier.close()
    assert sorted(file.path for file in run.manifest(7).files) == ["away/key", "w"]
    store_folder = tmp_path / "all"
    store_folder.mkdir()
    for number, key in enumerate(all_files(store)):
        store.download(key, store_folder / str(number))
    assert not any(b"a secret" in path.read_bytes() for path in store_folder.iterdir())


def test_a_job_may_be_deleted_while_it_is_copied(
    run: Run, copier: Copier, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The checkpoint is whole in the store, and is to be noted in a history that is not there any more."""
    deleted = threading.Event()
    note = copies_rows.checkpoint_copied

    def delete_first(session: Session, *arguments: Any, **values: Any) -> None:
        with run.sessions.begin() as deleting:
            deletion.delete_job(deleting, locked_job(deleting, run.job_id))
        deleted.set()
        note(session, *arguments, **values)

    caplog.set_level("INFO")
    monkeypatch.setattr(copies_rows, "checkpoint_copied", delete_first)
    run.save(10)
    run.end(EndReason.COMPLETED)
    copy_until(copier, deleted.is_set, "the deletion")
    copy_until(copier, lambda: "the job was deleted while it was copied" in caplog.text, "the end of the copy")
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    other = job_rows.a_job(run.sessions)  # the copier goes on
    copier.once()
    assert job_rows.the_job(run.sessions, other).id == other
