"""Workers that do nothing, each a process of its own: `python -m bench.no_ops hora | celery | procrastinate`.

Used by `bench.dispatch`. Hora's is the real worker, without supervisors: an attempt is claimed and ended.
"""

import random
import sys
import threading

import procrastinate
import redis
from celery import Celery

from jobs.db.engine import Sessions
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease
from jobs.model.states import EndReason
from jobs.runtime.hints import Hints, celery_app
from jobs.runtime.settings import Settings, settings
from worker.app import Worker
from worker.attempt.launcher import Launcher
from worker.nursery.keeper import Nursery

QUEUE = "no-ops"
DONE = "no-ops-done"
HOLD_S = "--hold-s="  # each attempt keeps its slots for a random time up to this


class _NoOpLauncher(Launcher):
    """Claims an attempt and ends it, like a supervisor that has nothing to do."""

    hold_s = 0.0

    def __init__(self, sessions: Sessions, settings: Settings, nursery: Nursery | None = None) -> None:
        super().__init__(sessions, settings, nursery)
        self._hints = Hints(settings.broker_url)

    def launch(self, attempt_id: int) -> bool:
        """Claim the attempt. False if another worker has claimed it."""
        with self._sessions.begin() as session:
            lease = leases.claim(session, attempt_id, lease_s=self._settings.lease_s)
        if lease is None:
            return False
        if self.hold_s:
            threading.Timer(random.uniform(0, self.hold_s), self._end, [lease]).start()  # noqa: S311
        else:
            self._end(lease)
        return True

    def _end(self, lease: Lease) -> None:
        with self._sessions.begin() as session:
            leases.end(session, lease, EndReason.COMPLETED)
            leases.release(session, lease.attempt_id)
        self._hints.dispatch()


class _NoOpWorker(Worker):
    launcher_class = _NoOpLauncher


def celery_of(broker_url: str) -> Celery:
    """Plain Celery with a task that counts itself at the broker."""
    app = celery_app(broker_url)
    counter = redis.Redis.from_url(broker_url.replace("redis+socket://", "unix://"))

    def no_op() -> None:
        counter.incr(DONE)

    app.task(name="no_op")(no_op)
    return app


def procrastinate_of(connector: procrastinate.BaseConnector) -> procrastinate.App:
    """Procrastinate with a task that does nothing."""
    app = procrastinate.App(connector=connector)

    @app.task(name="no_op", queue=QUEUE)
    def no_op() -> None:
        """Do nothing."""

    return app


def main() -> None:
    """Work until a signal."""
    kind, *options = sys.argv[1:]
    if kind == "hora":
        for option in options:
            _NoOpLauncher.hold_s = float(option.removeprefix(HOLD_S))
        _NoOpWorker(settings()).run()
    elif kind == "celery":
        argv = ["worker", "--pool=threads", "--concurrency=4", f"--queues={QUEUE}", "--loglevel=WARNING"]
        celery_of(settings().broker_url).worker_main([*argv, "--without-gossip", "--without-mingle"])
    else:
        app = procrastinate_of(procrastinate.PsycopgConnector(conninfo=settings().database_url))
        app.run_worker(concurrency=4, queues=[QUEUE])


if __name__ == "__main__":
    main()
