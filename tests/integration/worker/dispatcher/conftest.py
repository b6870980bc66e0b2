"""Dispatchers with connections of their own, as every worker has one."""

from collections.abc import Iterator
from typing import Any

import pytest

from jobs.db.engine import engine_for, sessions_for
from jobs.runtime.hints import Hints
from jobs.runtime.settings import Settings
from tests.integration.worker.dispatcher.live_attempts import MakeDispatcher
from worker.attempt.launcher import Launcher
from worker.dispatcher import Dispatcher


@pytest.fixture
def make_dispatcher(database: str, broker: str) -> Iterator[MakeDispatcher]:
    """Make a dispatcher with connections and hints of its own, as every worker has."""
    opened = []

    def make_dispatcher(broker_url: str = broker, *, launcher: Launcher | None = None, **values: Any) -> Dispatcher:
        engine, hints = engine_for(database), Hints(broker_url)
        dispatcher = Dispatcher(sessions_for(engine), hints, Settings(**values), launcher=launcher)
        opened.append((engine, hints, dispatcher))
        return dispatcher

    yield make_dispatcher
    for engine, hints, dispatcher in opened:
        dispatcher.close()
        hints.close(0.2)
        engine.dispose()


@pytest.fixture
def dispatcher(make_dispatcher: MakeDispatcher) -> Dispatcher:
    """One with the settings that are the default."""
    return make_dispatcher()
