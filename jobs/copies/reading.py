"""What the store has of a job, for people who read it. Called by the api, in threads that may wait for the store.

That the store has nothing of a job is only believed if it has its mark: see `jobs.copies.marks`.
"""

from jobs.copies.manifests import ArtifactsManifest, CheckpointManifest, DamagedCopy, Manifests, folder_of
from jobs.copies.marks import require_mark
from jobs.copies.resuming import Key, best_first, checkpoints_among
from jobs.copies.store import NotInStore, Store
from jobs.db.engine import Sessions
from jobs.lifecycle.store import get_job


def stored_artifacts(sessions: Sessions, store: Store, job_id: str) -> ArtifactsManifest | None:
    """The artifacts of a job, as the host of its newest attempt last copied them. Raises `StoreAway`.

    None: no host has copied any.
    """
    manifest = Manifests(store, job_id).artifacts()
    if manifest is None:
        require_mark(sessions, store)
    return manifest


def stored_checkpoints(
    sessions: Sessions, store: Store, job_id: str, *, before: tuple[int, int] | None, most: int
) -> tuple[list[CheckpointManifest], Key | None]:
    """The newest `most` checkpoints of a job that are whole in the store, the newest first. Raises `StoreAway`.

    They come before this step and attempt. Also the key of the best one of all that the store says are complete.
    """
    manifests = Manifests(store, job_id)
    complete = set(manifests.checkpoints())
    sizes = {file.key: file.bytes for file in store.files(f"{folder_of(job_id)}/checkpoints")} if complete else {}
    with sessions() as session:
        job = get_job(session, job_id)
        valid = checkpoints_among(session, job, complete)
        best = next((saved.key for saved in best_first(valid, job)), None)
    whole: list[CheckpointManifest] = []
    has_lost = not complete
    for saved in valid:
        if len(whole) >= most:
            break
        if before is not None and (saved.step, saved.attempt) >= before:
            continue
        manifest = _whole_checkpoint(manifests, saved.attempt, saved.step)
        if manifest is not None and all(sizes.get(file.key) == file.bytes for file in manifest.files):
            whole.append(manifest)
        else:
            has_lost = True
    if has_lost:
        require_mark(sessions, store)
    return whole, best


def stored_checkpoint(
    sessions: Sessions, store: Store, job_id: str, attempt: int, step: int
) -> CheckpointManifest | None:
    """The manifest of a checkpoint. None: the store does not have it, or it is damaged. Raises `StoreAway`."""
    manifest = _whole_checkpoint(Manifests(store, job_id), attempt, step)
    if manifest is None:
        require_mark(sessions, store)
    return manifest


def _whole_checkpoint(manifests: Manifests, attempt: int, step: int) -> CheckpointManifest | None:
    try:
        manifest = manifests.checkpoint(attempt, step)
    except (DamagedCopy, NotInStore):
        return None
    return manifest if manifest.step == step else None
