"""Copies the artifacts of one attempt to the store. Called by `worker.copies.attempt_copies`.

The manifest comes last: what is not in a manifest is no copy.
"""

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from jobs.copies import manifests
from jobs.copies.manifests import ArtifactsManifest, CopiedFile, Manifests
from jobs.copies.store import Store
from jobs.data import artifact_files
from jobs.data.artifact_files import Artifact, ArtifactNotFound, ArtifactsUnseen
from jobs.runtime.files import NotRegular
from worker.copies.copying import JobHere, StillNeeded, copy_file, digest_of, digest_of_first, key_below
from worker.copies.holding import Changed

_log = logging.getLogger(__name__)

_QUIET_S = 5.0  # while its job runs, a file that changed just now is likely to change again
# A file that changes all the time is copied again only after ten times as long as the copy took, and not at once.
_REST, _SHORTEST_REST_S = 10.0, 30.0
_SMALL_BYTES = 32 * 1024 * 1024  # a larger artifact would delay a checkpoint for too long


def _as_it_is_now(descriptor: int, name: str, still_needed: StillNeeded) -> int:
    """A copy in memory of an open file, which is closed. A file that only grows meanwhile has not changed.

    Raises `Changed`.
    """
    copy = os.memfd_create("artifact")
    try:
        with os.fdopen(descriptor, "rb") as file, os.fdopen(os.dup(copy), "wb") as into:
            before = os.fstat(descriptor)
            digest = digest_of_first(file, before.st_size, still_needed, into)
            after = os.fstat(descriptor)
            if after.st_size < before.st_size or (
                after.st_mtime_ns != before.st_mtime_ns
                and digest != digest_of_first(file, before.st_size, still_needed)
            ):
                raise Changed(f"{name} changed while it was copied")
        os.utime(copy, ns=(before.st_atime_ns, before.st_mtime_ns))
    except BaseException:
        os.close(copy)
        raise
    return copy


@dataclass
class _Known:
    """An artifact as it was copied last."""

    etag: str
    file: CopiedFile
    copied_at: float  # on the steady clock
    took_s: float


