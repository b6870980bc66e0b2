"""A job on a host of its own, as its files and rows say it, and the copier of that host. Nothing trains here."""

import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import func, select, update

from jobs.copies.manifests import CheckpointManifest, Manifests
from jobs.copies.store import Store
from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Host, Job, JobEvent
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease, add_event, get_job, new_id
from jobs.lifecycle.submission import write_job
from jobs.model.plan import resolve_plan
from jobs.model.spec import spec_from
from jobs.model.states import EndReason, EventKind
from jobs.runtime.checkpoint_folders import attempt_folder, checkpoint_file, checkpoint_folder
from jobs.runtime.settings import Settings
from tests.archives import write_files
from tests.integration.jobs import job_rows
from tests.integration.jobs.code_rows import an_archive, packed
from tests.waiting import until
from worker.attempt.paths import AttemptPaths, paths_of
from worker.copies.copier import Copier
from worker.copies.fetching import Fetch, Fetched


@dataclass
class Run:
    """One attempt of a job, on the host whose settings these are."""

    sessions: Sessions
    store: Store
    settings: Settings
    lease: Lease

    @property
    def job_id(self) -> str:
        return self.lease.job_id

    @property
    def paths(self) -> AttemptPaths:
        return paths_of(self.settings.runs_dir, self.lease.job_id, self.lease.number)

    def save(self, step: int, *, value: float | None = None, epoch: int | None = None, is_noted: bool = True) -> Path:
        """Save a checkpoint as Hora's own loop does, and store its records."""
        folder = attempt_folder(self.paths.checkpoints, self.lease.number)
        folder.mkdir(parents=True, exist_ok=True)
        path = checkpoint_file(folder, step)
        with path.open("wb") as file:
            np.savez(file, step=np.array([step]), content=content_of(step))
        self.note(step, epoch, value, is_noted=is_noted)
        return path

    def save_script(self, step: int, files: dict[str, bytes], add: Callable[[Path], None] = lambda _: None) -> Path:
        """Save a checkpoint as a script does. `add` puts more into its folder."""
        path = checkpoint_folder(attempt_folder(self.paths.checkpoints, self.lease.number), step)
        unfinished = write_files(self.paths.root / "unfinished", files)
        add(unfinished)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.rename(path)  # a copier that looks meanwhile sees all of it
        (self.paths.checkpoints / "script.json").write_text(f'{{"{step}": {{"epochs": 3}}}}')
        self.note(step)
        return path

    def note(self, step: int, epoch: int | None = None, value: float | None = None, *, is_noted: bool = True) -> None:
        """Store the records of a checkpoint."""
        with self.sessions.begin() as session:
            if value is not None:
                data = {"epoch": epoch or step, "step": step, "val_accuracy": value}
                add_event(session, self.job_id, EventKind.EPOCH_ENDED, attempt=self.lease.number, data=data)
            if is_noted:
                data = {"epoch": epoch or step, "step": step, "duration_s": 0.1}
                add_event(session, self.job_id, EventKind.CHECKPOINT_SAVED, attempt=self.lease.number, data=data)

    def end(self, reason: EndReason = EndReason.HOST_LOST) -> None:
        """End the attempt."""
        with self.sessions.begin() as session:
            leases.end(session, self.lease, reason)
            leases.release(session, self.lease.attempt_id)

    def lose_host(self) -> None:
        """Lose the host of the attempt, with its disk."""
        shutil.rmtree(self.settings.home)
        with self.sessions.begin() as session:
            long_ago = func.now() - timedelta(hours=1)
            session.execute(update(Host).where(Host.name == self.settings.host).values(heartbeat_at=long_ago))

    def next(self, settings: Settings, *, resumed_step: int | None) -> "Run":
        """The next attempt of the job, on the host of these settings, which has registered."""
        with self.sessions.begin() as session:
            session.execute(update(Job).where(Job.id == self.job_id).values(not_before=None))
        return started(self.sessions, self.store, settings, self.job_id, resumed_step=resumed_step)

    def copier(self, store: Store | None = None, *, cores: int = 1_000_000) -> Copier:
        """A new copier of the host. With so many cores it never rests."""
        return Copier(self.sessions, store or self.store, self.settings, cores=cores)

    def copied(self) -> set[tuple[int, int]]:
        """Attempt and step of the complete checkpoints of the job in the store."""
        return set(Manifests(self.store, self.job_id).checkpoints())

    def manifest(self, step: int) -> CheckpointManifest:
        """What the store says of a checkpoint of this attempt."""
        return Manifests(self.store, self.job_id).checkpoint(self.lease.number, step)

    def events(self, kind: EventKind) -> list[dict[str, Any]]:
        """The data of the job's events of a kind."""
        query = select(JobEvent.data).where(JobEvent.job_id == self.job_id, JobEvent.kind == kind)
        with self.sessions() as session:
            return list(session.scalars(query.order_by(JobEvent.id)))

    def is_all_copied(self) -> bool:
        with self.sessions() as session:
            return session.get_one(Attempt, self.lease.attempt_id).copied_at is not None

    def copies_behind(self) -> dict[str, Any] | None:
        with self.sessions() as session:
            return get_job(session, self.job_id).copies_behind

    def no_store(self) -> str | None:
        with self.sessions() as session:
            return session.get_one(Host, self.settings.host).no_store

    def fetch(self) -> Fetched | None:
        """Fetch what the attempt starts from."""
        return Fetch(self.sessions, self.store, self.paths, self.settings, still_needed=lambda: True).run()

    def fetched(self) -> Fetched:
        """What the attempt starts from, which has to be fetched."""
        fetched = self.fetch()
        assert fetched is not None
        return fetched

    def copy(self, until: Callable[[], Any] | None = None, what: str = "all") -> None:
        """Let a new copier of the host make passes until the condition holds, by default until all is copied."""
        with closing(self.copier()) as copier:
            copy_until(copier, until or self.is_all_copied, what)


