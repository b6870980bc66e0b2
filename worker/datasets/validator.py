"""The validators: threads of every worker that validate newly registered datasets, each one at a time.

Processes of their own (`worker.contained`) look at files, unpack uploads and inspect all data. A thread only waits, and
renews its claim on the version. When a worker dies, those processes end too, and another worker starts again after the
claim has expired.

The first thread does all the work as long as it can. The others work only while it is busy, so that an inspection that
stands still, for example on a file system that does not answer, holds nobody else. They have less memory: what does not
fit is left to the first.
"""

import errno
import logging
import os
import shutil
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy.exc import OperationalError

from jobs.copies.store import StoreAway, store_of
from jobs.data import host_datasets, samples, uploads, validation
from jobs.data.upload_pieces import DamagedPiece, pieces_of
from jobs.data.validation import CLAIM_S, Archive, Claim
from jobs.db.engine import Sessions
from jobs.runtime.files import make_private
from jobs.runtime.processes import MARK
from jobs.runtime.settings import Settings
from jobs.runtime.space import is_full, shortage
from jobs.scheduling.hosts import LOOKS_A_PERIOD, shared_period_s
from worker.datasets.containment import Failed, GivenUp, run_contained
from worker.datasets.folders import DatasetFiles
from worker.datasets.uploaded import bring_archive, order_to_unpack
from worker.host.inherited import rank_environment
from worker.periodic import PeriodicThread, Watched

_log = logging.getLogger(__name__)

_RENEWAL_S = 10.0
_PAUSE_S = 10.0  # after a validation for which the host had no space or no other means
_THREADS = 2  # for an inspection: training needs the other cores
# The host has no descriptors, processes or memory left, or its disk fails. The data is not at fault.
_OF_THE_HOST = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.EIO})
_OTHERS = 2  # threads beside the first
_OTHERS_SHARE, _OTHERS_LEAST_GB = 1 / 8, 2.0  # of the memory of the first


class _Invalid(Exception):
    """Training on the data is not possible; the text says why."""


class _Damaged(_Invalid):
    """The upload is damaged: nothing can be made from it."""


class _TooLarge(Exception):
    """The data does not fit into the memory of this thread."""


class _NoSpace(Exception):
    """The disk with the datasets is full."""


@dataclass
class _Turns:
    """What the validators of a host know of each other."""

    first_is_busy: threading.Event = field(default_factory=threading.Event)
    large_ids: set[int] = field(default_factory=set)  # versions that only the first validates


def validators_of(sessions: Sessions, settings: Settings) -> list["Validator"]:
    """The validators of a host, the first one first."""
    first = Validator(sessions, settings)
    return [first, *(Validator(sessions, settings, beside=first) for _ in range(_OTHERS))]


