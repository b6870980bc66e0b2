"""The process that copies what jobs left on this host to the store: `python -m worker.copies.process`.

The worker starts it (`worker.copies.keeper`). It ends when its input ends, so it never outlives the worker. It has the
lowest priority of the host, so that ranks do not wait for it.
"""

import fcntl
import logging
import os
import signal
import sys
import threading
from contextlib import suppress

import psutil
from sqlalchemy.exc import DBAPIError

from jobs.copies.store import StoreAway, store_of
from jobs.db.engine import engine_for, is_away, sessions_for
from jobs.runtime.files import PRIVATE_UMASK, make_private
from jobs.runtime.logs import configure_logging
from jobs.runtime.settings import settings
from worker.copies import rows
from worker.copies.copier import Copier
from worker.copies.old import OldCopies

_log = logging.getLogger(__name__)

_PERIOD_S = 1.0
_RESTART_S = 60.0  # when the store cannot even be opened
_NICENESS = 19


def be_last() -> None:
    """Use only what others leave of the cores and the disk."""
    os.nice(_NICENESS)
    with suppress(OSError), open("/proc/self/autogroup", "w") as autogroup:
        autogroup.write(str(_NICENESS))
    with suppress(OSError):
        psutil.Process().ionice(psutil.IOPRIO_CLASS_IDLE)


def _wait_for_end_of_input(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


def main() -> int:
    """Copy until the input ends."""
    os.umask(PRIVATE_UMASK)
    be_last()
    config = settings()
    configure_logging("copier", host=config.host)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    threading.Thread(target=_wait_for_end_of_input, args=(ended,), name="input", daemon=True).start()
    # Hosts may share their home. Two copiers of one host would be in each other's way.
    folder = config.home / "run"
    make_private(folder)
    lock = os.open(folder / f"copier-{config.host}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    while not ended.is_set():
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            ended.wait(_PERIOD_S)
    sessions = sessions_for(engine_for(config.database_url, patience_s=config.database_patience_s))
    try:
        store = store_of(config)
    except StoreAway as error:
        with suppress(DBAPIError), sessions.begin() as session:
            rows.say_store(session, config.host, str(error))
        ended.wait(_RESTART_S)
        sys.exit(f"HORA_STORE: {error}")
    if store is None:
        sys.exit("HORA_STORE is not set")
    OldCopies(sessions, store, config).start()  # it ends with the process
    copier = Copier(sessions, store, config)
    while not ended.wait(_PERIOD_S):
        try:
            copier.once()
        except DBAPIError as error:
            if not is_away(error):
                raise
            _log.warning("the database is away or busy, the next pass tries again: %s", error.orig)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # transfers end with the process; one that stands still would be waited for


if __name__ == "__main__":
    sys.exit(main())
