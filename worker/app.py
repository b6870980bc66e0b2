"""A worker: the Celery consumer of its host's queue, with the host's agent and sampler beside it.

Started by `python -m worker`. Its tasks are short: they look at rows and start processes. It may be killed at any
time; the attempts go on without it, and its successor finds them.
"""

import logging
from typing import Any

from celery import Celery
from celery.signals import setup_logging, worker_ready, worker_shutting_down

from jobs.database import engine_for, sessions_for
from jobs.hints import DISPATCH_QUEUE, DISPATCH_TASK, LAUNCH_TASK, Hints, celery_app, host_queue
from jobs.logs import configure_logging
from jobs.settings import Settings
from worker.agent import Agent
from worker.dispatcher import Dispatcher
from worker.gpus import find_gpus
from worker.launcher import Launcher
from worker.sampler import Sampler

_log = logging.getLogger(__name__)


class Worker:
    """Everything that runs in the worker's process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        sessions = sessions_for(engine_for(settings.database_url))
        gpus = find_gpus()
        self.launcher = Launcher(sessions, settings)
        self.dispatcher = Dispatcher(sessions, Hints(settings.broker_url), settings)
        self.agent = Agent(sessions, settings, launcher=self.launcher, dispatcher=self.dispatcher, gpus=gpus)
        self.sampler = Sampler(sessions, host=settings.host, gpus=gpus, period_s=settings.sample_period_s)
        self.app = self._celery()

    def run(self) -> None:
        """Start the agent, then consume until a signal. The agent does its work also while the broker is away."""
        self.agent.start()
        self.sampler.start()
        self.app.worker_main(
            [
                "worker", "--pool=threads", "--concurrency=4", "--loglevel=INFO",
                f"--queues={DISPATCH_QUEUE},{host_queue(self._settings.host)}",
                f"--hostname=hora@{self._settings.host}",
                "--without-gossip", "--without-mingle", "--without-heartbeat",
            ]
        )  # fmt: skip

    def _celery(self) -> Celery:
        app = celery_app(self._settings.broker_url)
        app.task(name=DISPATCH_TASK)(self.dispatcher.run)
        app.task(name=LAUNCH_TASK)(self.launcher.launch)
        worker_shutting_down.connect(self._stop, weak=False)
        worker_ready.connect(lambda **_: _log.info("worker ready"), weak=False)
        setup_logging.connect(lambda **_: configure_logging("worker", host=self._settings.host), weak=False)
        return app

    def _stop(self, **_: Any) -> None:
        self.agent.stop()
        self.sampler.stop()
