"""Fetches from the store what an attempt starts from, before its ranks start. Called by `worker.copies.start`.

The checkpoint comes from this host's disk if the newest one is there. Otherwise the store is asked, for the newest
first. A copy that is damaged or not whole is passed over for the one before it. If the host of the attempt before still
copies what that left, it is waited for, for some time.

    CannotFetch     what the attempt starts from is only in the store, and that could not be reached for too long
"""

import hashlib
import json
import logging
import os
import shutil
import time
import zipfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from jobs.copies.manifests import CheckpointManifest, CopiedFile, DamagedCopy, Manifests
from jobs.copies.marks import require_mark
from jobs.copies.resuming import SavedCheckpoint
from jobs.copies.store import NotInStore, Store, StoreAway
from jobs.db.engine import Sessions
from jobs.runtime.checkpoint_folders import (
    SCRIPT_STATES,
    LocalCheckpoint,
    attempt_folder,
    checkpoint_folder,
    complete_below,
)
from jobs.runtime.files import make_private
from jobs.runtime.settings import Settings
from worker.attempt.paths import AttemptPaths
from worker.copies import rows
from worker.copies.rows import Start

_log = logging.getLogger(__name__)

PATIENCE_S = 300.0  # for a store that is away, and for what another host still copies
_RETRY_S = 1.0
_FILES_AT_ONCE = 4
_READ_BYTES = 1024 * 1024

StillNeeded = Callable[[], bool]
_Result = TypeVar("_Result")


class CannotFetch(RuntimeError):
    """What the attempt starts from is only in the store, and that could not be reached for too long."""


@dataclass(frozen=True)
class Fetched:
    """A checkpoint that came from the store."""

    manifest: CheckpointManifest
    duration_s: float

    def to_event(self) -> dict[str, Any]:
        """The data of its event."""
        manifest = self.manifest
        return {
            "attempt": manifest.attempt, "step": manifest.step, "bytes": manifest.total_bytes,
            "duration_s": self.duration_s,
        }  # fmt: skip