@dataclass
class ArtifactCopies:
    """The artifacts of one attempt in the store, as its copier knows them. `waits_bytes` is what was not copied yet.

    `require_store` raises `StoreAway` if the store is not there.
    """

    job: JobHere
    store: Store
    still_needed: StillNeeded
    require_store: Callable[[], None]
    _known: dict[str, _Known] = field(default_factory=dict)
    _written: ArtifactsManifest | None = None
    _has_read: bool = False
    waits_bytes: int = 0
    _checkpoint_at: float = float("-inf")  # on the steady clock: a file that was copied before may be older than it

    def copy_before_checkpoint(self) -> None:
        """Copy what has changed and is not large: a restart must not find it older than the checkpoint.

        A script that appends to a file would leave a hole in it. What is large, or changes this very moment, is due
        with the next pass. Raises `StoreAway`.
        """
        self._checkpoint_at = time.monotonic()
        artifacts = self._listed()
        if artifacts is None:
            return
        due = [one for one in artifacts if self._has_changed(one) and one.bytes <= _SMALL_BYTES]
        try:
            self._copy(artifacts, due)
        except Changed as error:
            _log.info("a checkpoint is copied without the newest artifacts: %s", error)

    def copy(self, *, is_final: bool) -> None:
        """Copy what has changed, then write the manifest. While the job runs, restless files wait for a checkpoint.

        Raises `StoreAway`, `Changed`.
        """
        artifacts = self._listed()
        if artifacts is None:
            return
        if is_final and not self._has_read:
            self._read_written()
        self._copy(artifacts, [one for one in artifacts if self._is_due(one, is_final=is_final)])

    def _copy(self, artifacts: list[Artifact], due: list[Artifact]) -> None:
        self.waits_bytes = sum(artifact.bytes for artifact in due)
        if due:
            self.require_store()
            if not self._has_read:
                self._read_written()
        changed: Changed | None = None
        for artifact in due:
            try:
                if not self._is_same(artifact):
                    self._copy_one(artifact)
            except Changed as error:
                changed = error  # the others are copied all the same
            self.waits_bytes -= artifact.bytes
        # What an earlier process copied stays, until its turn comes to be looked at.
        copied = {file.path: file for file in self._written.files} if self._written is not None else {}
        copied |= {path: known.file for path, known in self._known.items()}
        files = [copied[path] for path in sorted(copied.keys() & {artifact.path for artifact in artifacts})]
        if (self._written is None and files) or (self._written is not None and self._written.files != files):
            self.require_store()
            self._write(files)
        if changed is not None:
            raise changed

    def _listed(self) -> list[Artifact] | None:
        """The artifacts here. None: their folder is gone, so the copies are all that is left of them, and stay."""
        try:
            return artifact_files.listed(self.job.runs_dir, self.job.job_id)
        except ArtifactsUnseen:
            self.waits_bytes = 0
            return None

    def _has_changed(self, artifact: Artifact) -> bool:
        copied = self._known.get(artifact.path)
        return copied is None or copied.etag != artifact.etag

    def _is_due(self, artifact: Artifact, *, is_final: bool) -> bool:
        if not self._has_changed(artifact):
            return False
        if is_final:
            return True
        copied = self._known.get(artifact.path)
        copied_at, took_s = (float("-inf"), 0.0) if copied is None else (copied.copied_at, copied.took_s)
        now = time.monotonic()
        if copied_at < self._checkpoint_at and now > copied_at + _REST * took_s:
            return True
        is_quiet = time.time() - artifact.modified_at.timestamp() >= _QUIET_S
        return is_quiet and now > copied_at + max(_SHORTEST_REST_S, _REST * took_s)

    def _read_written(self) -> None:
        """Read what an earlier process of this host wrote."""
        written = Manifests(self.store, self.job.job_id).artifacts()
        self._has_read = True
        if written is not None and written.attempt == self.job.attempt:
            self._written = written

    def _is_same(self, artifact: Artifact) -> bool:
        """Whether an earlier process copied this file as it is."""
        written = self._written.files if self._written is not None and artifact.path not in self._known else []
        copied = next((file for file in written if (file.path, file.bytes) == (artifact.path, artifact.bytes)), None)
        if copied is None:
            return False
        with os.fdopen(self._opened(artifact), "rb") as file:
            is_same = digest_of(file, self.still_needed) == copied.sha256
        if is_same:
            self._known[artifact.path] = _Known(artifact.etag, copied, time.monotonic(), 0.0)
        return is_same

    def _opened(self, artifact: Artifact) -> int:
        try:
            return artifact_files.opened(self.job.runs_dir, self.job.job_id, artifact.path).descriptor
        except (ArtifactNotFound, ArtifactsUnseen, NotRegular):
            raise Changed(f"{artifact.path} went while it was copied") from None

    def _copy_one(self, artifact: Artifact) -> None:
        began = time.monotonic()
        descriptor = self._opened(artifact)
        if os.fstat(descriptor).st_size <= _SMALL_BYTES:  # a script may write to it all the time
            descriptor = _as_it_is_now(descriptor, artifact.path, self.still_needed)
        with os.fdopen(descriptor, "rb") as file:
            digest = digest_of(file, self.still_needed)
            above = f"{manifests.artifacts_folder(self.job.job_id, self.job.attempt)}/{digest[:16]}"
            key, before = key_below(above, artifact.path), self._known.get(artifact.path)
            # With the content that it had before, it is there: a key that a manifest names is not written again.
            sent = {before.file.key: before.file.sha256} if before is not None else {}
            copied = copy_file(self.store, os.dup(descriptor), artifact.path, key, sent, self.still_needed)
        if copied.sha256 != digest:  # its key would say something else than it holds
            raise Changed(f"{artifact.path} changed while it was copied")
        now = time.monotonic()
        self._known[artifact.path] = _Known(artifact.etag, copied, now, now - began)

    def _write(self, files: list[CopiedFile]) -> None:
        before, job = self._written, self.job
        written = ArtifactsManifest(
            job=job.job_id, attempt=job.attempt, host=job.host, files=files, copied_at=datetime.now(UTC)
        )
        manifests.write_artifacts_manifest(self.store, written)
        self._written = written
        keys = {file.key for file in files}
        self.store.remove([file.key for file in before.files if file.key not in keys] if before is not None else [])
