"""Fetches the datasets that attempts on this host need and that are made from uploads in the store, each one once.

A thread of the worker: it has the credentials of the store, and members of attempts have none. It brings the pieces of
the upload, checks their digests, and unpacks them as the validator did, in a process of its own. Supervisors wait for
that: `jobs.data.host_datasets` says how far each host is.
"""

import logging
import os
import shutil
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from sqlalchemy.exc import DBAPIError, OperationalError

from jobs.copies.store import Store, StoreAway, store_of
from jobs.data import host_datasets
from jobs.data.host_datasets import Wanted
from jobs.data.upload_pieces import DamagedPiece
from jobs.db.engine import Sessions, is_away
from jobs.model.os_errors import in_words
from jobs.model.states import EndReason
from jobs.runtime.processes import MARK
from jobs.runtime.settings import Settings
from jobs.runtime.space import is_full, shortage
from worker.datasets.containment import Failed, GivenUp, run_contained
from worker.datasets.folders import DatasetFiles
from worker.datasets.uploaded import bring_archive, order_to_unpack
from worker.host.inherited import rank_environment
from worker.periodic import PeriodicThread, Watched

_log = logging.getLogger(__name__)

_PERIOD_S = 1.0
_AT_ONCE = 2
_REST_S = 5.0  # after a failure
_LOOK_S = 10.0  # between two looks whether an attempt still needs it


class _CannotHave(Exception):
    """This host cannot have the data; the text says why."""

    def __init__(self, reason: EndReason, why: str) -> None:
        super().__init__(why)
        self.reason = reason


class _Fetch:
    """Fetches one version to its place on this host."""

    def __init__(self, sessions: Sessions, settings: Settings, wanted: Wanted, stopped: threading.Event) -> None:
        self._sessions = sessions
        self._settings = settings
        self._wanted = wanted
        self._stopped = stopped
        self._files = DatasetFiles(settings.datasets)
        self._is_needed = True
        self._look_at = time.monotonic() + _LOOK_S

    def run(self, store: Store) -> None:
        """Fetch it. Raises `StoreAway`, `GivenUp`, `_CannotHave`."""
        wanted, settings = self._wanted, self._settings
        if (problem := shortage(settings, "datasets")) is not None:
            raise _CannotHave(EndReason.NO_SPACE, problem)
        try:
            scratch = self._files.fetching(settings.host, wanted.id)
            archive, content = scratch / "archive", scratch / "content"
            try:
                self._gets_on()
                bring_archive(
                    self._sessions, store, wanted.pieces, archive,
                    still_needed=self._still_needed, on_piece=self._gets_on,
                )  # fmt: skip
                top = self._unpack(archive, content)
                self._files.place(content / top, wanted.name, wanted.version)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
        except DamagedPiece as error:
            raise _CannotHave(EndReason.BAD_DATA, str(error)) from None
        except OSError as error:
            reason = EndReason.NO_SPACE if is_full(error) else EndReason.LAUNCH_FAILED
            raise _CannotHave(reason, in_words(error)) from None

    def _unpack(self, archive: Path, content: Path) -> str:
        """Unpack it. Returns the folder below `content` in which the data begins."""
        config = self._settings
        environment = rank_environment(os.environ, mark="", home=config.home, scratch=archive.parent, threads=1)
        environment.pop(MARK)  # the process does not belong to an attempt
        try:
            answer = run_contained(
                "worker.datasets.unpacking", order_to_unpack(config, self._wanted.archive, archive, content),
                environment=environment, memory_bytes=int(config.inspection_memory_gb * 1e9),
                timeout_s=config.inspection_timeout_s, still_needed=self._unpacks_on,
            )  # fmt: skip
        except Failed as error:
            raise _CannotHave(EndReason.LAUNCH_FAILED, f"unpacking it failed: {error}") from None
        if answer.get("no_space"):
            raise _CannotHave(EndReason.NO_SPACE, "there is no space to unpack it")
        if (why := answer.get("refused")) is not None:
            raise _CannotHave(EndReason.BAD_DATA, str(why))
        return str(answer["top"])

    def _gets_on(self) -> None:
        """Say that it comes closer. A database that is away for a moment does not stop it."""
        with suppress(OperationalError), self._sessions.begin() as session:
            host_datasets.moves(session, self._settings.host, self._wanted.id)

    def _still_needed(self) -> bool:
        """Whether an attempt on this host still needs it. Called often."""
        if self._stopped.is_set():
            return False
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LOOK_S
            with suppress(OperationalError), self._sessions() as session:
                wanted = host_datasets.wanted(session, self._settings.host)
                self._is_needed = any(one.id == self._wanted.id for one in wanted)
        return self._is_needed

    def _unpacks_on(self) -> bool:
        """As `_still_needed`. The process has a time limit of its own, so it gets on as long as it runs."""
        looks = time.monotonic() >= self._look_at
        is_needed = self._still_needed()
        if looks and is_needed:
            self._gets_on()
        return is_needed