def content_of(step: int) -> np.ndarray:
    """What the checkpoint of a step holds."""
    return np.random.default_rng(step).integers(0, 256, 20_000, np.uint8)


def is_checkpoint(path: Path, step: int) -> bool:
    """Whether the file is the whole checkpoint of the step."""
    with np.load(path) as arrays:
        return bool(arrays["step"][0] == step and np.array_equal(arrays["content"], content_of(step)))


def a_run(sessions: Sessions, store: Store, settings: Settings, **fields: Any) -> Run:
    """A job whose first attempt runs."""
    job_rows.a_host(sessions, settings.host)
    return started(sessions, store, settings, job_rows.a_job(sessions, **fields), resumed_step=0)


def script_job(sessions: Sessions) -> str:
    """A job with a script. Returns its id."""
    digest = an_archive(sessions, packed({f"{new_id()}.py": b""}))
    spec = spec_from({"code": digest, "command": ["python", "train.py"], "gpus": 2})
    with sessions.begin() as session:
        return write_job(session, spec=spec, plan=resolve_plan(spec, None), owner="me").id


def a_script_run(sessions: Sessions, store: Store, settings: Settings) -> Run:
    """A script whose first attempt runs."""
    job_rows.a_host(sessions, settings.host)
    return started(sessions, store, settings, script_job(sessions), resumed_step=0)


def started(
    sessions: Sessions,
    store: Store,
    settings: Settings,
    job_id: str,
    *,
    resumed_step: int | None = None,
    slots: Sequence[int] = (0, 1),
) -> Run:
    """An attempt of a job whose first rank has started."""
    lease = job_rows.an_attempt(sessions, job_id, host=settings.host, slots=slots)
    with sessions.begin() as session:
        leases.claim(session, lease.attempt_id, lease_s=60)
        leases.first_rank_started(session, lease, datetime.now(UTC))
        if resumed_step is not None:
            leases.resumed(session, lease, resumed_step)
    run = Run(sessions, store, settings, lease)
    run.paths.create([0])
    return run


def copy_until(copier: Copier, condition: Callable[[], Any], what: str) -> None:
    """Let the copier make passes until the condition holds."""

    def holds() -> Any:
        copier.once()
        return condition()

    until(holds, what=what)