class Fetch:
    """Makes this host ready for an attempt that starts from what earlier attempts left. `run` does all of it."""

    def __init__(
        self, sessions: Sessions, store: Store, paths: AttemptPaths, config: Settings, *, still_needed: StillNeeded
    ) -> None:
        self._sessions = sessions
        self._store = store
        self._paths = paths
        self._host = config.host
        self._host_timeout_s = config.host_timeout_s
        self._still_needed = still_needed
        self._give_up_at = time.monotonic() + PATIENCE_S

    def run(self) -> Fetched | None:
        """Fetch what is missing. Returns the checkpoint that came. Raises `CannotFetch`, `OSError`."""
        with self._sessions() as session:
            start = rows.start_of(session, self._paths.job_dir.name, self._paths.number)
        local = newest_whole(self._paths.checkpoints, of_script=start.is_script)
        have_step = -1 if local is None else local.step
        wanted = [saved for saved in start.saved if saved.step > have_step]
        if not wanted:
            return None
        ran_elsewhere = start.host_before not in (None, self._host)
        if ran_elsewhere:
            self._wait_for_copies()
        fetched = self._patiently(lambda: self._newest_of(wanted, start))
        if ran_elsewhere:
            self._patiently(lambda: self._artifacts(self._paths.job_dir.name))
        return fetched

    def weights(self, job_id: str, path: Path) -> None:
        """Fetch the weights that another job left to the path where its host has them. Raises `CannotFetch`."""
        self._patiently(lambda: self._one_artifact(job_id, "model.weights.h5", path))

    def _newest_of(self, wanted: Sequence[SavedCheckpoint], start: Start) -> Fetched | None:
        """Fetch the newest one that is whole in the store. None if there is none."""
        require_mark(self._sessions, self._store)
        found = Manifests(self._store, self._paths.job_dir.name)
        there = set(found.checkpoints())
        for saved in wanted:
            if (saved.attempt, saved.step) not in there:
                continue
            began = time.monotonic()
            try:
                manifest = found.checkpoint(saved.attempt, saved.step)
                self._place(manifest, start)
            except (DamagedCopy, NotInStore) as error:
                _log.warning("the copy of step %d is passed over: %s", saved.step, error)
                continue
            _log.info("continuing from step %d, fetched from the store", saved.step)
            return Fetched(manifest, time.monotonic() - began)
        return None

    def _wait_for_copies(self) -> None:
        """Wait for the host of the attempt before, as long as it lives and the store answers it."""
        while self._still_needed() and time.monotonic() < self._give_up_at:
            with self._sessions() as session:
                host = rows.copying_host(
                    session, self._paths.job_dir.name, self._paths.number, host_timeout_s=self._host_timeout_s
                )
            if host is None:
                return
            _log.info("waiting for host %s, which still copies what the attempt before left", host)
            time.sleep(_RETRY_S)

    def _place(self, manifest: CheckpointManifest, start: Start) -> None:
        """Put a checkpoint where the ranks look for it, whole or not at all."""
        root = self._paths.checkpoints
        unfinished = root / f".fetching-{manifest.attempt}-{manifest.step}"
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            self._download(manifest.files, unfinished)
            if start.is_script:
                folder = attempt_folder(root, manifest.attempt)
                make_private(folder)
                place = checkpoint_folder(folder, manifest.step)
                shutil.rmtree(place, ignore_errors=True)
                os.replace(unfinished, place)
                _note_script_state(root, manifest)
            else:  # Hora's own loop looks into the folder of its own attempt first
                make_private(self._paths.own_checkpoints)
                for file in manifest.files:
                    os.replace(unfinished / file.path, self._paths.own_checkpoints / Path(file.path).name)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def _download(self, files: Iterable[CopiedFile], folder: Path) -> None:
        make_private(folder)
        with ThreadPoolExecutor(_FILES_AT_ONCE, "fetching") as pool:
            try:
                list(pool.map(lambda file: self._download_one(file, folder / file.path), files))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _download_one(self, file: CopiedFile, path: Path) -> None:
        make_private(path.parent)
        self._store.download(file.key, path, still_needed=self._still_needed)
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
            os.fsync(content.fileno())
        if (path.stat().st_size, digest) != (file.bytes, file.sha256):
            raise DamagedCopy(f"{file.path} is not what was copied")
        modified_s = file.modified_at.timestamp()
        os.utime(path, (modified_s, modified_s))

    def _artifacts(self, job_id: str) -> None:
        """Fetch the artifacts that earlier attempts left on other hosts. What is newer here stays."""
        require_mark(self._sessions, self._store)
        manifest = Manifests(self._store, job_id).artifacts()
        for file in manifest.files if manifest is not None else ():
            path = self._paths.artifacts / file.path
            with suppress(FileNotFoundError):
                if path.stat().st_mtime >= file.modified_at.timestamp():
                    continue
            try:
                self._put(file, path)
            except (DamagedCopy, NotInStore) as error:
                _log.warning("the artifact %s is not fetched: %s", file.path, error)

    def _one_artifact(self, job_id: str, name: str, path: Path) -> None:
        require_mark(self._sessions, self._store)
        manifest = Manifests(self._store, job_id).artifacts()
        for file in manifest.files if manifest is not None else ():
            if file.path == name:
                try:
                    self._put(file, path)
                except (DamagedCopy, NotInStore) as error:
                    _log.warning("%s of job %s is not fetched: %s", name, job_id, error)

    def _put(self, file: CopiedFile, path: Path) -> None:
        """Fetch one file to its place, whole or not at all."""
        unfinished = path.with_name(f".fetching-{path.name}"[:255])
        unfinished.unlink(missing_ok=True)
        try:
            self._download_one(file, unfinished)
            os.replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)

    def _patiently(self, action: Callable[[], _Result]) -> _Result:
        """Run `action` until the store answers. Raises `CannotFetch` when that takes too long, or is not needed."""
        while True:
            try:
                return action()
            except StoreAway as error:
                if not self._still_needed() or time.monotonic() > self._give_up_at:
                    raise CannotFetch(str(error)) from None
                _log.warning("waiting for the store: %s", error)
            time.sleep(_RETRY_S)


def newest_whole(root: Path, *, of_script: bool) -> LocalCheckpoint | None:
    """The newest checkpoint on this host. A damaged file of Hora's own loop is passed over."""
    for found in complete_below(root, of_script=of_script):
        if of_script or _is_whole(found.path):
            return found
        _log.warning("%s is damaged and passed over", found.path.name)
    return None


def _is_whole(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (OSError, zipfile.BadZipFile, EOFError, ValueError):
        return False


def _note_script_state(root: Path, manifest: CheckpointManifest) -> None:
    """Let the rank of a script know of a checkpoint what it knew when that was saved."""
    path = root / SCRIPT_STATES
    try:
        states = json.loads(path.read_bytes())
    except (OSError, ValueError):
        states = {}
    states[str(manifest.step)] = manifest.script or {}
    unfinished = path.with_name(f".{SCRIPT_STATES}")
    unfinished.write_text(json.dumps(states), "utf-8")
    unfinished.replace(path)
