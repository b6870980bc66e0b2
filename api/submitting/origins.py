"""Finds the checkpoint from which a spec continues (`continue_from`). Called by `spec_checks`.

What the row of the other job says against it is found later, under its lock: `jobs.lifecycle.named_jobs`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from anyio import from_thread

from api.deps import Services
from jobs.copies.resuming import Key, SavedCheckpoint
from jobs.data.checkpoints import ends_an_epoch, kept_checkpoints
from jobs.db.tables import Job
from jobs.lifecycle.named_jobs import problems_of_named
from jobs.model.origins import Origin, origin_of, unlike
from jobs.model.problems import FieldProblem
from jobs.model.spec import Spec, spec_from

_MOST_NAMED = 20  # epochs in an answer
_MOST_STORED = 1000


@dataclass(frozen=True)
class _Before:
    """A job from which another may continue."""

    spec: Spec
    kept: Sequence[SavedCheckpoint]  # the newest first


class Origins:
    """The jobs from which specs continue; each is read once. Reading the store may raise `StoreIsAway`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._jobs: dict[str, _Before | None] = {}

    def resolve(self, spec: Spec) -> tuple[Spec, list[FieldProblem]]:
        """The spec with the epoch of its checkpoint, and why it cannot continue from there."""
        origin = origin_of(spec.continue_from)
        if origin is None:
            return spec, []
        before = self._before(origin.job_id, spec)
        if before is None:
            return spec, []
        differing = unlike(spec, before.spec, origin.job_id)
        saved = next((one for one in before.kept if origin.epoch in (None, one.epoch)), None)
        if saved is None:
            return spec, [FieldProblem("continue_from", _none_of(origin, before.kept), spec.continue_from), *differing]
        spec = spec.model_copy(update={"continue_from": str(replace(origin, epoch=saved.epoch))})
        return spec, [*differing, *self._nothing_left(spec, origin.job_id, saved)]

    def _before(self, job_id: str, spec: Spec) -> _Before | None:
        """The other job with its checkpoints; None if it is not there, or its row says that nobody can continue."""
        if job_id not in self._jobs:
            with self._services.sessions() as session:
                job = session.get(Job, job_id)
                is_usable = job is not None and not any(
                    problem.field == "continue_from" for problem in problems_of_named(spec, {job_id: job})
                )
            self._jobs[job_id] = self._read(job_id) if is_usable else None
        return self._jobs[job_id]

    def _read(self, job_id: str) -> _Before:
        in_store = self._in_store(job_id)
        with self._services.sessions() as session:
            job = session.get_one(Job, job_id)
            return _Before(spec_from(job.spec), kept_checkpoints(session, job, in_store))

    def _in_store(self, job_id: str) -> list[Key]:
        store = self._services.store
        if not store.is_set:
            return []

        async def read() -> list[Key]:
            manifests, _ = await store.checkpoints(job_id, before=None, most=_MOST_STORED)
            return [(manifest.attempt, manifest.step) for manifest in manifests]

        return from_thread.run(read)

    def _nothing_left(self, spec: Spec, job_id: str, saved: SavedCheckpoint) -> list[FieldProblem]:
        """The problem of a job that would have no epoch to train. A script may count otherwise."""
        if spec.is_script or spec.epochs > saved.epoch:
            return []
        with self._services.sessions() as session:
            trained = saved.epoch if ends_an_epoch(session, job_id, saved.step) else saved.epoch - 1
        if spec.epochs > trained:
            return []
        message = f"job {job_id} has trained {trained} epochs there, which count: set at least {trained + 1}"
        return [FieldProblem("epochs", message, str(spec.epochs))]


def _none_of(origin: Origin, kept: Sequence[SavedCheckpoint]) -> str:
    """Why there is no such checkpoint, and which there are."""
    if not kept:
        return f"job {origin.job_id} has no checkpoint"
    epochs = sorted({one.epoch for one in kept})
    named = ", ".join(map(str, epochs[-_MOST_NAMED:]))
    return f"job {origin.job_id} has no checkpoint of epoch {origin.epoch}; there are those of {named}"
