"""The threads of a host, beside a host of which nobody looks after anything."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.db.engine import Sessions
from jobs.runtime.hints import Hints
from jobs.runtime.settings import Settings
from tests.integration.jobs import job_rows
from tests.integration.worker.agents import agent_of
from tests.integration.worker.lookout.works import LONG_S, Site
from tests.receivers import receiving
from worker.datasets.validator import Validator
from worker.outward.notifier import Notifier
from worker.sampling.sampler import Sampler
from worker.searcher import Searcher


@pytest.fixture
def settings(tmp_path: Path, database: str, broker: str) -> Settings:
    (tmp_path / "data").mkdir()
    return Settings(
        home=tmp_path, database_url=database, broker_url=broker, host_name="ha", slots=2, host_timeout_s=LONG_S,
        lease_s=0.2, heartbeat_period_s=LONG_S, reconcile_period_s=0.05, notify_period_s=0.05, search_period_s=0.05,
        data_roots=str(tmp_path / "data"), webhook_allow="127.0.0.1",
    )  # fmt: skip


@pytest.fixture
def site(sessions: Sessions, settings: Settings, hints: Hints, sampler: Sampler) -> Iterator[Site]:
    job_rows.a_host(sessions)
    job_rows.a_host(sessions, "hb", slots=4)
    threads = {
        "agent": agent_of(sessions, settings, hints),
        "validator": Validator(sessions, settings),
        "notifier": Notifier(sessions, settings),
        "searcher": Searcher(sessions, settings),
        "sampler": sampler,
    }
    with receiving() as receiver:
        yield Site(sessions, threads, receiver.url)
