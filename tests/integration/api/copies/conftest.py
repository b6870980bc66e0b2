"""A job that ran on another host, `ha`, and a store in a folder. The api runs on host `here`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs.copies.marks import require_mark
from jobs.copies.store import Store, store_of
from jobs.db.engine import Sessions
from jobs.runtime.settings import Settings
from tests.integration.api.starting_rows import TOKEN, an_attempt


@pytest.fixture
def place(tmp_path: Path) -> dict[str, str]:
    """The settings of the store."""
    return {"store": f"file://{tmp_path}/store"}


@pytest.fixture
def configuration(database: str, tmp_path: Path, place: dict[str, Any]) -> Settings:
    return Settings(
        database_url=database, broker_url="memory://", token=TOKEN, home=tmp_path / "home", host_name="here",
        code="on", max_code_mb=4, **place,
    )  # fmt: skip


@pytest.fixture
def store(configuration: Settings, sessions: Sessions) -> Store:
    """The store, which has its mark."""
    store = store_of(configuration)
    assert store is not None
    require_mark(sessions, store)
    return store


@pytest.fixture
def job_id(submit_job: Callable[..., str], sessions: Sessions) -> str:
    job_id = submit_job()
    an_attempt(sessions, job_id)
    return job_id
