"""The validator: a thread of every worker that looks at newly registered datasets, one at a time.

What somebody sent is unpacked, and all data looked at, by processes of their own (`worker.contained`); this thread
only waits, and keeps its claim on the version. A worker that dies takes those processes along, and another worker goes
on when the claim has run out.
"""

import logging
import os
import shutil
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy.exc import OperationalError

from jobs.data import uploads, validation
from jobs.data.validation import Archive, Claim
from jobs.db.engine import Sessions
from jobs.runtime.processes import MARK
from jobs.runtime.settings import Settings
from jobs.scheduling.hosts import turn_s
from worker.attempt.launcher import rank_environment
from worker.datasets.containment import Failed, GivenUp, ask
from worker.datasets.folders import DatasetFiles
from worker.periodic import PeriodicThread

_log = logging.getLogger(__name__)

CLAIM_S = 60.0
_RENEWAL_S = 10.0
_THREADS = 2  # of a look at some data: what trains needs the rest


class _Invalid(Exception):
    """The data cannot be trained on; the text says why."""


class Validator(PeriodicThread):
    """Validates datasets until it is stopped."""

    def __init__(self, sessions: Sessions, settings: Settings) -> None:
        super().__init__("validator", period_s=settings.reconcile_period_s)
        self._sessions = sessions
        self._settings = settings
        self._files = DatasetFiles(settings.datasets)
        self._turn_s = settings.reconcile_period_s

    def pause_s(self) -> float:
        """A period; longer where hosts are many."""
        return self._turn_s

    def once(self) -> None:
        """Validate all new versions. A stop leaves the one at hand to others."""
        while self.validate_one() and not self.stopped.is_set():
            pass

    def validate_one(self) -> bool:
        """Validate the next version; False where there is none for this host."""
        host_timeout_s = self._settings.host_timeout_s
        with self._sessions.begin() as session:
            refused = [
                *validation.refuse_hopeless(session),
                *validation.refuse_unseen(session, host_timeout_s=host_timeout_s),
            ]
            mine = validation.claim(session, self._settings.host, for_s=CLAIM_S)
            self._turn_s = turn_s(session, self._settings.reconcile_period_s, host_timeout_s=host_timeout_s)
        for name in refused:
            _log.info("dataset %s is invalid: nobody could look at it", name)
        if mine is None:
            return False
        if not self._is_seen(mine):
            with self._sessions.begin() as session:
                validation.leave(session, mine, unseen=True)
            return True
        self._validate(mine)
        return True

    def _is_seen(self, mine: Claim) -> bool:
        """Whether the files are on this host; what is on none is known once every host has looked."""
        if mine.archive is not None:
            return self._files.archive(mine.archive.id).is_file()
        roots = [root for root in self._settings.data_root_list if "://" not in root]
        return "://" in mine.source or any(os.path.exists(os.path.join(root, mine.source)) for root in roots)

    def _validate(self, mine: Claim) -> None:
        claim = _Kept(self._sessions, mine, self.stopped)
        scratch = self._files.scratch(mine.id, mine.attempt)
        try:
            source = mine.source if mine.archive is None else self._unpacked(claim, mine.archive, scratch)
            found = self._inspected(claim, source, scratch)
        except _Invalid as why:
            self._settle_invalid(mine, str(why))
        except GivenUp:
            with self._sessions.begin() as session:
                validation.leave(session, mine)
        except (Failed, OSError) as error:
            _log.warning("looking at dataset %s failed: %s", mine, error)
            with self._sessions.begin() as session:
                validation.leave(session, mine, counts=True)
        else:
            self._settle_ready(mine, source, found)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _unpacked(self, claim: "_Kept", archive: Archive, scratch: Path) -> str:
        """Unpack the upload and put what came out into its place; where that is, below the folder of datasets."""
        mine, config = claim.claim, self._settings
        limits = {
            "max_bytes": int(config.max_unpacked_gb * 1e9),
            "max_entries": config.max_entries,
            "max_ratio": config.max_unpack_ratio,
        }
        answer = self._ask(
            claim, "worker.datasets.unpacking", scratch,
            archive=str(self._files.archive(archive.id)), into=str(scratch / "content"), filename=archive.filename,
            size_bytes=archive.size_bytes, sha256=archive.sha256, limits=limits,
        )  # fmt: skip
        if not claim.renewed():  # another may be at it: its folder is not touched
            raise GivenUp
        self._files.put(scratch / "content" / answer["top"], mine.name, mine.version)
        return "/".join(filter(None, (mine.name, str(mine.version), answer["file"])))

    def _inspected(self, claim: "_Kept", source: str, scratch: Path) -> dict[str, Any]:
        mine, config = claim.claim, self._settings
        uploaded = mine.archive is not None
        place = str(config.datasets / source) if uploaded else source
        roots = [*config.data_root_list, *([str(config.datasets)] if uploaded else [])]
        return self._ask(
            claim, "trainer.inspection", scratch,
            dataset={**mine.options, "source": place}, data_roots=roots, scratch_dir=str(scratch), threads=_THREADS,
        )  # fmt: skip

    def _ask(self, claim: "_Kept", module: str, scratch: Path, **order: Any) -> dict[str, Any]:
        config = self._settings
        scratch.mkdir(parents=True, exist_ok=True)
        environment = rank_environment(os.environ, mark="", home=config.home, scratch=scratch, threads=_THREADS)
        environment.pop(MARK)  # it is no process of an attempt
        answer = ask(
            module, order, environment=environment, memory_bytes=int(config.inspection_memory_gb * 1e9),
            timeout_s=config.inspection_timeout_s, go_on=claim.goes_on,
        )  # fmt: skip
        if why := answer.get("refused"):
            raise _Invalid(why)
        return answer

    def _settle_ready(self, mine: Claim, source: str, found: dict[str, Any]) -> None:
        with self._sessions.begin() as session:
            done = validation.settle(
                session, mine, facts=found["facts"], fingerprint=found["fingerprint"], source=source
            )
            if done and mine.archive is not None:
                uploads.mark_removed(session, mine.archive.id)
        if done:
            if mine.archive is not None:
                self._files.remove_archive(mine.archive.id)
            _log.info("dataset %s is ready: %d samples", mine, found["facts"]["samples"])

    def _settle_invalid(self, mine: Claim, why: str) -> None:
        """The upload stays for a while, to be registered with other options; what was unpacked goes."""
        why = why.replace(f"{self._settings.datasets}{os.sep}", "")
        with self._sessions.begin() as session:
            done = validation.settle(session, mine, error=why)
        if done:
            if mine.archive is not None:
                self._files.remove(mine.name, mine.version)
            _log.info("dataset %s is invalid: %s", mine, why)


class _Kept:
    """A claim that is renewed while its version is looked at."""

    def __init__(self, sessions: Sessions, claim: Claim, stopped: threading.Event) -> None:
        self.claim = claim
        self._sessions = sessions
        self._stopped = stopped
        self._renew_at = time.monotonic() + _RENEWAL_S
        self._lost_at = time.monotonic() + CLAIM_S

    def goes_on(self) -> bool:
        """Whether the version is still this host's to look at; asked often."""
        if self._stopped.is_set():
            return False
        if time.monotonic() < self._renew_at:
            return True
        self._renew_at = time.monotonic() + _RENEWAL_S
        with suppress(OperationalError):  # the claim outlives a database that is away for a while
            return self.renewed()
        return time.monotonic() < self._lost_at

    def renewed(self) -> bool:
        """Whether the claim holds, which it now does for a while."""
        asked_at = time.monotonic()
        with self._sessions.begin() as session:
            held = validation.renew(session, self.claim, for_s=CLAIM_S)
        self._lost_at = asked_at + CLAIM_S
        return held
