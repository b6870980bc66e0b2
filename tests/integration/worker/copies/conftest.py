"""A store in a folder, and hosts with homes of their own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobs.copies.store import Store
from jobs.db.engine import Sessions
from jobs.runtime.settings import Settings
from tests.integration.jobs import job_rows
from tests.integration.worker.copies.runs import Run, a_run
from worker.copies.copier import Copier


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(f"file://{tmp_path}/team", {})


@pytest.fixture
def host(tmp_path: Path, database: str, broker: str) -> Callable[[str], Settings]:
    """The settings of a host of this name."""

    def host(name: str) -> Settings:
        return Settings(
            home=tmp_path / name, database_url=database, broker_url=broker, host_name=name, slots=2, restart_backoff_s=0
        )

    return host


@pytest.fixture
def run(sessions: Sessions, store: Store, host: Callable[[str], Settings]) -> Run:
    """The first attempt of a job, on host `ha`."""
    return a_run(sessions, store, host("ha"))


@pytest.fixture
def copier(run: Run) -> Iterator[Copier]:
    copier = run.copier()
    yield copier
    copier.close()


@pytest.fixture
def other(sessions: Sessions, host: Callable[[str], Settings]) -> Settings:
    """The settings of host `hb`, which has registered."""
    job_rows.a_host(sessions, "hb")
    return host("hb")
