"""A worker: the Celery consumer of its host's queue, with the host's agent and sampler beside it.

Started by `python -m worker`. It looks at rows and starts processes. It may be killed at any time: the attempts go on
without it, and the next worker finds them. In a container they cannot go on, so there it stops them before it ends.
"""

import logging
import os
from typing import Any, ClassVar

from celery import Celery
from celery.signals import setup_logging, worker_ready, worker_shutting_down

from jobs.db.engine import engine_for, sessions_for
from jobs.runtime.hints import DISPATCH_QUEUE, Hints, celery_app, host_queue, receive_hints
from jobs.runtime.logs import configure_logging
from jobs.runtime.settings import Settings
from worker.agent import Agent
from worker.attempt.launcher import Launcher
from worker.attempt.layout import threads_of
from worker.copies.keeper import keeper_of
from worker.datasets.fetcher import fetcher_of
from worker.datasets.validator import validators_of
from worker.dispatcher import Dispatcher
from worker.forecaster import Forecaster
from worker.host.devices import Devices
from worker.host.gpus import find_gpus
from worker.host.space_watch import SpaceWatch
from worker.host.sshd import Sshd
from worker.host_shutdown import leave_list, stop_jobs_of_host
from worker.idle_watch import IdleWatch
from worker.lookout import Lookout
from worker.nursery.keeper import Nursery
from worker.outward.mirror import mirror_of
from worker.outward.notifier import Notifier
from worker.retention import Retention
from worker.sampling.sampler import Sampler
from worker.searcher import Searcher
from worker.slurm.desk import Desk
from worker.slurm.pool_host import PoolHost

_log = logging.getLogger(__name__)
_LAST_PASS_S = 10.0  # for the agent to finish its present pass


class Worker:
    """Everything that runs in the worker's process."""

    launcher_class: ClassVar[type[Launcher]] = Launcher

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        sessions = sessions_for(engine_for(settings.database_url, patience_s=settings.database_patience_s))
        self._sessions = sessions
        gpus = find_gpus() if settings.device != "cpu" else []
        self.devices = Devices(settings, gpus)
        rank_threads = 0 if gpus else threads_of(1, cores=os.cpu_count() or 1, slots=settings.cpu_slots)
        self.nursery = Nursery(settings, threads=rank_threads) if settings.warm_ranks else None
        self.launcher = self.launcher_class(sessions, settings, self.nursery)
        self.dispatcher = Dispatcher(sessions, Hints(settings.broker_url), settings, launcher=self.launcher)
        self.desk, pool = self._pool()
        self.sshd = Sshd(settings) if settings.ssh_dir is not None else None
        self.space = SpaceWatch(settings)
        self.agent = Agent(
            sessions, settings, launcher=self.launcher, dispatcher=self.dispatcher, gpus=gpus, devices=self.devices,
            sshd=self.sshd, space=self.space, pool=pool, nursery=self.nursery,
        )  # fmt: skip
        self.devices.on_change = self.agent.wake
        if self.desk is not None:
            self.desk.on_change = self.agent.wake
        self.space.on_change = self.agent.wake
        if self.sshd is not None:
            self.sshd.on_change = self.agent.wake
        if self.nursery is not None:
            self.nursery.on_change = self.agent.wake
        self.sampler = Sampler(
            sessions,
            host=settings.host,
            gpus=gpus,
            runs_dir=settings.runs_dir,
            period_s=settings.sample_period_s,
            report_period_s=settings.heartbeat_period_s,
        )
        self.retention = Retention(sessions, settings)
        self.idle_watch = IdleWatch(sessions, settings)
        self.forecaster = Forecaster(sessions, settings)
        self.searcher = Searcher(sessions, settings)
        self.validators = validators_of(sessions, settings)
        # What it does for its host, it does for its pool too, under the pool's name.
        self._places = [settings, *([settings.of_pool] if settings.of_pool else [])]
        fetchers = [fetcher_of(sessions, place) for place in self._places]
        self.notifier = Notifier(sessions, settings)
        self.mirror = mirror_of(sessions, settings)
        self._copies = [keeper for place in self._places if (keeper := keeper_of(sessions, place)) is not None]
        looking = (self.agent, self.sampler, *self.validators, *fetchers, self.notifier, self.searcher)
        self.lookout = Lookout(settings, [thread for thread in looking if thread is not None])
        threads = (
            self.nursery, self.devices, self.sshd, self.space, self.agent, self.desk, self.sampler, self.retention,
            *self.validators, *fetchers, self.notifier, self.mirror, self.idle_watch, self.forecaster,
            self.searcher, self.lookout,
        )  # fmt: skip
        self._threads = [thread for thread in threads if thread is not None]  # started and stopped in this sequence
        self.app = self._celery()

    def run(self) -> None:
        """Start the threads, then consume until a signal. The threads do their work also while the broker is away."""
        for thread in self._threads:
            thread.start()
        for keeper in self._copies:
            keeper.start()
        try:
            self.app.worker_main(
                [
                    "--quiet", "worker", "--pool=threads", "--concurrency=1", "--loglevel=INFO",
                    f"--hostname=hora@{self._settings.host}",
                    "--without-gossip", "--without-mingle", "--without-heartbeat",
                ]
            )  # fmt: skip
        finally:
            self.dispatcher.close()
            self.launcher.close()
            if self._settings.stop_jobs_with_worker:
                self._stop()
                self.agent.stop(wait_s=_LAST_PASS_S)
                stop_jobs_of_host(self._sessions, self._settings)
                if self.desk is not None and self.desk.has_lock and self._settings.of_pool is not None:
                    stop_jobs_of_host(self._sessions, self._settings.of_pool)
                for keeper in self._copies:
                    keeper.finish(within_s=self._settings.save_grace_s)
                leave_list(self._sessions, self._settings)
            if self.nursery is not None:
                self.nursery.close()
            for keeper in self._copies:
                keeper.end_process()
            if self.desk is not None and self.desk.stop(wait_s=_LAST_PASS_S):
                self.desk.close()

    def _pool(self) -> tuple[Desk | None, PoolHost | None]:
        """The Slurm pool that this worker offers, if it does."""
        of_pool = self._settings.of_pool
        if of_pool is None:
            return None, None
        launcher = self.launcher_class(self._sessions, of_pool, self.nursery)
        desk = Desk(self._sessions, of_pool, launcher=launcher)
        return desk, PoolHost(self._sessions, of_pool, launcher=launcher, desk=desk)

    def _celery(self) -> Celery:
        app = celery_app(self._settings.broker_url)
        queues = [DISPATCH_QUEUE, host_queue(self._settings.host)]
        receive_hints(app, queues, dispatch=self.dispatcher.run_soon, launch=self.launcher.launch_soon)
        worker_shutting_down.connect(self._stop, weak=False)
        worker_ready.connect(lambda **_: _log.info("worker ready"), weak=False)
        setup_logging.connect(lambda **_: configure_logging("worker", host=self._settings.host), weak=False)
        return app

    def _stop(self, **_: Any) -> None:
        for thread in self._threads:
            thread.stop()
