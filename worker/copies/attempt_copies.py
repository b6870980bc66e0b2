"""What the store has of one attempt, and what it lacks: the newest checkpoint, the best one, artifacts.

Called by the copier in a thread. It copies whatever the disk of this host has at the moment, and removes from the store
what is kept no more.
"""

import time
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jobs.copies import manifests
from jobs.copies.manifests import ArtifactsManifest, Manifests
from jobs.copies.marks import require_mark
from jobs.copies.resuming import SavedCheckpoint
from jobs.copies.store import Store
from jobs.db.engine import Sessions
from jobs.runtime.checkpoint_folders import OTHER_JOB, LocalCheckpoint, complete_below
from jobs.runtime.files import bytes_below
from worker.copies import rows
from worker.copies.artifact_copies import ArtifactCopies
from worker.copies.copying import JobHere, StillNeeded, copy_checkpoint
from worker.copies.holding import Changed, Holding
from worker.copies.on_disk import script_states
from worker.copies.rest import Rest
from worker.copies.rows import AttemptToCopy, Checkpoints

_ROWS_PAUSE = 10.0  # relative to the time that reading them took


@dataclass(frozen=True)
class Waiting:
    """A checkpoint that waits to be copied, or is being copied."""

    saved: SavedCheckpoint
    bytes: int


