"""Copies one checkpoint, or the artifacts of a job, to the store. Called by `worker.copies.copier`.

The manifest comes last: what is not in a manifest is no copy.

Raises `Changed` if a file changed or went while it was copied; the next pass tries again.
"""

import hashlib
import logging
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jobs.copies import manifests
from jobs.copies.local_files import NotNeeded
from jobs.copies.manifests import ArtifactsManifest, CheckpointManifest, CopiedFile, Manifests
from jobs.copies.resuming import SavedCheckpoint
from jobs.copies.store import Store
from jobs.data import artifact_files
from jobs.data.artifact_files import Artifact, ArtifactNotFound, ArtifactsUnseen
from jobs.runtime.files import NotRegular, open_regular, path_of
from worker.copies.holding import Changed

_log = logging.getLogger(__name__)

_FILES_AT_ONCE = 4
_READ_BYTES = 1024 * 1024
_LONGEST_KEY = 900  # bytes; S3 allows 1024
_QUIET_S = 5.0  # while its job runs, a file that changed just now is likely to change again
# A file that changes all the time is copied again only after ten times as long as the copy took, and not at once.
_REST, _SHORTEST_REST_S = 10.0, 30.0

StillNeeded = Callable[[], bool]


@dataclass(frozen=True)
class JobHere:
    """A job whose files this host has, and the attempt that left them."""

    job_id: str
    attempt: int
    host: str
    runs_dir: Path

    @property
    def job_dir(self) -> Path:
        """The folder of the job on this host."""
        return self.runs_dir / self.job_id

    @property
    def holding_dir(self) -> Path:
        """Where checkpoints are held that wait to be copied for this attempt."""
        return self.job_dir / "copying" / f"attempt-{self.attempt}"


def copy_checkpoint(
    store: Store,
    job: JobHere,
    path: Path,
    saved: SavedCheckpoint,
    *,
    script: Mapping[str, Any] | None,
    sent: dict[str, str],
    still_needed: StillNeeded,
) -> CheckpointManifest:
    """Copy a checkpoint of this host. Its manifest is not written: `manifests.write_checkpoint_manifest` does it.

    `script` is what the rank of a script knew. `sent` has the digests of what this process has brought to keys there:
    that is not sent again. Raises `StoreAway`, `Changed`, `OSError`.
    """
    above = manifests.checkpoint_folder(job.job_id, saved.attempt, saved.step)
    try:
        copied = _copy_all(store, list(_files_of(path)), above, sent, still_needed)
    except FileNotFoundError as error:
        raise Changed("the checkpoint was removed while it was copied") from error
    return CheckpointManifest(
        job=job.job_id, attempt=saved.attempt, host=job.host, files=copied, step=saved.step, epoch=saved.epoch,
        saved_at=saved.saved_at, script=None if script is None else dict(script),
    )  # fmt: skip


def _copy_all(
    store: Store, files: list[tuple[str, Path]], above: str, sent: dict[str, str], still_needed: StillNeeded
) -> list[CopiedFile]:
    has_failed = False

    def copy(file: tuple[str, Path]) -> CopiedFile:
        name, path = file
        return _copy_file(
            store, open_regular(path, follow=False), name, _key(above, name), sent,
            lambda: still_needed() and not has_failed,
        )  # fmt: skip

    with ThreadPoolExecutor(_FILES_AT_ONCE, "copying") as pool:
        try:
            return list(pool.map(copy, files))
        except BaseException:
            has_failed = True  # so that the others end soon
            pool.shutdown(cancel_futures=True)
            raise


def _files_of(path: Path) -> Iterator[tuple[str, Path]]:
    """The files of a held checkpoint by their name below it. A checkpoint of one file has the file's own name."""
    if not path.is_dir():
        yield path.name, path
        return
    for folder, _, names in os.walk(path, onerror=_fail):
        for name in names:
            inner = Path(folder, name)
            relative = str(inner.relative_to(path))
            if not stat.S_ISREG(inner.lstat().st_mode):
                _log.warning("%r is not copied with its checkpoint: it is no regular file", relative)
            elif relative.encode("utf-8", "ignore") != os.fsencode(relative):
                _log.warning("%r is not copied with its checkpoint: its name is not UTF-8", relative)
            else:
                yield relative, inner


def _fail(error: OSError) -> None:
    raise error


def _key(above: str, name: str) -> str:
    """Where a file lies in the store: by its name, or by a digest of it if the store could not hold the name."""
    key = f"{above}/{name}"
    encoded = os.fsencode(key)
    is_plain = name.isprintable() and not any(mark in name for mark in '\\?#*[]{}^%`"<>~|')
    if is_plain and len(encoded) <= _LONGEST_KEY:
        return key
    return f"{above}/by-name/{hashlib.sha256(os.fsencode(name)).hexdigest()}"


