"""Two hosts with a store, and the fetcher of the second one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from jobs.copies.marks import require_mark
from jobs.copies.store import store_of
from jobs.db.engine import Sessions
from jobs.db.tables import Host
from jobs.runtime.settings import Settings
from tests.integration.jobs import job_rows
from tests.integration.worker.datasets.stored.stored_site import Site
from worker.datasets import fetcher as fetcher_module
from worker.datasets import uploaded
from worker.datasets.fetcher import DatasetFetcher


@pytest.fixture
def site(tmp_path: Path, sessions: Sessions, database: str, broker: str) -> Site:
    def host(name: str) -> Settings:
        (tmp_path / name).mkdir()
        job_rows.a_host(sessions, name, slots=4, peers="net")
        with sessions.begin() as session:
            session.execute(update(Host).where(Host.name == name).values(info={"peers": "net", "interface": "eth0"}))
        return Settings(
            home=tmp_path / name, database_url=database, broker_url=broker, host_name=name, device="cpu",
            store=f"file://{tmp_path}/store", inspection_timeout_s=60, host_timeout_s=600,
        )  # fmt: skip

    ha, hb = host("ha"), host("hb")
    store = store_of(ha)
    assert store is not None
    require_mark(sessions, store)
    return Site(sessions, store, ha, hb)


@pytest.fixture
def fetcher(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[DatasetFetcher]:
    """The fetcher of host hb."""
    monkeypatch.setattr(fetcher_module, "_REST_S", 0.05)
    monkeypatch.setattr(fetcher_module, "_LOOK_S", 0.05)
    monkeypatch.setattr(uploaded, "_RETRY_S", 0.05)
    fetcher = DatasetFetcher(site.sessions, site.hb)
    yield fetcher
    fetcher.stop()
