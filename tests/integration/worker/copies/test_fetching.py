"""What an attempt on another host starts from: the newest copy that is whole, and the artifacts so far."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import update

from jobs.copies import manifests
from jobs.copies.resuming import last_valid_steps
from jobs.copies.store import Store
from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Host
from jobs.lifecycle.store import get_job, pause
from jobs.model.states import EndReason, Status
from jobs.runtime.checkpoint_folders import attempt_folder, checkpoint_file, checkpoint_folder
from jobs.runtime.settings import Settings
from tests.integration.worker.copies.runs import Run, a_script_run, copy_until, is_checkpoint
from worker.attempt.supervisor_task import SupervisorTask
from worker.attempt.void_checkpoints import remove_void
from worker.copies import fetching
from worker.copies.copier import Copier
from worker.copies.fetching import CannotFetch, Fetch
from worker.copies.start import Start


@pytest.fixture
def saved(run: Run, copier: Copier) -> Run:
    """A run whose checkpoints of steps 10 and 20 are in the store, and that has ended with its host."""
    for step in (10, 20):
        run.save(step)
        copy_until(copier, lambda step=step: (1, step) in run.copied(), "a copy")
    (run.paths.artifacts / "tensorboard").mkdir()
    (run.paths.artifacts / "tensorboard" / "events").write_bytes(b"e" * 1000)
    run.end()
    copy_until(copier, run.is_all_copied, "all")
    return run


def own_file(run: Run, step: int) -> Path:
    """Where a rank of the run looks for a checkpoint first."""
    return checkpoint_file(run.paths.own_checkpoints, step)


def test_the_newest_checkpoint_comes_with_the_artifacts(saved: Run, other: Settings) -> None:
    later = saved.next(other, resumed_step=None)
    fetched = later.fetched()
    assert fetched.to_event() | {"duration_s": 0} == {
        "attempt": 1, "step": 20, "bytes": own_file(later, 20).stat().st_size, "duration_s": 0,
    }  # fmt: skip
    assert is_checkpoint(own_file(later, 20), 20)
    assert (later.paths.artifacts / "tensorboard" / "events").read_bytes() == b"e" * 1000
    assert [path.name for path in later.paths.checkpoints.iterdir()] == ["attempt-2"]


def other_bytes(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"x")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


CHECKPOINT, MANIFEST = "checkpoints/attempt-1/step-0000000020", "manifests/checkpoint-1-0000000020.json"


@pytest.mark.parametrize(
    ("damage", "part"),
    [(other_bytes, CHECKPOINT), (cut, CHECKPOINT), (Path.unlink, CHECKPOINT), (cut, MANIFEST)],
)
def test_a_damaged_copy_is_passed_over_for_the_one_before_it(
    saved: Run, other: Settings, tmp_path: Path, damage: Callable[[Path], None], part: str
) -> None:
    place = tmp_path / "team" / "jobs" / saved.job_id / part
    damage(next(place.iterdir()) if place.is_dir() else place)
    later = saved.next(other, resumed_step=None)
    assert later.fetched().manifest.step == 10
    assert is_checkpoint(own_file(later, 10), 10)
    assert not own_file(later, 20).exists()


def test_a_copy_that_leads_out_of_its_folder_is_passed_over(saved: Run, other: Settings, tmp_path: Path) -> None:
    manifest = tmp_path / "team" / "jobs" / saved.job_id / "manifests" / "checkpoint-1-0000000020.json"
    for path in ("../../evil", "/tmp/evil", "a/../../evil", "a//b", ""):
        text = manifest.read_text().replace("checkpoint-0000000020.npz", path, 1)
        manifest.write_text(text)
        with pytest.raises(manifests.DamagedCopy):
            saved.manifest(20)
        manifest.write_text(text.replace(path, "checkpoint-0000000020.npz", 1) if path else text)
    assert saved.next(other, resumed_step=None).fetched().manifest.step == 10


def test_the_hosts_own_disk_comes_first_unless_it_is_damaged(saved: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    later = saved.next(saved.settings, resumed_step=None)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "read", lambda *_: pytest.fail("the store is not needed"))
        assert later.fetch() is None
    path = checkpoint_file(attempt_folder(saved.paths.checkpoints, 1), 20)
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 255
    path.write_bytes(damaged)
    assert later.fetch() is not None
    assert is_checkpoint(own_file(later, 20), 20)


def test_an_old_disk_does_not_win_over_a_newer_copy_nor_over_steps_that_were_trained_again(
    saved: Run, other: Settings
) -> None:
    """On ha up to 20, on hb from 10 to 30, on ha again."""
    second = saved.next(other, resumed_step=10)
    second.save(30)
    second.copy(lambda: (2, 30) in second.copied(), "a copy")
    second.end()
    third = second.next(saved.settings, resumed_step=None)
    with third.sessions() as session:
        remove_void(third.paths.checkpoints, last_valid_steps(session, third.job_id), of_script=False)
    assert [path.name for path in attempt_folder(third.paths.checkpoints, 1).iterdir()] == ["checkpoint-0000000010.npz"]
    with third.sessions.begin() as session:  # it does not copy any more
        session.execute(update(Host).where(Host.name == "hb").values(no_store="it is away"))
    manifest = third.fetched().manifest
    assert (manifest.attempt, manifest.step) == (2, 30)


def test_a_checkpoint_that_a_living_host_still_copies_is_waited_for(saved: Run, other: Settings, store: Store) -> None:
    second = saved.next(other, resumed_step=20)
    second.save(30)
    second.end()
    third = second.next(saved.settings, resumed_step=None)
    fetched = []
    thread = threading.Thread(target=lambda: fetched.append(third.fetched()))
    thread.start()
    second.copy(lambda: not thread.is_alive(), "the fetch")
    assert fetched[0].manifest.step == 30


def test_a_host_that_is_lost_is_not_waited_for(saved: Run, other: Settings) -> None:
    second = saved.next(other, resumed_step=20)
    second.save(30)
    second.end()
    second.lose_host()
    third = second.next(saved.settings, resumed_step=None)
    assert third.fetch() is None  # its own disk has step 20, and nobody has step 30 any more


def test_a_store_that_is_away_is_waited_for_and_then_the_attempt_cannot_start(
    saved: Run, other: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "team").rename(tmp_path / "away")
    monkeypatch.setattr(fetching, "PATIENCE_S", 0.5)
    monkeypatch.setattr(fetching, "_RETRY_S", 0.05)
    later = saved.next(other, resumed_step=None)
    with pytest.raises(CannotFetch, match="not mounted"):
        later.fetch()
    monkeypatch.setattr(fetching, "PATIENCE_S", 240.0)
    thread = threading.Timer(0.3, lambda: (tmp_path / "away").rename(tmp_path / "team"))
    thread.start()
    assert later.fetch() is not None
    thread.join()


def test_a_job_that_never_saved_needs_no_store(run: Run, other: Settings, tmp_path: Path) -> None:
    run.end()
    shutil.rmtree(tmp_path / "team", ignore_errors=True)
    assert run.next(other, resumed_step=None).fetch() is None


def test_a_script_finds_its_checkpoint_and_its_rank_what_it_knew(
    sessions: Sessions, store: Store, host: Callable[[str], Settings], other: Settings
) -> None:
    run = a_script_run(sessions, store, host("ha"))
    run.save_script(7, {"a/b/weights.bin": b"w" * 5000, ".hidden": b"h", "leer": b""})
    run.end()
    run.copy()
    later = run.next(other, resumed_step=None)
    assert later.fetch() is not None
    folder = checkpoint_folder(attempt_folder(later.paths.checkpoints, 1), 7)
    assert (folder / "a" / "b" / "weights.bin").read_bytes() == b"w" * 5000
    assert sorted(path.name for path in folder.iterdir()) == [".hidden", "a", "leer"]
    assert (later.paths.checkpoints / "script.json").read_text() == '{"7": {"epochs": 3}}'


def test_a_link_among_the_artifacts_leads_nowhere(run: Run, copier: Copier, other: Settings, tmp_path: Path) -> None:
    """A script leaves a link on one host, and a folder with a file under the same name on another one."""
    outside = tmp_path / "outside"
    outside.mkdir()
    run.save(10)
    (run.paths.artifacts / "logs").symlink_to(outside)
    run.end(EndReason.PREEMPTED)
    copy_until(copier, run.is_all_copied, "all")
    second = run.next(other, resumed_step=10)
    second.save(20)
    (second.paths.artifacts / "logs").mkdir()
    (second.paths.artifacts / "logs" / "cron").write_text("evil")
    second.end(EndReason.PREEMPTED)
    second.copy()
    third = second.next(run.settings, resumed_step=None)
    assert third.fetch() is not None
    assert list(outside.iterdir()) == []


def test_a_pause_while_the_store_is_away_ends_the_attempt_before_its_ranks_start(
    saved: Run, other: Settings, tmp_path: Path
) -> None:
    """Ranks without the checkpoint would begin anew, and all that was trained would be void."""
    later = saved.next(other, resumed_step=None)
    (tmp_path / "team").rename(tmp_path / "away")
    lease = later.lease
    task = SupervisorTask(
        attempt_id=lease.attempt_id, token=lease.token, job_id=lease.job_id, number=lease.number, argv=[],
        environment={}, launcher_log="", lease_file=str(later.paths.lease_file), fetches=True,
    )  # fmt: skip
    settings = other.model_copy(update={"store": saved.store.url, "orders_period_s": 0.1})
    with saved.sessions.begin() as session:
        pause(session, saved.job_id)
    assert not Start(task, saved.sessions, settings, []).run()
    with saved.sessions() as session:
        attempt = session.get_one(Attempt, lease.attempt_id)
        assert (attempt.end_reason, get_job(session, saved.job_id).status) == (EndReason.PAUSED, Status.QUEUED)
        assert attempt.resumed_step is None


def test_weights_of_another_job_come_to_where_its_host_has_them(
    run: Run, copier: Copier, other: Settings, tmp_path: Path
) -> None:
    (run.paths.artifacts / "model.weights.h5").write_bytes(b"weights")
    run.end()
    copy_until(copier, run.is_all_copied, "all")
    later = run.next(other, resumed_step=None)
    path = other.runs_dir / run.job_id / "artifacts" / "model.weights.h5"
    Fetch(later.sessions, later.store, later.paths, other, still_needed=lambda: True).weights(run.job_id, path)
    assert path.read_bytes() == b"weights"


def test_a_full_disk_of_the_host_is_not_taken_for_a_store_that_is_away(
    saved: Run, other: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = saved.next(other, resumed_step=None)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("jobs.copies.local_files.pour", full)
    with pytest.raises(OSError, match="No space"):
        later.fetch()
    assert list(later.paths.checkpoints.iterdir()) == []