def _copy_file(
    store: Store, descriptor: int, name: str, key: str, sent: dict[str, str], still_needed: StillNeeded
) -> CopiedFile:
    """Copy an open file and close it, unless it was sent before."""
    with os.fdopen(descriptor, "rb") as file:
        before = os.fstat(file.fileno())
        digest = _digest(file, still_needed)
        if sent.get(key) != digest:
            store.upload(key, path_of(file.fileno()), still_needed=still_needed)
        after = os.fstat(file.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise Changed(f"{name} changed while it was copied")
    sent[key] = digest
    modified_at = datetime.fromtimestamp(before.st_mtime, UTC)
    return CopiedFile(path=name, key=key, bytes=before.st_size, sha256=digest, modified_at=modified_at)


def _digest(file: Any, still_needed: StillNeeded) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(_READ_BYTES):
        if not still_needed():
            raise NotNeeded
        digest.update(chunk)
    return digest.hexdigest()


@dataclass
class _Known:
    """An artifact as it was copied last."""

    etag: str
    file: CopiedFile
    copied_at: float  # on the steady clock
    took_s: float


@dataclass
class ArtifactCopies:
    """The artifacts of one attempt in the store, as its copier knows them. `waits_bytes` is what was not copied yet."""

    job: JobHere
    _known: dict[str, _Known] = field(default_factory=dict)
    _written: ArtifactsManifest | None = None
    _has_read: bool = False
    waits_bytes: int = 0
    _checkpoint_at: float = float("-inf")  # on the steady clock

    def checkpoint_copied(self) -> None:
        """A restart may continue from a checkpoint that was copied just now: it needs what was written before it."""
        self._checkpoint_at = time.monotonic()

    def copy(
        self, store: Store, *, is_final: bool, still_needed: StillNeeded, require_store: Callable[[], None]
    ) -> None:
        """Copy what has changed, then write the manifest. While the job runs, restless files wait for a checkpoint.

        Raises `StoreAway`, `Changed`.
        """
        artifacts = self._listed()
        due = [artifact for artifact in artifacts if self._is_due(artifact, is_final=is_final)]
        self.waits_bytes = sum(artifact.bytes for artifact in due)
        if due:
            require_store()
        if (due or is_final) and not self._has_read:
            self._read_written(store)
        changed: Changed | None = None
        for artifact in due:
            try:
                if not self._is_same(artifact, still_needed):
                    self._copy_one(store, artifact, still_needed)
            except Changed as error:
                changed = error  # the others are copied all the same
            self.waits_bytes -= artifact.bytes
        paths = {artifact.path for artifact in artifacts}
        files = [known.file for path, known in sorted(self._known.items()) if path in paths]
        if (self._written is None and files) or (self._written is not None and self._written.files != files):
            require_store()
            self._write(store, files)
        if changed is not None:
            raise changed

    def _listed(self) -> list[Artifact]:
        try:
            return list(artifact_files.listed(self.job.runs_dir, self.job.job_id))
        except ArtifactsUnseen:
            return []

    def _is_due(self, artifact: Artifact, *, is_final: bool) -> bool:
        copied = self._known.get(artifact.path)
        if copied is not None and copied.etag == artifact.etag:
            return False
        if is_final:
            return True
        copied_at, took_s = (float("-inf"), 0.0) if copied is None else (copied.copied_at, copied.took_s)
        now = time.monotonic()
        if copied_at < self._checkpoint_at and now > copied_at + _REST * took_s:
            return True
        is_quiet = time.time() - artifact.modified_at.timestamp() >= _QUIET_S
        return is_quiet and now > copied_at + max(_SHORTEST_REST_S, _REST * took_s)

    def _read_written(self, store: Store) -> None:
        """Read what an earlier process of this host wrote."""
        written = Manifests(store, self.job.job_id).artifacts()
        self._has_read = True
        if written is not None and written.attempt == self.job.attempt:
            self._written = written

    def _is_same(self, artifact: Artifact, still_needed: StillNeeded) -> bool:
        """Whether an earlier process copied this file as it is."""
        written = self._written.files if self._written is not None and artifact.path not in self._known else []
        copied = next((file for file in written if (file.path, file.bytes) == (artifact.path, artifact.bytes)), None)
        if copied is None:
            return False
        with os.fdopen(self._opened(artifact), "rb") as file:
            is_same = _digest(file, still_needed) == copied.sha256
        if is_same:
            self._known[artifact.path] = _Known(artifact.etag, copied, time.monotonic(), 0.0)
        return is_same

    def _opened(self, artifact: Artifact) -> int:
        try:
            return artifact_files.opened(self.job.runs_dir, self.job.job_id, artifact.path).descriptor
        except (ArtifactNotFound, ArtifactsUnseen, NotRegular):
            raise Changed(f"{artifact.path} went while it was copied") from None

    def _copy_one(self, store: Store, artifact: Artifact, still_needed: StillNeeded) -> None:
        began = time.monotonic()
        with os.fdopen(self._opened(artifact), "rb") as file:
            digest = _digest(file, still_needed)
        above = f"{manifests.artifacts_folder(self.job.job_id, self.job.attempt)}/{digest[:16]}"
        key, before = _key(above, artifact.path), self._known.get(artifact.path)
        # With the content that it had before, it is there: a key that a manifest names is not written again.
        sent = {before.file.key: before.file.sha256} if before is not None else {}
        copied = _copy_file(store, self._opened(artifact), artifact.path, key, sent, still_needed)
        if copied.sha256 != digest:  # its key would say something else than it holds
            raise Changed(f"{artifact.path} changed while it was copied")
        now = time.monotonic()
        self._known[artifact.path] = _Known(artifact.etag, copied, now, now - began)

    def _write(self, store: Store, files: list[CopiedFile]) -> None:
        before, job = self._written, self.job
        written = ArtifactsManifest(
            job=job.job_id, attempt=job.attempt, host=job.host, files=files, copied_at=datetime.now(UTC)
        )
        manifests.write_artifacts_manifest(store, written)
        self._written = written
        keys = {file.key for file in files}
        store.remove([file.key for file in before.files if file.key not in keys] if before is not None else [])
