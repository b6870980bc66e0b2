"""Fetches from the store what an attempt starts from, before its ranks start. Called by `worker.copies.start`.

The checkpoint comes from this host's disk if the newest one is there. Otherwise the store is asked, for the newest
first. A copy that is damaged or not whole is passed over for the one before it. If the host of the attempt before still
copies what that left, it is waited for, for some time.

    CannotFetch     what the attempt starts from is only in the store, and that could not be reached for too long
"""

import hashlib
import logging
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from sqlalchemy.exc import DBAPIError

from jobs.copies.manifests import CheckpointManifest, CopiedFile, DamagedCopy, Manifests
from jobs.copies.marks import require_mark
from jobs.copies.resuming import Key, checkpoints_among
from jobs.copies.store import NotInStore, Store, StoreAway
from jobs.data.artifact_files import ArtifactNotFound, parts_of
from jobs.db.engine import Sessions, is_away
from jobs.lifecycle.store import get_job
from jobs.runtime.checkpoint_folders import OTHER_JOB, attempt_folder, checkpoint_folder
from jobs.runtime.files import make_private
from jobs.runtime.settings import Settings
from worker.attempt.paths import AttemptPaths
from worker.copies import rows
from worker.copies.on_disk import newest_whole, note_script_state

_log = logging.getLogger(__name__)

PATIENCE_S = 300.0  # for a store that is away, and for what another host still copies
_RETRY_S = 1.0
_FILES_AT_ONCE = 4
_READ_BYTES = 1024 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

StillNeeded = Callable[[], bool]
_Result = TypeVar("_Result")


class CannotFetch(RuntimeError):
    """What the attempt starts from is only in the store, and that could not be reached for too long."""


@dataclass(frozen=True)
class Fetched:
    """A checkpoint that came from the store."""

    manifest: CheckpointManifest
    duration_s: float
    is_of_other_job: bool = False  # from which this one continues

    def to_event(self) -> dict[str, Any]:
        """The data of its event."""
        manifest = self.manifest
        of_job = {"job": manifest.job} if self.is_of_other_job else {}
        return of_job | {
            "attempt": manifest.attempt, "step": manifest.step, "bytes": manifest.total_bytes,
            "duration_s": self.duration_s,
        }  # fmt: skip


