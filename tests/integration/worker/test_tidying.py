"""The retention of a worker: this host's files, and everybody's rows."""

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select, update

from jobs.data import artifacts
from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, AuditEntry, Host, Job, LogLine, Token
from jobs.lifecycle import deletion, store
from jobs.lifecycle.store import new_id
from jobs.model.scopes import Scope
from jobs.model.states import Status
from jobs.people.tokens import store_token
from jobs.runtime.settings import Settings
from jobs.telemetry import ingest
from jobs.telemetry.ingest import LogRow
from tests.integration.api.starting_rows import seconds
from tests.integration.jobs import job_rows
from tests.waiting import until
from worker.attempt.paths import paths_of
from worker.deleted_jobs import DeletedJobs
from worker.old_artifacts import OldArtifacts
from worker.retention import OldFiles, Retention, remove_temporary


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "home/runs"


def a_job(sessions: Sessions, runs: Path, *, days_ago: float | None = 31, artifact: bool = True) -> str:
    """A job with the files of two attempts that ended `days_ago`; None: it still runs."""
    job_id = job_rows.a_job_that_is(sessions, Status.RUNNING if days_ago is None else Status.SUCCEEDED)
    for number in (1, 2):
        paths = paths_of(runs, job_id, number)
        paths.create()
        (paths.records / "rank-0.jsonl").write_text("{}\n")
        paths.supervisor_log.write_text("{}\n")
        (paths.checkpoints / f"epoch-{number}.h5").write_text("weights")
    if artifact:
        (runs / job_id / "artifacts/model.weights.h5").write_text("weights")
    if days_ago is not None:
        with sessions.begin() as session:
            ended = func.now() - timedelta(days=days_ago)
            session.execute(update(Job).where(Job.id == job_id).values(ended_at=ended))
    return job_id


def remaining_files(runs: Path, job_id: str) -> list[str]:
    return sorted(str(path.relative_to(runs / job_id)) for path in (runs / job_id).rglob("*") if path.is_file())


def artifacts_are_removed(sessions: Sessions, *job_ids: str) -> None:
    with sessions.begin() as session:
        session.execute(update(Job).where(Job.id.in_(job_ids)).values(artifacts_removed_at=func.now()))


@pytest.fixture
def remove(sessions: Sessions, runs: Path) -> Callable[[], None]:
    files = OldFiles(sessions, runs, host="ha", keep_days=30)

    def remove() -> None:
        while files.remove_some():
            pass

    return remove


def test_files_of_old_jobs_are_removed_except_artifacts_and_unknown_files(
    sessions: Sessions, runs: Path, remove: Callable[[], None]
) -> None:
    remove()  # there is no folder yet
    old, bare, young, running = (
        a_job(sessions, runs), a_job(sessions, runs, artifact=False),
        a_job(sessions, runs, days_ago=29), a_job(sessions, runs, days_ago=None),
    )  # fmt: skip
    (runs / old / "notes.txt").write_text("of a person")
    (runs / old / "copying/attempt-1-step-5").mkdir(parents=True)  # a copier was killed
    for name in ("0123456789ab", "Not-a-job", "lost+found"):
        paths_of(runs, name, 1).create([0])
    (runs / "file").touch()
    untouched = (young, running, "0123456789ab", "Not-a-job", "lost+found")
    before = {name: remaining_files(runs, name) for name in untouched}
    remove()
    remove()
    assert remaining_files(runs, old) == ["artifacts/model.weights.h5", "notes.txt"]
    assert not (runs / old / "copying").exists()
    assert not (runs / bare).exists()
    assert {name: remaining_files(runs, name) for name in untouched} == before
    assert (len(before[running]), len(before["lost+found"]) > 1) == (11, True)


def test_checkpoints_count_until_the_last_lead_host_has_removed_them(sessions: Sessions, runs: Path) -> None:
    ended, expired = (a_job(sessions, runs) for _ in range(2))
    with sessions.begin() as session:
        for number, host in enumerate(("hb", "ha", "hc"), start=1):
            times = {"started_at": func.now() if number < 3 else None, "ended_at": func.now()}
            of_attempt = {"number": number, "host": host, "shares": [], "gpus": 1, "lease_expires_at": func.now()}
            session.add(Attempt(job_id=ended, **of_attempt, **times))
        store.touch_all(session, [ended, expired], checkpoint_bytes=5)
        store.touch(session, expired, artifacts_removed_at=func.now())
    kept_bytes = []
    for host in ("hb", "hc", "ha"):
        OldFiles(sessions, runs, host=host, keep_days=30).remove_some()
        kept_bytes.append([job_rows.the_job(sessions, job_id).checkpoint_bytes for job_id in (ended, expired)])
    assert kept_bytes == [[5, 0], [5, 0], [0, 0]]


def test_files_of_an_attempt_go_early_only_if_a_person_removed_the_files_of_the_job(
    sessions: Sessions, runs: Path, remove: Callable[[], None]
) -> None:
    """A job without checkpoints, too, whose artifacts are kept for a shorter time than the files of its attempts."""
    job_id = a_job(sessions, runs, days_ago=2)
    with sessions.begin() as session:
        store.touch(session, job_id, checkpoint_bytes=0)
        assert artifacts.mark_artifacts_removed(session, keep_days=1)
    remove()
    assert len(remaining_files(runs, job_id)) == 11
    with sessions.begin() as session:
        assert artifacts.remove_artifacts(session, job_id)
    remove()
    assert remaining_files(runs, job_id) == ["artifacts/model.weights.h5"]


