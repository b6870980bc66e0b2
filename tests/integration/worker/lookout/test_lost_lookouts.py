"""Nothing depends on the lookout: threads have their passes while it is silent, cannot connect, or has died."""

import psycopg
import pytest

from jobs.runtime.settings import Settings
from tests.integration.worker.lookout.works import LONG_S, Site, a_queued_job, resting, running
from tests.waiting import until
from worker import periodic
from worker.lookout import Lookout


def test_threads_make_their_passes_while_the_database_does_not_answer_the_lookout(
    site: Site, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lookout waits for a table that the agent does not read, until its patience ends."""
    agent = site.threads["agent"]
    lookout = Lookout(settings, list(site.threads.values()))
    with (
        resting(lookout, agent, monkeypatch=monkeypatch),
        site.sessions.begin() as session,
    ):
        session.connection().exec_driver_sql("LOCK TABLE dataset_versions IN ACCESS EXCLUSIVE MODE")
        until(a_queued_job(site))


def test_threads_make_their_passes_without_a_lookout_that_can_connect(site: Site, settings: Settings) -> None:
    nowhere = settings.model_copy(update={"database_url": "postgresql:///hora?host=/nowhere"})
    with running(site.threads["agent"], Lookout(nowhere, list(site.threads.values()))):
        until(a_queued_job(site))


def test_nobody_counts_on_a_lookout_that_died(site: Site, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(periodic, "_REST_S", LONG_S)
    agent = site.threads["agent"]
    lookout = Lookout(settings, list(site.threads.values()))
    with running(agent, lookout):
        until(lambda: agent.is_watched)
        assert lookout.stop(wait_s=120)
        until(a_queued_job(site))


def test_a_connection_that_was_cut_is_replaced(
    site: Site, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lookout = Lookout(settings, list(site.threads.values()))
    with resting(lookout, site.threads["agent"], monkeypatch=monkeypatch):
        assert lookout._connection is not None
        _cut(settings.database_url, lookout._connection.info.backend_pid)
        until(lambda: "lookout: no answer, all threads look for themselves" in caplog.text)
        until(a_queued_job(site))


def _cut(address: str, pid: int) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s)", [pid])