class Validator(PeriodicThread):
    """Validates datasets until it is stopped; only while another is busy, if there is one that it works `beside`."""

    def __init__(self, sessions: Sessions, settings: Settings, *, beside: "Validator | None" = None) -> None:
        super().__init__("validator", period_s=settings.reconcile_period_s)
        self._is_first = beside is None
        self._turns: _Turns = _Turns() if beside is None else beside._turns
        self._memory_gb = settings.inspection_memory_gb
        if not self._is_first:
            self._memory_gb = min(self._memory_gb, max(_OTHERS_SHARE * self._memory_gb, _OTHERS_LEAST_GB))
        self._sessions = sessions
        self._settings = settings
        self._files = DatasetFiles(settings.datasets)
        self._turn_s = settings.reconcile_period_s
        self._paused_until = 0.0  # the host could not validate

    @property
    def large_ids(self) -> set[int]:
        """The versions that are left to the first thread."""
        return self._turns.large_ids

    @property
    def _waits_for_space(self) -> str:
        """What a version says that waits for space here."""
        return f"it waits until host {self._settings.host} has space for it"

    def watched(self) -> Sequence[Watched]:
        """New versions. The threads beside the first one ask for none while that one is free."""
        return [Watched(validation.some_are_open(), self.found, LOOKS_A_PERIOD)] if self._is_first else []

    def pause_s(self) -> float:
        """A period; longer if there are many hosts."""
        return self._turn_s

    def once(self) -> None:
        """Validate all new versions. After a stop, other workers validate the present one."""
        while self.validate_one() and not self.stopped.is_set():
            pass

    def validate_one(self) -> bool:
        """Validate the next version. Returns False if there is none for this host and thread, or no space."""
        turns = self._turns
        if not (self._is_first or turns.first_is_busy.is_set()):
            return False
        if time.monotonic() < self._paused_until:
            return False
        if (problem := shortage(self._settings, "datasets")) is not None:
            with self._sessions.begin() as session:
                validation.wait(session, self._settings.host, f"{self._waits_for_space}: {problem}")
            return False
        host_timeout_s = self._settings.host_timeout_s
        with self._sessions.begin() as session:
            refused_names = [
                *validation.refuse_hopeless(session),
                *validation.refuse_unseen(session, host_timeout_s=host_timeout_s),
            ]
            left_ids = [] if self._is_first else list(self.large_ids)
            claim = validation.claim(session, self._settings.host, for_s=CLAIM_S, left_ids=left_ids)
            self._turn_s = shared_period_s(session, self._settings.reconcile_period_s, host_timeout_s=host_timeout_s)
        for name in refused_names:
            _log.info("dataset %s is invalid: no host could read it", name)
        if claim is None:
            return False
        if not self._is_first:
            self._validate(claim)
            return True
        turns.first_is_busy.set()
        self.large_ids.discard(claim.id)
        try:
            self._validate(claim)
        finally:
            turns.first_is_busy.clear()
        return True

    def _has_files(self, renewal: "_ClaimRenewal", scratch: Path) -> bool:
        """Whether the files are on this host. If no host has them, the version is refused after all have looked."""
        claim = renewal.claim
        if claim.archive is not None and claim.archive.in_store:
            return self._settings.store is not None
        if claim.archive is not None:
            paths = [str(self._files.archive(claim.archive.id))]
        elif "://" in claim.source:
            return True
        else:
            roots = [root for root in self._settings.data_root_list if "://" not in root]
            paths = [os.path.join(root, claim.source) for root in roots]
        answer = self._run_contained(renewal, "worker.datasets.presence", scratch, paths=paths)
        return bool(answer["is_here"])

    def _validate(self, claim: Claim) -> None:
        try:
            inspected = self._look(claim)
        except _Invalid as reason:
            self._settle_invalid(claim, str(reason), can_retry=not isinstance(reason, _Damaged))
        except GivenUp:
            with self._sessions.begin() as session:
                validation.release(session, claim)
        except _TooLarge:
            self.large_ids.add(claim.id)
            with self._sessions.begin() as session:
                validation.release(session, claim)
        except StoreAway as error:
            self._wait_for_store(claim, error)
        except (_NoSpace, OSError) as error:
            self._wait_for_host(claim, error)
        except Failed as error:
            _log.warning("validating dataset %s failed: %s", claim, error)
            with self._sessions.begin() as session:
                validation.release(session, claim, counts=True)
        else:
            if inspected is None:
                with self._sessions.begin() as session:
                    validation.release(session, claim, unseen=True)
            else:
                self._settle_ready(claim, *inspected)

    def _look(self, claim: Claim) -> tuple[str, dict[str, Any]] | None:
        """Where the files are and what is in them. None if this host does not have them."""
        renewal = _ClaimRenewal(self._sessions, claim, self.stopped)
        scratch = self._files.scratch(claim.id, claim.attempt)
        try:
            if not self._has_files(renewal, scratch):
                return None
            source = claim.source if claim.archive is None else self._unpack(renewal, claim.archive, scratch)
            return source, self._inspect(renewal, source, scratch)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _wait_for_host(self, claim: Claim, error: _NoSpace | OSError) -> None:
        """Put the version back. The try does not count if the host is at fault: it has no space or no other means."""
        why = None
        if isinstance(error, _NoSpace) or is_full(error):
            why = self._waits_for_space
        elif error.errno in _OF_THE_HOST:
            why = f"it waits: host {self._settings.host} could not validate it ({error.strerror})"
        _log.warning("validating dataset %s failed: %s", claim, why or error)
        if why is not None:
            self._paused_until = time.monotonic() + _PAUSE_S
        with self._sessions.begin() as session:
            validation.release(session, claim, counts=why is None, error=why)

    def _unpack(self, renewal: "_ClaimRenewal", archive: Archive, scratch: Path) -> str:
        """Unpack the upload and move the files to their place. Returns that place, below the folder of datasets."""
        claim = renewal.claim
        path = self._files.archive(archive.id)
        if archive.in_store:
            path = scratch / "archive"
            self._bring(renewal, archive, path)
        order = order_to_unpack(self._settings, archive, path, scratch / "content")
        answer = self._run_contained(renewal, "worker.datasets.unpacking", scratch, **order)
        if not renewal.renew():  # another worker may be validating it: its folder is not touched
            raise GivenUp
        self._files.put(scratch / "content" / answer["top"], claim.name, claim.version)
        return "/".join(filter(None, (claim.name, str(claim.version), answer["file"])))

    def _bring(self, renewal: "_ClaimRenewal", archive: Archive, path: Path) -> None:
        """Bring the upload from the store. Raises `StoreAway`, `GivenUp`, `_Invalid`, `OSError`."""
        store = store_of(self._settings)
        assert store is not None, "`_has_files` has looked"
        with self._sessions() as session:
            pieces = pieces_of(session, archive.id)
        make_private(path.parent)
        try:
            bring_archive(self._sessions, store, pieces, path, still_needed=renewal.still_needed)
        except DamagedPiece as error:
            raise _Damaged(f"{error}: send it again") from None

    def _wait_for_store(self, claim: Claim, error: StoreAway) -> None:
        """Put the version back until the store answers. The try does not count."""
        _log.warning("validating dataset %s failed: the store is away: %s", claim, error)
        self._paused_until = time.monotonic() + _PAUSE_S
        with self._sessions.begin() as session:
            validation.release(session, claim, error=f"it waits until the store answers: {error}")

    def _inspect(self, renewal: "_ClaimRenewal", source: str, scratch: Path) -> dict[str, Any]:
        config, claim = self._settings, renewal.claim
        uploaded = claim.archive is not None
        path = str(config.datasets / source) if uploaded else source
        roots = [*config.data_root_list, *([str(config.datasets)] if uploaded else [])]
        dataset = {**claim.options, "source": path}
        return self._run_contained(
            renewal, "trainer.inspection", scratch,
            dataset=dataset, data_roots=roots, scratch_dir=str(scratch), threads=_THREADS,
        )  # fmt: skip

    def _run_contained(self, renewal: "_ClaimRenewal", module: str, scratch: Path, **request: Any) -> dict[str, Any]:
        config = self._settings
        make_private(scratch)
        environment = rank_environment(os.environ, mark="", home=config.home, scratch=scratch, threads=_THREADS)
        environment.pop(MARK)  # the process does not belong to an attempt
        try:
            answer = run_contained(
                module, request, environment=environment, memory_bytes=int(self._memory_gb * 1e9),
                timeout_s=config.inspection_timeout_s, still_needed=renewal.still_needed,
            )  # fmt: skip
        except Failed:  # libraries may also end the process when memory is short
            if self._is_first:
                raise
            raise _TooLarge from None
        if answer.get("out_of_memory") and not self._is_first:
            raise _TooLarge
        if answer.get("no_space"):
            raise _NoSpace
        if reason := answer.get("refused"):
            raise _Invalid(reason)
        return answer

    def _settle_ready(self, claim: Claim, source: str, inspection: dict[str, Any]) -> None:
        with self._sessions.begin() as session:
            is_settled = validation.settle(
                session, claim, facts=inspection["facts"], fingerprint=inspection["fingerprint"], source=source
            )
            if is_settled:
                samples.store(session, claim.id, inspection)
            if is_settled and claim.archive is not None:
                uploads.mark_removed(session, claim.archive.id)
                if claim.archive.in_store:
                    host_datasets.is_here(session, self._settings.host, claim.id)
        if is_settled:
            if claim.archive is not None:
                self._files.remove_archive(claim.archive.id)
            _log.info("dataset %s is ready: %d samples", claim, inspection["facts"]["samples"])

    def _settle_invalid(self, claim: Claim, reason: str, *, can_retry: bool) -> None:
        """Mark the version as invalid and remove its files. With `can_retry` the upload can be registered again."""
        reason = reason.replace(f"{self._settings.datasets}{os.sep}", "")
        with self._sessions.begin() as session:
            is_settled = validation.settle(session, claim, error=reason)
            if is_settled and claim.archive is not None and not can_retry:
                uploads.mark_removed(session, claim.archive.id)
        if is_settled:
            if claim.archive is not None:
                self._files.remove(claim.name, claim.version)
            _log.info("dataset %s is invalid: %s", claim, reason)


class _ClaimRenewal:
    """Renews a claim while its version is validated."""

    def __init__(self, sessions: Sessions, claim: Claim, stopped: threading.Event) -> None:
        self.claim = claim
        self._sessions = sessions
        self._stopped = stopped
        self._renew_at = time.monotonic() + _RENEWAL_S
        self._lost_at = time.monotonic() + CLAIM_S

    def still_needed(self) -> bool:
        """Whether the claim is still valid and the worker goes on. Called often; renews the claim when it is time."""
        if self._stopped.is_set():
            return False
        if time.monotonic() < self._renew_at:
            return True
        self._renew_at = time.monotonic() + _RENEWAL_S
        with suppress(OperationalError):  # the claim stays valid if the database is away for a short time
            return self.renew()
        return time.monotonic() < self._lost_at

    def renew(self) -> bool:
        """Renew the claim. Returns whether it is still valid."""
        asked_at = time.monotonic()
        with self._sessions.begin() as session:
            is_held = validation.renew(session, self.claim, for_s=CLAIM_S)
        self._lost_at = asked_at + CLAIM_S
        return is_held