def test_all_files_of_a_deleted_job_go_whenever_its_host_looks(sessions: Sessions, runs: Path) -> None:
    deleted, kept = (a_job(sessions, runs, days_ago=1) for _ in range(2))
    paths_of(runs, "0123456789ab", 1).create()
    (runs / kept / "own").symlink_to(runs / deleted)
    before = remaining_files(runs, kept)
    files = DeletedJobs(sessions, runs)
    assert not files.remove_some()
    assert len(remaining_files(runs, deleted)) == 11
    with sessions.begin() as session:
        deletion.delete_job(session, store.locked_job(session, deleted))
    for _ in range(2):
        assert not files.remove_some()
        assert not (runs / deleted).exists()
        (runs / deleted / "copying/attempt-1-step-5").mkdir(parents=True)  # a copier held a checkpoint meanwhile
    assert remaining_files(runs, kept) == before
    assert (runs / "0123456789ab").exists(), "of another stack"


def test_links_are_not_followed(
    sessions: Sessions, runs: Path, tmp_path: Path, remove: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "model.keras").touch()
    inside, linked, whole, artifacts_linked = (a_job(sessions, runs) for _ in range(4))
    (runs / inside / "checkpoints/link").symlink_to(precious)
    (runs / linked / "attempt-9").symlink_to(precious)
    (runs / whole).rename(tmp_path / "elsewhere")
    (runs / whole).symlink_to(tmp_path / "elsewhere")
    (runs / artifacts_linked / "artifacts").rename(tmp_path / "moved")
    (runs / artifacts_linked / "artifacts").symlink_to(precious)
    artifacts_are_removed(sessions, artifacts_linked)
    remove()
    OldArtifacts(sessions, runs, clock=lambda: 0.0).remove_some()
    assert (precious / "model.keras").exists()
    assert not (runs / inside / "checkpoints").exists()
    assert (runs / linked / "attempt-9").is_symlink()
    assert "attempt-9 cannot be removed" in caplog.text
    remove_temporary(runs / whole)  # as if it became a link after it was listed
    assert len(remaining_files(tmp_path, "elsewhere")) == 11


def old_rows(sessions: Sessions) -> None:
    """A log, an entry of the audit log and a session that are old, and two that are not."""
    job_id = job_rows.a_job_that_is(sessions, Status.FAILED)
    with sessions.begin() as session:
        session.execute(update(Job).where(Job.id == job_id).values(ended_at=func.now() - timedelta(days=31)))
        ingest.store_logs(session, [LogRow(job_id, 1, 0, seconds(0), "an old line")])
        for days in (366, 364):
            at = func.now() - timedelta(days=days)
            session.execute(insert(AuditEntry).values(actor="alice", action="job.paused", at=at, data={"days": days}))
        for days in (31, 29):
            name = f"{days}{new_id()}"
            ended = store_token(session, f"hora_{name}", user="alice", scope=Scope.READ, name=name, kind="session")
            at = func.now() - timedelta(days=days)
            session.execute(update(Token).where(Token.id == ended).values(expires_at=at))


def test_a_worker_tidies_up_periodically(sessions: Sessions, runs: Path, database: str) -> None:
    job_rows.a_host(sessions)
    job_rows.host_went_silent(sessions, for_s=86400 * 8)
    tidier = Retention(sessions, Settings(home=runs.parent, database_url=database, retention_period_s=0.05))
    tidier.start()
    try:
        for turn in (1, 2):
            old_rows(sessions)
            job_id = a_job(sessions, runs)
            until(lambda: job_rows.count(sessions, LogLine) == 0)
            until(lambda turn=turn: job_rows.count(sessions, AuditEntry) == job_rows.count(sessions, Token) == turn)
            until(lambda job_id=job_id: os.listdir(runs / job_id) == ["artifacts"])
            until(lambda job_id=job_id: job_rows.the_job(sessions, job_id).series_thinned_at)
        until(lambda: job_rows.count(sessions, Host) == 0)
    finally:
        tidier.stop()
        tidier.join(120)
    assert not tidier.is_alive()
    with sessions() as session:
        assert [data["days"] for data in session.scalars(select(AuditEntry.data))] == [364, 364]
        assert {name[:2] for name in session.scalars(select(Token.name))} == {"29"}


def test_artifacts_are_removed_once_their_job_is_marked(sessions: Sessions, runs: Path) -> None:
    old, removed_later = a_job(sessions, runs), a_job(sessions, runs)
    (runs / old / "notes.txt").write_text("of a person")
    artifacts_are_removed(sessions, old)
    now = [0.0]
    files = OldArtifacts(sessions, runs, clock=lambda: now[0])
    assert not files.remove_some()
    assert not (runs / old / "artifacts").exists()
    assert (runs / old / "notes.txt").exists()
    assert (runs / removed_later / "artifacts/model.weights.h5").exists()

    artifacts_are_removed(sessions, removed_later)
    for now[0], remains in ((3599, True), (3601, False)):  # all folders are asked for once an hour
        files.remove_some()
        assert (runs / removed_later / "artifacts").exists() == remains
