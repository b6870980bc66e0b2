"""Manifests: which files make a copy in the store. One is written when all its files are there.

    jobs/JOB/checkpoints/attempt-2/step-0000000123/PATH      the files of a checkpoint
    jobs/JOB/artifacts/attempt-2/DIGEST/PATH                 an artifact, by its content: it is never changed
    jobs/JOB/manifests/checkpoint-2-0000000123.json          complete, from now on
    jobs/JOB/manifests/artifacts-2.json                      what the folder of the artifacts held

Only the host that ran an attempt writes its copies. So a host that was cut off cannot change those of a later attempt.

    DamagedCopy     a manifest or a file in the store is not what was written
"""

import re
from collections.abc import Set
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from jobs.copies.store import NotInStore, Store

_CHECKPOINT = re.compile(r"checkpoint-([0-9]{1,9})-([0-9]{10,18})\.json")
_FILE_OF_CHECKPOINT = re.compile(r"/checkpoints/attempt-([0-9]{1,9})/step-([0-9]{10,18})/")
_ARTIFACTS = re.compile(r"artifacts-([0-9]{1,9})\.json")
_Count = Annotated[int, Field(ge=0, lt=2**63)]


class DamagedCopy(ValueError):
    """A manifest or a file in the store is not what was written."""


class CopiedFile(BaseModel):
    """A file of a copy. `path` is below the folder that was copied; `key` says where the store has it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    key: str
    bytes: _Count
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    modified_at: datetime

    @field_validator("path", "key")
    @classmethod
    def _leads_nowhere_else(cls, path: str) -> str:
        if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
            raise ValueError("it leads out of its folder")
        return path


class _Manifest(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    job: str
    attempt: int
    host: str
    files: list[CopiedFile]

    @property
    def total_bytes(self) -> int:
        """The size of its files."""
        return sum(file.bytes for file in self.files)


_AnyManifest = TypeVar("_AnyManifest", bound=_Manifest)


class CheckpointManifest(_Manifest):
    """A checkpoint in the store. `script` is what the rank of a script knew of the run then."""

    step: _Count
    epoch: _Count
    saved_at: datetime
    script: dict[str, Any] | None = None


class ArtifactsManifest(_Manifest):
    """The artifacts of a job in the store, as the host of an attempt last saw them."""

    copied_at: datetime


def folder_of(job_id: str) -> str:
    """The key above everything in the store that a job left."""
    return f"jobs/{job_id}"


def checkpoint_folder(job_id: str, attempt: int, step: int) -> str:
    """The key above the files of a checkpoint."""
    return f"{folder_of(job_id)}/checkpoints/attempt-{attempt}/step-{step:010d}"


def artifacts_folder(job_id: str, attempt: int) -> str:
    """The key above the artifacts that the host of an attempt copied."""
    return f"{folder_of(job_id)}/artifacts/attempt-{attempt}"


def _manifests_folder(job_id: str) -> str:
    return f"{folder_of(job_id)}/manifests"


def checkpoint_manifest_key(job_id: str, attempt: int, step: int) -> str:
    """The key of the file that says that a checkpoint is complete."""
    return f"{_manifests_folder(job_id)}/checkpoint-{attempt}-{step:010d}.json"


def _artifacts_manifest_key(job_id: str, attempt: int) -> str:
    return f"{_manifests_folder(job_id)}/artifacts-{attempt}.json"


class Manifests:
    """The manifests of one job, as the store had them a moment ago. Raises `StoreAway` in every method."""

    def __init__(self, store: Store, job_id: str) -> None:
        self._store = store
        self._job_id = job_id
        self._names = [file.key.rpartition("/")[2] for file in store.files(_manifests_folder(job_id))]

    def checkpoints(self) -> list[tuple[int, int]]:
        """Attempt and step of the complete checkpoints, the newest attempt and step first."""
        matches = filter(None, map(_CHECKPOINT.fullmatch, self._names))
        return sorted(((int(match[1]), int(match[2])) for match in matches), reverse=True)

    def checkpoint(self, attempt: int, step: int) -> CheckpointManifest:
        """The manifest of a checkpoint. Raises `DamagedCopy`, `NotInStore`."""
        content = self._store.read(checkpoint_manifest_key(self._job_id, attempt, step))
        return _parsed(CheckpointManifest, content, self._job_id, attempt)

    def artifacts(self) -> ArtifactsManifest | None:
        """The manifest of the newest attempt that has one. A damaged one is passed over. None: there is none."""
        attempts = [int(match[1]) for match in map(_ARTIFACTS.fullmatch, self._names) if match]
        newest_first = map(self.artifacts_of, sorted(attempts, reverse=True))
        return next((manifest for manifest in newest_first if manifest is not None), None)

    def artifacts_of(self, attempt: int) -> ArtifactsManifest | None:
        """The manifest that the host of an attempt wrote. None if there is none, or a damaged one."""
        try:
            content = self._store.read(_artifacts_manifest_key(self._job_id, attempt))
            return _parsed(ArtifactsManifest, content, self._job_id, attempt)
        except (DamagedCopy, NotInStore):
            return None

    def artifact_attempts(self) -> list[int]:
        """The attempts whose host copied artifacts."""
        return sorted(int(match[1]) for match in map(_ARTIFACTS.fullmatch, self._names) if match)


def checkpoints_with_files(store: Store, job_id: str) -> set[tuple[int, int]]:
    """Attempt and step of the checkpoints of a job of which the store has any file, complete or not."""
    keys = (file.key for file in store.files(f"{folder_of(job_id)}/checkpoints"))
    return {(int(match[1]), int(match[2])) for match in map(_FILE_OF_CHECKPOINT.search, keys) if match}


def write_checkpoint_manifest(store: Store, manifest: CheckpointManifest) -> None:
    """Make a checkpoint complete, whose files are in the store. Raises `StoreAway`."""
    key = checkpoint_manifest_key(manifest.job, manifest.attempt, manifest.step)
    store.write(key, manifest.model_dump_json().encode())


def write_artifacts_manifest(store: Store, manifest: ArtifactsManifest) -> None:
    """Say which artifacts a job has; their files are in the store. Raises `StoreAway`."""
    store.write(_artifacts_manifest_key(manifest.job, manifest.attempt), manifest.model_dump_json().encode())


def remove_checkpoint(store: Store, job_id: str, attempt: int, step: int) -> None:
    """Remove a checkpoint: first what makes it complete. Raises `StoreAway`."""
    store.remove([checkpoint_manifest_key(job_id, attempt, step)])
    store.remove_below(checkpoint_folder(job_id, attempt, step))


def remove_unnamed_artifacts(store: Store, job_id: str, *, named: Set[str], last_attempt: int) -> None:
    """Remove the manifests before that of an attempt, and every artifact up to it but those `named`.

    Raises `StoreAway`.
    """
    for attempt in range(1, last_attempt + 1):
        if attempt < last_attempt:
            store.remove([_artifacts_manifest_key(job_id, attempt)])
        keys = [file.key for file in store.files(artifacts_folder(job_id, attempt))]
        store.remove([key for key in keys if key not in named])


def _parsed(kind: type[_AnyManifest], content: bytes, job_id: str, attempt: int) -> _AnyManifest:
    try:
        manifest = kind.model_validate_json(content)
    except ValidationError as error:
        raise DamagedCopy(f"the manifest is damaged: {error.error_count()} of its fields are wrong") from None
    above = f"{folder_of(job_id)}/"
    is_in_place = all(file.key.startswith(above) for file in manifest.files)
    if (manifest.job, manifest.attempt) != (job_id, attempt) or not is_in_place:
        raise DamagedCopy("the manifest is of another job or attempt")
    return manifest