class DatasetFetcher(PeriodicThread):
    """Looks once a second what attempts on this host need, and fetches it."""

    def __init__(self, sessions: Sessions, settings: Settings) -> None:
        super().__init__("datasets", period_s=_PERIOD_S, rests_first=False)
        self._sessions = sessions
        self._settings = settings
        self._files = DatasetFiles(settings.datasets)
        self._threads = ThreadPoolExecutor(_AT_ONCE, "dataset")
        self._running: dict[int, Future[None]] = {}
        self._retry_at: dict[int, float] = {}
        self._said_at: dict[int, float] = {}  # of versions that wait for their turn
        self._opening = threading.Lock()
        self._store: Store | None = None
        self._knows_lost = False

    def watched(self) -> Sequence[Watched]:
        """Attempts here that need uploads."""
        return [Watched(host_datasets.some_are_needed(self._settings.host), self.found)]

    def rest_s(self) -> float:
        """Not while it fetches: the results are taken in passes."""
        return 0.0 if self._running else super().rest_s()

    def once(self) -> None:
        """Begin to fetch what is needed."""
        if not self._knows_lost:
            self._files.remove_fetching(self._settings.host)
            self._forget_lost()
            self._knows_lost = True
        for version_id, future in list(self._running.items()):
            if future.done():
                del self._running[version_id]
                self._take(version_id, future)
        with self._sessions() as session:
            wanted = host_datasets.wanted(session, self._settings.host)
        for version in wanted:
            running = self._running.get(version.id)
            if running is None and time.monotonic() >= self._retry_at.get(version.id, 0.0):
                self._running[version.id] = self._threads.submit(self._have, version)
            elif running is not None and not running.running():
                self._wait_for_turn(version.id)

    def _wait_for_turn(self, version_id: int) -> None:
        """Say now and then that a version gets on: others are fetched before it."""
        if time.monotonic() >= self._said_at.get(version_id, 0.0) + _LOOK_S:
            self._said_at[version_id] = time.monotonic()
            with self._sessions.begin() as session:
                host_datasets.moves(session, self._settings.host, version_id)

    def _forget_lost(self) -> None:
        """Take back what the rows say of files that went while no worker ran, such as those of a container."""
        host = self._settings.host
        with self._sessions.begin() as session:
            for version_id, (name, version) in host_datasets.versions_here(session, host).items():
                if not self._files.has(name, version):
                    host_datasets.gone(session, host, version_id)

    def _take(self, version_id: int, future: "Future[None]") -> None:
        """Take the result of a try that has ended."""
        error = future.exception()
        if error is None:
            self._retry_at.pop(version_id, None)
            return
        self._retry_at[version_id] = time.monotonic() + _REST_S
        if isinstance(error, StoreAway):
            _log.warning("a dataset is not fetched now: %s", error)
        elif isinstance(error, DBAPIError) and is_away(error):
            _log.warning("the database is away: %s", error.orig)
        else:
            _log.error("a dataset was not fetched, the next pass tries again", exc_info=error)

    def _have(self, wanted: Wanted) -> None:
        """Make sure that a version is here, or say why not. Raises `StoreAway`."""
        host, began = self._settings.host, time.monotonic()
        try:
            if not self._files.has(wanted.name, wanted.version):
                _Fetch(self._sessions, self._settings, wanted, self.stopped).run(self._opened())
                _log.info("dataset %s is fetched from the store in %.1f s", wanted, time.monotonic() - began)
            with self._sessions.begin() as session:
                host_datasets.is_here(session, host, wanted.id)
        except GivenUp:
            return
        except StoreAway as error:
            with self._sessions.begin() as session:
                host_datasets.waits(session, host, wanted.id, str(error))
            raise
        except _CannotHave as error:
            _log.warning("dataset %s cannot be fetched: %s", wanted, error)
            with self._sessions.begin() as session:
                host_datasets.failed(session, host, wanted.id, error.reason, str(error))

    def _opened(self) -> Store:
        """The store. Raises `StoreAway`."""
        with self._opening:
            if self._store is None:
                self._store = store_of(self._settings)
        assert self._store is not None, "the worker starts no fetcher without a store"
        return self._store


def fetcher_of(sessions: Sessions, settings: Settings) -> DatasetFetcher | None:
    """The thread, if there is a store."""
    return None if settings.store is None else DatasetFetcher(sessions, settings)
