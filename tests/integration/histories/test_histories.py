"""The scheduler's guarantees under random histories.

The rules are in `machine`, what must hold in `audit`. Every run makes the same histories.
`HORA_HISTORIES=2000 pytest tests/integration/histories -k random` makes so many new ones; a failure prints its steps.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from sqlalchemy import create_engine

from jobs.runtime.settings import Settings
from tests.integration.histories.clock import database_with_a_clock
from tests.integration.histories.machine import Histories
from tests.integration.histories.world import World

_MORE = int(os.environ.get("HORA_HISTORIES", "0"))
_SETTINGS = settings(
    max_examples=_MORE or 20,  # a slot that leaks, or a history with a gap, is found in the first dozen
    stateful_step_count=30,
    derandomize=not _MORE,
    database=None,
    deadline=None,
    print_blob=True,
    phases=[Phase.generate, Phase.shrink] if _MORE else [Phase.generate],  # to shorten a history takes minutes
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def world(postgres_url: str) -> Iterator[World]:
    """A world on a database with a clock; each history empties it."""
    with database_with_a_clock(postgres_url) as url, ThreadPoolExecutor(2) as pool:
        engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))  # without a ping before each use
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as onlooker:
            yield World(engine, onlooker, Settings(), pool)
        engine.dispose()


@pytest.mark.timeout(900 + _MORE)
def test_random_histories_break_no_guarantee(world: World) -> None:
    run_state_machine_as_test(type("Histories", (Histories,), {"world": world}), settings=_SETTINGS)
