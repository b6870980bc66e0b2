"""Removes what is kept in the store no more. Called by `worker.copies.old`, which knows from the rows what that is."""

from jobs.copies.manifests import folder_of
from jobs.copies.store import Store


def jobs_in(store: Store) -> list[str]:
    """The ids of the jobs that have something in the store, and other names there. Raises `StoreAway`."""
    return store.folders("jobs")


def remove_kept_no_more(store: Store, job_id: str, *, checkpoints: bool, artifacts: bool) -> None:
    """Remove what a job left of these kinds, first what makes it complete. Raises `StoreAway`."""
    above = folder_of(job_id)
    kinds = (("checkpoint-", checkpoints), ("artifacts-", artifacts))
    old = tuple(f"{above}/manifests/{name}" for name, is_old in kinds if is_old)
    store.remove([file.key for file in store.files(f"{above}/manifests") if file.key.startswith(old)])
    if checkpoints and artifacts:
        store.remove_below(above)
    elif checkpoints:
        store.remove_below(f"{above}/checkpoints")
    elif artifacts:
        store.remove_below(f"{above}/artifacts")
