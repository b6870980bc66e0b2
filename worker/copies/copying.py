"""Copies files of a job to the store, and a checkpoint as a whole. Called by `worker.copies.attempt_copies`.

The manifest comes last: what is not in a manifest is no copy.

Raises `Changed` if a file changed or went while it was copied; the next pass tries again.
"""

import errno
import hashlib
import logging
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from jobs.copies import manifests
from jobs.copies.local_files import NotNeeded
from jobs.copies.manifests import CheckpointManifest, CopiedFile
from jobs.copies.resuming import SavedCheckpoint
from jobs.copies.store import Store
from jobs.runtime.files import open_regular, path_of
from jobs.runtime.open_folders import open_below, open_folder, walk
from worker.copies.holding import Changed

_log = logging.getLogger(__name__)

_FILES_AT_ONCE = 4
_READ_BYTES = 1024 * 1024
_LONGEST_KEY = 900  # bytes; S3 allows 1024
# A name went, or leads to something else than before.
_CHANGED = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE})

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
        copied = _copy_all(store, path, above, sent, still_needed)
    except OSError as error:
        if error.errno not in _CHANGED:
            raise
        raise Changed("the checkpoint was removed or changed while it was copied") from error
    return CheckpointManifest(
        job=job.job_id, attempt=saved.attempt, host=job.host, files=copied, step=saved.step, epoch=saved.epoch,
        saved_at=saved.saved_at, script=None if script is None else dict(script),
    )  # fmt: skip


def _copy_all(
    store: Store, path: Path, above: str, sent: dict[str, str], still_needed: StillNeeded
) -> list[CopiedFile]:
    """Copy a folder with all files below it, or one file. The script may change it all the while."""
    has_failed = False

    def copy(name: str, descriptor: int) -> CopiedFile:
        return copy_file(
            store, descriptor, name, key_below(above, name), sent, lambda: still_needed() and not has_failed
        )

    try:
        top = open_folder(path)
    except NotADirectoryError:
        return [copy(path.name, open_regular(path, follow=False))]
    try:
        names = list(_files_below(top))
        with ThreadPoolExecutor(_FILES_AT_ONCE, "copying") as pool:
            try:
                return list(pool.map(lambda name: copy(name, open_below(top, name)), names))
            except BaseException:
                has_failed = True  # so that the others end soon
                pool.shutdown(cancel_futures=True)
                raise
    finally:
        os.close(top)


def _files_below(top: int) -> Iterator[str]:
    """The regular files of a checkpoint, by their paths below it."""
    for below in walk(top):
        for name in below.others:
            relative = below.path + name
            if not stat.S_ISREG(os.stat(name, dir_fd=below.descriptor, follow_symlinks=False).st_mode):
                _log.warning("%r is not copied with its checkpoint: it is no regular file", relative)
            elif relative.encode("utf-8", "ignore") != os.fsencode(relative):
                _log.warning("%r is not copied with its checkpoint: its name is not UTF-8", relative)
            else:
                yield relative


def key_below(above: str, name: str) -> str:
    """Where a file lies in the store: by its name, or by a digest of it if the store could not hold the name."""
    key = f"{above}/{name}"
    encoded = os.fsencode(key)
    is_plain = name.isprintable() and not any(mark in name for mark in '\\?#*[]{}^%`"<>~|')
    if is_plain and len(encoded) <= _LONGEST_KEY:
        return key
    return f"{above}/by-name/{hashlib.sha256(os.fsencode(name)).hexdigest()}"


def copy_file(
    store: Store, descriptor: int, name: str, key: str, sent: dict[str, str], still_needed: StillNeeded
) -> CopiedFile:
    """Copy an open file and close it, unless it was sent before."""
    with os.fdopen(descriptor, "rb") as file:
        before = os.fstat(file.fileno())
        digest = digest_of(file, still_needed)
        if sent.get(key) != digest:
            store.upload(key, path_of(file.fileno()), still_needed=still_needed)
        after = os.fstat(file.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise Changed(f"{name} changed while it was copied")
    sent[key] = digest
    modified_at = datetime.fromtimestamp(before.st_mtime, UTC)
    return CopiedFile(path=name, key=key, bytes=before.st_size, sha256=digest, modified_at=modified_at)


def digest_of(file: IO[bytes], still_needed: StillNeeded) -> str:
    """The SHA-256 of an open file, in hex. Raises `NotNeeded`."""
    return digest_of_first(file, os.fstat(file.fileno()).st_size, still_needed)


def digest_of_first(file: IO[bytes], size: int, still_needed: StillNeeded, into: IO[bytes] | None = None) -> str:
    """The SHA-256 of the first `size` bytes, in hex. They are also written to `into`. Raises `NotNeeded`."""
    digest = hashlib.sha256()
    file.seek(0)
    while size > 0 and (chunk := file.read(min(size, _READ_BYTES))):
        if not still_needed():
            raise NotNeeded
        digest.update(chunk)
        if into is not None:
            into.write(chunk)
        size -= len(chunk)
    return digest.hexdigest()
