"""The database with a clock, and the world on it, for all histories of a run."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import create_engine

from jobs.runtime.settings import Settings
from tests.integration.histories.clock import database_with_a_clock
from tests.integration.histories.world import World


@pytest.fixture(scope="package")
def world(postgres_url: str) -> Iterator[World]:
    """A world; each history empties it."""
    with database_with_a_clock(postgres_url) as url, ThreadPoolExecutor(2) as pool:
        engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))  # without a ping before each use
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as onlooker:
            yield World(engine, onlooker, Settings(), pool)
        engine.dispose()
