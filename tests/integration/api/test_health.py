"""Readiness, and what the process of the service imports."""

import subprocess
import sys
from pathlib import Path

from fastapi.testclient import TestClient
from sqlalchemy import Engine, column, delete, func, insert, select, table

from jobs.db.engine import Sessions
from jobs.db.tables import SCHEMA
from jobs.runtime.settings import Settings
from tests.full_disks import small_disk
from tests.integration.api.starting_rows import client_with


def test_a_service_with_its_database_is_ready_also_without_its_broker(configuration: Settings) -> None:
    ready = {"status": "ok", "database": "ok", "schema": "ok", "broker": "ok", "space": []}
    for changes, broker in (({}, "ok"), ({"broker_url": "redis+socket:///nowhere/broker.sock"}, "away")):
        with client_with(configuration, **changes) as client:
            answer = client.get("/readyz")
        assert (answer.status_code, answer.json()) == (200, ready | {"broker": broker})


def test_readiness_names_the_folder_of_a_database_only_if_it_is_here(configuration: Settings, tmp_path: Path) -> None:
    with small_disk(tmp_path / "home") as home, client_with(configuration, home=home, min_free_gb=1.0) as client:
        elsewhere = client.get("/readyz").json()
        (home / "postgres").mkdir()
        here = client.get("/readyz").json()
    assert elsewhere["status"] == here["status"] == "no_space"
    assert elsewhere["space"][0].startswith("datasets has 16.8 MB free, less than")
    assert here["space"][0].startswith("datasets and database have 16.8 MB free, less than")


def test_readiness_checks_the_version_of_the_schema_and_that_the_database_takes_writes(
    api: TestClient, sessions: Sessions, engine: Engine
) -> None:
    version = table("alembic_version", column("version_num"))
    for schema, status in (("0002", 503), ("9999", 200), (None, 503)):
        with sessions.begin() as session:
            session.execute(delete(version))
            if schema is not None:
                session.execute(insert(version).values(version_num=schema))
        answer = api.get("/readyz")
        assert answer.status_code == status
        assert (schema or "not migrated") in answer.json()["schema" if status == 200 else "detail"]
    with sessions.begin() as session:
        session.execute(insert(version).values(version_num=SCHEMA))

    with engine.begin() as connection:
        name = connection.scalar(select(func.current_database()))
        connection.exec_driver_sql(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        others = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = current_database()"
        connection.exec_driver_sql(f"{others} AND pid <> pg_backend_pid()")
    answer = api.get("/readyz")
    assert answer.status_code == 503
    assert "takes no writes" in answer.json()["detail"]


def test_the_service_does_not_import_libraries_of_ranks_workers_and_stores() -> None:
    heavy = ["fsspec", "keras", "horovod", "matplotlib", "psutil", "sklearn", "tensorflow"]
    program = f"import sys, api.main; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