@dataclass
class AttemptCopies:
    """The copies of one attempt. `copy` is called again and again, never twice at once for a job."""

    sessions: Sessions
    store: Store
    job: JobHere
    still_needed: StillNeeded
    rest: Rest  # of the host, which all attempts share
    waiting: list[Waiting] = field(default_factory=list)
    _settled_steps: set[int] = field(default_factory=set)  # of checkpoints on disk: they are copied, or not needed
    _held: LocalCheckpoint | None = None  # the newest one, until its row is known and it is copied
    _ask_again_at: float = 0.0  # the rows
    _states: dict[int, dict[str, Any]] = field(default_factory=dict)  # of the checkpoints of a script, by step
    _sent: dict[str, str] = field(default_factory=dict)  # keys of files of a checkpoint that is not whole: digests
    _copied: set[tuple[int, int]] | None = None  # attempt and step of checkpoints in the store; None: not read yet

    def __post_init__(self) -> None:
        """Begin without knowing what the store has."""
        self.artifacts = ArtifactCopies(self.job, self.store, self.still_needed, self._require_store)
        self._holding = Holding(self.job.holding_dir)

    @property
    def waiting_bytes(self) -> int:
        """What waits to be copied."""
        return sum(one.bytes for one in self.waiting) + self.artifacts.waits_bytes

    def copy(self, attempt: AttemptToCopy) -> None:
        """Copy what the attempt left, as far as it is there now. Raises `StoreAway`, `Changed`, `OSError`."""
        has_all = True
        if not attempt.is_superseded:
            if attempt.keeps_checkpoints:
                has_all = self._copy_checkpoints(attempt)
            if attempt.keeps_artifacts:
                is_final = attempt.ended_at is not None
                self.artifacts.copy(is_final=is_final)
        if attempt.ended_at is not None and has_all:
            self.waiting = []
            self._holding.release_all()
            self._require_store()
            if attempt.is_newest and attempt.keeps_artifacts:
                self._tidy_artifacts()
            with self.sessions.begin() as session:
                rows.all_copied(session, attempt, self.job.host)

    def _require_store(self) -> None:
        """Make sure that the store is there: a folder may not be mounted any more. Raises `StoreAway`."""
        require_mark(self.sessions, self.store)

    def _copy_checkpoints(self, attempt: AttemptToCopy) -> bool:
        """Copy the newest checkpoint and the best one, if the store lacks them. True if there is nothing left to do.

        The disk may have checkpoints of earlier attempts from which this one continued. They count too.
        """
        root = self.job.job_dir / "checkpoints"
        there = reversed(complete_below(root, of_script=attempt.is_script))
        on_disk = {found.step: found for found in there if found.attempt != OTHER_JOB}  # that job has copied its own
        if self._held is None and on_disk.keys() <= self._settled_steps:
            return True
        if time.monotonic() < self._ask_again_at:
            return False
        if self._held is None and max(on_disk) not in self._settled_steps:
            # Its row may come a moment later. By then a job that saves often has removed it.
            self._held = self._hold(attempt, on_disk[max(on_disk)])
        available = on_disk if self._held is None else {**on_disk, self._held.step: self._held}
        if attempt.is_script:
            self._note_states(root, available.keys())
            if self._held is not None and self._held.step not in self._states and self._held.step not in on_disk:
                self._holding.release(self._held)  # its rank has forgotten it: nobody could continue from it
                self._held = None
                return False
            available = {step: found for step, found in available.items() if step in self._states}
        checkpoints = self._known({*self._copied_keys, *((found.attempt, step) for step, found in available.items())})
        here = [one for one in checkpoints.saved if one.step in available]
        if here and here[0].key not in self._copied_keys:
            self.waiting = [Waiting(here[0], _size_of(available[here[0].step]))]
        lacking = self._lacking(checkpoints, here)
        self.waiting = [Waiting(one, _size_of(available[one.step])) for one in lacking]
        for one in lacking:
            with self.rest.after_copy():
                self._copy_held(attempt, available[one.step], one)
            self.waiting = self.waiting[1:]
        if lacking:
            self._prune()
        has_ended = attempt.ended_at is not None  # then no more records come
        self._settled_steps = set(on_disk) if has_ended else {one.step for one in here}
        if self._held is not None and (has_ended or self._held.step in self._settled_steps):
            self._holding.release(self._held)
            self._held = None
        return not lacking and self._held is None  # a newer one may have come meanwhile

    def _lacking(self, checkpoints: Checkpoints, here: Sequence[SavedCheckpoint]) -> list[SavedCheckpoint]:
        """Of the checkpoints that are here, the newest and the best, if the store has not got them."""
        if self._copied is None:
            self._require_store()
            self._copied = set(Manifests(self.store, self.job.job_id).checkpoints())
        best = checkpoints.best({*self._copied, *(one.key for one in here)})
        kept = [*here[:1], *(one for one in here[1:] if one.key == best)]
        lacking = [one for one in kept if one.key not in self._copied]
        if lacking:
            self._require_store()
        return lacking

    def _note_states(self, root: Path, steps: Set[int]) -> None:
        """Remember what the rank of a script knew at its checkpoints: it forgets those that it removes."""
        known = {int(step): state for step, state in script_states(root).items()}
        self._states = {step: state for step, state in (known | self._states).items() if step in steps}

    def _hold(self, attempt: AttemptToCopy, found: LocalCheckpoint) -> LocalCheckpoint:
        root = found.path.parent.parent
        return self._holding.hold(found, lambda: _is_whole(found, root, attempt))

    @property
    def _copied_keys(self) -> set[tuple[int, int]]:
        return self._copied or set()

    def _known(self, keys: Collection[tuple[int, int]]) -> Checkpoints:
        """What the rows say of the newest checkpoints and of these. They are read again only after a rest."""
        began = time.monotonic()
        with self.sessions() as session:
            checkpoints = rows.checkpoints_of(session, self.job.job_id, keys)
        now = time.monotonic()
        self._ask_again_at = now + _ROWS_PAUSE * (now - began)
        return checkpoints

    def _copy_held(self, attempt: AttemptToCopy, found: LocalCheckpoint, saved: SavedCheckpoint) -> None:
        """Copy a checkpoint, which is held meanwhile."""
        if found is self._held:
            self._copy_checkpoint(attempt, found, saved)
            return
        held = self._hold(attempt, found)
        try:
            self._copy_checkpoint(attempt, held, saved)
        finally:
            self._holding.release(held)

    def _copy_checkpoint(self, attempt: AttemptToCopy, held: LocalCheckpoint, saved: SavedCheckpoint) -> None:
        began, root = time.monotonic(), self.job.job_dir / "checkpoints"
        manifest = copy_checkpoint(
            self.store, self.job, held.path, saved,
            script=self._states[held.step] if attempt.is_script else None,
            sent=self._sent, still_needed=self.still_needed,
        )  # fmt: skip
        if not self._holding.has(held) and not _is_whole(held, root, attempt):
            raise Changed("the checkpoint may have been removed in part while it was copied")
        if attempt.keeps_artifacts:
            self.artifacts.copy_before_checkpoint()
        self._require_store()
        checkpoints = self._known([saved.key])
        if checkpoints.training_attempt > self.job.attempt or saved.key not in {one.key for one in checkpoints.saved}:
            raise Changed("a later attempt has gone on without it")
        manifests.write_checkpoint_manifest(self.store, manifest)
        self._sent.clear()
        assert self._copied is not None
        self._copied.add(saved.key)
        with self.sessions.begin() as session:
            rows.checkpoint_copied(session, manifest, duration_s=time.monotonic() - began)

    def _prune(self) -> None:
        """Remove the checkpoints of the job from the store that are neither new nor the best.

        Only the newest attempt does it: another one may be the work of a host that was cut off.
        """
        there = set(Manifests(self.store, self.job.job_id).checkpoints())
        has_files = manifests.checkpoints_with_files(self.store, self.job.job_id)  # some were begun and not finished
        checkpoints = self._known(there)
        if checkpoints.newest_attempt != self.job.attempt:
            return
        valid = [one.key for one in checkpoints.saved if one.key in there]
        best = checkpoints.best(set(valid))
        kept = {*valid[: checkpoints.most_kept], *([best] if best is not None else [])}
        old = {key for key in (there | has_files) - kept if key[0] <= self.job.attempt}
        for attempt, step in sorted(old):
            manifests.remove_checkpoint(self.store, self.job.job_id, attempt, step)
        self._copied = kept

    def _tidy_artifacts(self) -> None:
        """Make the manifest of the last attempt that of the job, and remove all that it does not name.

        The attempt has fetched what earlier ones left elsewhere. What had not been copied by then is added, so that
        nothing is lost. Files that changed while they were copied are in no manifest.
        """
        present = Manifests(self.store, self.job.job_id)
        earlier = [number for number in present.artifact_attempts() if number < self.job.attempt]
        has_later = any(number > self.job.attempt for number in present.artifact_attempts())
        if has_later or self._known(()).newest_attempt != self.job.attempt:
            return
        own = present.artifacts_of(self.job.attempt)
        files = {} if own is None else {file.path: file for file in own.files}
        for before in filter(None, map(present.artifacts_of, reversed(earlier))):
            files = {file.path: file for file in before.files} | files
        if earlier:
            taken_over = ArtifactsManifest(
                job=self.job.job_id, attempt=self.job.attempt, host=self.job.host, copied_at=datetime.now(UTC),
                files=[files[path] for path in sorted(files)],
            )  # fmt: skip
            manifests.write_artifacts_manifest(self.store, taken_over)
        manifests.remove_unnamed_artifacts(
            self.store, self.job.job_id, named={file.key for file in files.values()}, last_attempt=self.job.attempt
        )


def _is_whole(found: LocalCheckpoint, root: Path, attempt: AttemptToCopy) -> bool:
    """Whether nobody has begun to remove the checkpoint: the rank of a script does so when it has enough newer ones."""
    newer = [one for one in complete_below(root, of_script=True) if one.step > found.step]
    return found.path.exists() and len(newer) < attempt.kept_on_disk


def _size_of(found: LocalCheckpoint) -> int:
    try:
        return bytes_below(found.path) if found.path.is_dir() else found.path.stat().st_size
    except FileNotFoundError:
        return 0