class Fetch:
    """Makes this host ready for an attempt that starts from what earlier attempts left. `run` does all of it.

    `still_needed` is asked at least once a minute, unless the store hangs. `waits` gets what is waited for.
    """

    def __init__(
        self,
        sessions: Sessions,
        store: Store,
        paths: AttemptPaths,
        config: Settings,
        *,
        still_needed: StillNeeded,
        waits: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._sessions = sessions
        self._store = store
        self._paths = paths
        self._job_id = paths.job_dir.name
        self._host = config.host
        self._host_timeout_s = config.host_timeout_s
        self._still_needed = still_needed
        self._waits = waits
        # What arrives lies there until all of it is whole: below the folder of the attempt, which is its alone.
        self._arrivals = paths.root / "fetched"
        self._arrived: set[Path] = set()
        self._give_up_at = time.monotonic() + PATIENCE_S

    def run(self) -> Fetched | None:
        """Fetch what is missing. Returns the checkpoint that came. Raises `CannotFetch`, `OSError`."""
        try:
            start = self._patiently(self._start)
            local = newest_whole(self._paths.checkpoints, of_script=start.is_script)
            have_step = -1 if local is None else local.step
            if not any(saved.step > have_step for saved in start.saved):
                return None
            ran_elsewhere = start.host_before not in (None, self._host)
            if ran_elsewhere:
                self._wait_for_copies(self._job_id, self._paths.number)
            fetched = self._patiently(lambda: self._newest_after(have_step))
            if ran_elsewhere:
                self._patiently(self._artifacts)
            return fetched
        finally:
            shutil.rmtree(self._arrivals, ignore_errors=True)

    def weights(self, job_id: str, path: Path) -> None:
        """Fetch the weights that another job left to the path where its host has them. Raises `CannotFetch`.

        If its host copies them still, that is waited for. If nobody has them, the rank says so.
        """
        is_copied = self._wait_for_copies(job_id)
        has_come = self._patiently(lambda: self._one_artifact(job_id, "model.weights.h5", path))
        if not has_come and not is_copied:
            raise CannotFetch(f"the weights of job {job_id} are not copied yet")

    def _start(self, keys: Collection[Key] = ()) -> rows.Start:
        with self._sessions() as session:
            return rows.start_of(session, self._job_id, self._paths.number, keys)

    def of_other_job(self, job_id: str, epoch: int, *, is_script: bool) -> Fetched | None:
        """Fetch the newest checkpoint of an epoch of another job, from which this one continues. Raises as `run`."""
        self._wait_for_copies(job_id)
        try:
            return self._patiently(lambda: self._of_epoch(job_id, epoch, is_script))
        finally:
            shutil.rmtree(self._arrivals, ignore_errors=True)

    def _of_epoch(self, job_id: str, epoch: int, is_script: bool) -> Fetched | None:
        require_mark(self._sessions, self._store)
        manifests = Manifests(self._store, job_id)
        with self._sessions() as session:
            saved = checkpoints_among(session, get_job(session, job_id), manifests.checkpoints())
        of_epoch = [one.key for one in saved if one.epoch == epoch]
        fetched = self._newest_of(of_epoch, manifests, lambda _: OTHER_JOB, is_script=is_script)
        return None if fetched is None else replace(fetched, is_of_other_job=True)

    def _newest_after(self, have_step: int) -> Fetched | None:
        """Fetch the newest one that is whole in the store. None if there is none after this step."""
        require_mark(self._sessions, self._store)
        manifests = Manifests(self._store, self._job_id)
        there = set(manifests.checkpoints())
        start = self._start(there)
        newer = [saved.key for saved in start.saved if saved.key in there and saved.step > have_step]
        own = self._paths.number  # Hora's own loop looks into the folder of its own attempt first
        place = (lambda attempt: attempt) if start.is_script else (lambda _: own)
        return self._newest_of(newer, manifests, place, is_script=start.is_script)

    def _newest_of(
        self, keys: Iterable[Key], manifests: Manifests, place: Callable[[int], int], *, is_script: bool
    ) -> Fetched | None:
        """Fetch the first one that is whole. `place` says in which attempt's folder that of an attempt belongs."""
        for attempt, step in keys:
            began = time.monotonic()
            try:
                manifest = manifests.checkpoint(attempt, step)
                if manifest.step != step:
                    raise DamagedCopy(f"its manifest is of step {manifest.step}")
                self._place(manifest, attempt_folder(self._paths.checkpoints, place(attempt)), is_script=is_script)
            except (DamagedCopy, NotInStore) as error:
                _log.warning("the copy of step %d is passed over: %s", step, error)
                continue
            _log.info("continuing from step %d, fetched from the store", step)
            return Fetched(manifest, time.monotonic() - began)
        return None

    def _wait_for_copies(self, job_id: str, before: int | None = None) -> bool:
        """Wait for the host of a job's last attempt, or of that before an attempt, as long as it lives and can copy.

        Returns whether nobody copies any more.
        """
        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            host = self._patiently(lambda: self._copying_host(job_id, before))
            if host is None:
                return True
            if time.monotonic() >= give_up_at:
                _log.warning("host %s still copies: not waiting for it any longer", host)
                return False
            self._require_needed()
            self._waits(f"host {host} still copies it to the store")
            time.sleep(_RETRY_S)

    def _copying_host(self, job_id: str, before: int | None) -> str | None:
        with self._sessions() as session:
            return rows.copying_host(session, job_id, before, host_timeout_s=self._host_timeout_s)

    def _place(self, manifest: CheckpointManifest, folder: Path, *, is_script: bool) -> None:
        """Put a checkpoint into the folder where the ranks look for it, whole or not at all."""
        arrival = self._arrivals / f"{manifest.attempt}-{manifest.step}"
        try:
            self._download(manifest.files, arrival)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            raise DamagedCopy("its manifest names a file and a folder alike") from None
        self._require_needed()
        if is_script:
            make_private(folder)
            place = checkpoint_folder(folder, manifest.step)
            if place.is_symlink():
                place.unlink()
            shutil.rmtree(place, ignore_errors=True)
            os.replace(arrival, place)
            note_script_state(self._paths.checkpoints, manifest.step, manifest.script or {})
        elif folder.exists():
            for file in manifest.files:
                os.replace(arrival / file.path, folder / Path(file.path).name)
        else:
            os.replace(arrival, folder)

    def _download(self, files: Iterable[CopiedFile], folder: Path) -> None:
        make_private(folder)
        with ThreadPoolExecutor(_FILES_AT_ONCE, "fetching") as pool:
            try:
                list(pool.map(lambda file: self._download_one(file, folder / file.path), files))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _download_one(self, file: CopiedFile, path: Path) -> None:
        """Download a file and check it. After an interruption those that have arrived are not fetched again."""
        if path in self._arrived:
            return
        make_private(path.parent)
        path.unlink(missing_ok=True)
        self._store.download(file.key, path, still_needed=self._still_needed)
        with path.open("rb") as content:
            digest = self._digest(content)
            os.fsync(content.fileno())
        if (path.stat().st_size, digest) != (file.bytes, file.sha256):
            raise DamagedCopy(f"{file.path} is not what was copied")
        modified_s = file.modified_at.timestamp()
        os.utime(path, (modified_s, modified_s))
        self._arrived.add(path)
        self._give_up_at = time.monotonic() + PATIENCE_S

    def _digest(self, content: BinaryIO) -> str:
        digest = hashlib.sha256()
        while chunk := content.read(_READ_BYTES):
            self._require_needed()
            digest.update(chunk)
        return digest.hexdigest()

    def _artifacts(self) -> None:
        """Fetch the artifacts that earlier attempts left on other hosts. What is newer here stays."""
        require_mark(self._sessions, self._store)
        manifest = Manifests(self._store, self._job_id).artifacts()
        for file in manifest.files if manifest is not None else ():
            self._put(file, self._paths.artifacts)

    def _one_artifact(self, job_id: str, name: str, path: Path) -> bool:
        """Fetch one artifact of another job. Returns whether it came."""
        require_mark(self._sessions, self._store)
        manifest = Manifests(self._store, job_id).artifacts()
        make_private(path.parent)
        return any(file.path == name and self._put(file, path.parent) for file in manifest.files) if manifest else False

    def _put(self, file: CopiedFile, folder: Path) -> bool:
        """Fetch a file to its place below a folder, whole or not at all, unless a newer one is there.

        A script can have put links there: a file whose folder is a link is passed over. False if it did not come.
        """
        arrival = self._arrivals / "artifacts" / hashlib.sha256(file.key.encode()).hexdigest()
        try:
            *above, name = parts_of(file.path)
            with opened_below(folder, above) as opened:
                with suppress(FileNotFoundError):
                    if os.lstat(name, dir_fd=opened).st_mtime >= file.modified_at.timestamp():
                        return True
                self._download_one(file, arrival)
                self._require_needed()
                os.replace(arrival, name, dst_dir_fd=opened)
        except (DamagedCopy, NotInStore, ArtifactNotFound, NotADirectoryError, IsADirectoryError) as error:
            _log.warning("the artifact %r is not fetched: %s", file.path, error)
            return False
        return True

    def _require_needed(self) -> None:
        if not self._still_needed():
            raise CannotFetch("it is not needed any more")

    def _patiently(self, action: Callable[[], _Result]) -> _Result:
        """Run `action` until store and database answer. Raises `CannotFetch` when that takes too long."""
        while True:
            self._require_needed()
            try:
                return action()
            except StoreAway as error:
                if time.monotonic() > self._give_up_at:
                    raise CannotFetch(str(error)) from None
                _log.warning("waiting for the store: %s", error)
                self._waits(f"the store is away: {error}")
            except DBAPIError as error:  # the lease says for how long
                if not is_away(error):
                    raise
                _log.warning("the database is away: %s", error.orig)
            time.sleep(_RETRY_S)


@contextmanager
def opened_below(folder: Path, names: Sequence[str]) -> Iterator[int]:
    """Open a folder below another one, and make those on the way that are missing. No link below `folder` is followed.

    Raises `NotADirectoryError` for a link.
    """
    opened = os.open(folder, _FOLDER)
    try:
        for name in names:
            with suppress(FileExistsError):
                os.mkdir(name, mode=0o700, dir_fd=opened)
            try:
                inner = os.open(name, _FOLDER, dir_fd=opened)
            except OSError as error:
                raise NotADirectoryError(f"{name} is no folder: {error.strerror}") from None
            os.close(opened)
            opened = inner
        yield opened
    finally:
        os.close(opened)
