"""A real Slurm, and the settings of a worker that offers its partition as a pool."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.db.engine import Sessions
from jobs.runtime.hints import Hints
from jobs.runtime.settings import Settings
from tests.integration.worker.slurm.pool_site import Site
from tests.slurm import PARTITION, Slurm, slurm


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Slurm]:
    """Two nodes with two cores and two GPUs each."""
    with slurm(gpus=2, patience_s=4) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: Slurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    """The same, for the commands of this process. Its jobs end with the test."""
    for name, value in shared_cluster.environment.items():
        monkeypatch.setenv(name, value)
    yield shared_cluster
    shared_cluster.end_jobs()


@pytest.fixture
def of_pool(tmp_path: Path, database: str, broker: str) -> Settings:
    """The settings of the worker as its pool."""
    of_pool = Settings(
        home=tmp_path, database_url=database, broker_url=broker, host_name="login", slurm_partition=PARTITION
    ).of_pool
    assert of_pool is not None
    return of_pool


@pytest.fixture
def site(cluster: Slurm, sessions: Sessions, of_pool: Settings, hints: Hints) -> Iterator[Site]:
    site = Site(sessions, of_pool, hints)
    yield site
    site.desk.close()
