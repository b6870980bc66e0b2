"""Hosts, the catalog, readiness and the OpenAPI document."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from fastapi.testclient import TestClient
from sqlalchemy import Engine, column, delete, func, insert, select, table, update

import migrations
from api.main import app_for
from jobs.db.engine import Sessions
from jobs.db.tables import SCHEMA, Host, Slot
from jobs.runtime.settings import Settings
from jobs.scheduling import placing
from jobs.scheduling.decisions import Placement, Share
from tests.full_disks import small_disk
from tests.integration.api.starting_rows import a_host, seconds

Submit = Callable[..., str]


def test_hosts_name_the_job_of_each_slot(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    a_host(sessions, "ha", slots=4)
    a_host(sessions, "hb", slots=1, kind="gpu")
    job_id = submit_job(device="cpu")
    with sessions.begin() as session:
        placing.place(session, [Placement(job_id, (Share("ha", (0, 1)),))], lease_s=60)
        session.execute(update(Slot).where(Slot.host == "ha", Slot.index == 2).values(quarantined_at=func.now()))
        session.execute(update(Slot).where(Slot.host == "ha", Slot.index == 3).values(retired_at=func.now()))
        session.execute(update(Host).where(Host.name == "hb").values(heartbeat_at=seconds(-(10**9))))
    ha, hb = api.get("/v1/hosts").json()["items"]

    assert [slot["state"] for slot in ha["slots"]] == ["leased", "leased", "quarantined", "retired"]
    assert [(slot["job_id"], slot["attempt"], slot["rank"]) for slot in ha["slots"][1:3]] == [
        (job_id, 1, 1),
        (None, None, None),
    ]
    assert (ha["alive"], hb["alive"]) == (True, False)
    assert ha["heartbeat_age_s"] < 30 < hb["heartbeat_age_s"]
    assert (hb["slots"][0]["kind"], hb["slots"][0]["state"]) == ("gpu", "free")


def test_the_catalog_lists_the_possible_values_of_a_spec(api: TestClient) -> None:
    assert {"digits", "fashion-mnist", "synthetic"} <= {
        dataset["name"] for dataset in api.get("/v1/datasets").json()["items"]
    }
    models = {model["name"]: model for model in api.get("/v1/models").json()["items"]}
    assert {"lenet5", "mlp", "resnet50"} <= models.keys()
    assert (models["resnet50"]["imagenet"], models["lenet5"]["imagenet"]) == (True, False)


def test_a_service_with_its_database_is_ready(api: TestClient) -> None:
    ready = {"status": "ok", "database": "ok", "schema": "ok", "broker": "ok", "space": []}
    assert api.get("/readyz").json() == ready


def test_an_unreachable_broker_is_reported_and_the_service_stays_ready(configuration: Settings) -> None:
    away = configuration.model_copy(update={"broker_url": "redis+socket:///nowhere/broker.sock"})
    with TestClient(app_for(away)) as client:
        answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["broker"]) == (200, "away")


def test_readiness_names_the_folder_of_a_database_only_if_it_is_here(configuration: Settings, tmp_path: Path) -> None:
    with small_disk(tmp_path / "home") as home:
        own = configuration.model_copy(update={"home": home, "min_free_gb": 1.0})
        with TestClient(app_for(own)) as client:
            elsewhere = client.get("/readyz").json()
            (home / "postgres").mkdir()
            here = client.get("/readyz").json()
    assert elsewhere["status"] == here["status"] == "no_space"
    assert elsewhere["space"][0].startswith("datasets has 16.8 MB free, less than")
    assert here["space"][0].startswith("datasets and database have 16.8 MB free, less than")


@pytest.mark.parametrize(("schema", "status"), [("0002", 503), ("9999", 200), (None, 503)])
def test_readiness_checks_the_version_of_the_schema(
    api: TestClient, sessions: Sessions, schema: str | None, status: int
) -> None:
    version = table("alembic_version", column("version_num"))
    with sessions.begin() as session:
        session.execute(delete(version))
        if schema is not None:
            session.execute(insert(version).values(version_num=schema))
    answer = api.get("/readyz")
    assert answer.status_code == status
    assert (schema or "not migrated") in answer.json()["schema" if status == 200 else "detail"]


def test_a_service_whose_database_takes_no_writes_is_not_ready(api: TestClient, engine: Engine) -> None:
    with engine.begin() as connection:
        name = connection.scalar(select(func.current_database()))
        connection.exec_driver_sql(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        others = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = current_database()"
        connection.exec_driver_sql(f"{others} AND pid <> pg_backend_pid()")
    answer = api.get("/readyz")
    assert answer.status_code == 503
    assert "takes no writes" in answer.json()["detail"]


def test_the_version_of_the_tables_is_that_of_the_newest_migration() -> None:
    scripts = ScriptDirectory(str(Path(migrations.__file__).parent))
    assert scripts.get_current_head() == SCHEMA


def test_the_openapi_document_describes_specs_problems_and_security(api: TestClient) -> None:
    document = api.get("/openapi.json").json()
    submit = document["paths"]["/v1/jobs"]["post"]

    assert document["openapi"].startswith("3.1")
    assert submit["operationId"] == "submit_job"
    assert submit["requestBody"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Spec"}
    assert submit["responses"]["422"]["content"] == {
        "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
    }
    assert submit["security"]
    ids = [operation["operationId"] for path in document["paths"].values() for operation in path.values()]
    assert len(ids) == len(set(ids))
    for path in document["paths"].values():
        for operation in path.values():
            assert "HTTPValidationError" not in str(operation)


def test_the_service_does_not_import_libraries_of_ranks_and_workers() -> None:
    heavy = ["keras", "horovod", "matplotlib", "psutil", "sklearn", "tensorflow"]
    program = f"import sys, api.main; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
