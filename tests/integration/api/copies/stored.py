"""What a host would have copied to the store, and what the rows say of it."""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime

from jobs.copies import manifests
from jobs.copies.manifests import ArtifactsManifest, CheckpointManifest, CopiedFile
from jobs.copies.store import Store
from jobs.db.engine import Sessions
from jobs.lifecycle.store import add_event
from jobs.model.states import EventKind

AT = datetime(2030, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def put_artifacts(store: Store, job_id: str, files: Mapping[str, bytes], *, attempt: int = 1) -> ArtifactsManifest:
    """Copy artifacts, and write their manifest."""
    above = manifests.artifacts_folder(job_id, attempt)
    copied = [_put(store, f"{above}/{_sha256(content)[:16]}", name, content) for name, content in files.items()]
    manifest = ArtifactsManifest(job=job_id, attempt=attempt, host="ha", files=copied, copied_at=AT)
    manifests.write_artifacts_manifest(store, manifest)
    return manifest


def put_checkpoint(
    store: Store, job_id: str, step: int, files: Mapping[str, bytes], *, attempt: int = 1
) -> CheckpointManifest:
    """Copy a checkpoint, and write its manifest."""
    above = manifests.checkpoint_folder(job_id, attempt, step)
    copied = [_put(store, above, name, content) for name, content in files.items()]
    manifest = CheckpointManifest(
        job=job_id, attempt=attempt, host="ha", files=copied, step=step, epoch=step // 10, saved_at=AT
    )
    manifests.write_checkpoint_manifest(store, manifest)
    return manifest


def note_checkpoint(
    sessions: Sessions, job_id: str, step: int, *, attempt: int = 1, val_accuracy: float | None = None
) -> None:
    """Store the events of a checkpoint, after one of the end of its epoch if there is a value."""
    at = {"epoch": step // 10, "step": step}
    with sessions.begin() as session:
        if val_accuracy is not None:
            data = at | {"val_accuracy": val_accuracy}
            add_event(session, job_id, EventKind.EPOCH_ENDED, attempt=attempt, data=data)
        add_event(session, job_id, EventKind.CHECKPOINT_SAVED, attempt=attempt, data=at | {"duration_s": 0.1})


def _put(store: Store, above: str, name: str, content: bytes) -> CopiedFile:
    key = f"{above}/{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    store.write(key, content)
    return CopiedFile(path=name, key=key, bytes=len(content), sha256=_sha256(content), modified_at=AT)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
