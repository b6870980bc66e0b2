"""Hosts, the catalog, readiness, Prometheus's figures and the OpenAPI document."""

import subprocess
import sys
from collections.abc import Callable

from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import func, update

from jobs import leases
from jobs.database import Sessions
from jobs.placement import Placement, Share
from jobs.tables import Host, Slot
from tests.integration.api.given import a_host, seconds

Submit = Callable[..., str]


def test_hosts_say_what_holds_each_slot(api: TestClient, submitted: Submit, sessions: Sessions) -> None:
    a_host(sessions, "ha", slots=4)
    a_host(sessions, "hb", slots=1, kind="gpu")
    job_id = submitted()
    with sessions.begin() as session:
        leases.place(session, [Placement(job_id, (Share("ha", (0, 1)),))], lease_s=60)
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


def test_the_catalog_names_what_a_spec_can(api: TestClient) -> None:
    assert {"digits", "fashion-mnist", "synthetic"} <= {
        dataset["name"] for dataset in api.get("/v1/datasets").json()["items"]
    }
    models = {model["name"]: model for model in api.get("/v1/models").json()["items"]}
    assert {"lenet5", "mlp", "resnet50"} <= models.keys()
    assert (models["resnet50"]["imagenet"], models["lenet5"]["imagenet"]) == (True, False)


def test_a_service_with_its_database_is_ready(api: TestClient) -> None:
    assert api.get("/readyz").json() == {"status": "ok"}


def test_prometheus_gets_jobs_slots_hosts_and_durations(api: TestClient, submitted: Submit, sessions: Sessions) -> None:
    a_host(sessions, slots=3)
    api.post(f"/v1/jobs/{submitted()}/cancel")
    submitted()
    del api.headers["Authorization"]
    families = {family.name: family for family in text_string_to_metric_families(api.get("/metrics").text)}

    def values(name: str) -> dict[str, float]:
        return {"".join(sample.labels.values()): sample.value for sample in families[name].samples}

    assert values("hora_database_up") == {"": 1}
    assert values("hora_jobs")["queued"] == 1
    assert values("hora_jobs")["cancelled"] == 1
    assert values("hora_slots") == {"free": 3, "leased": 0, "quarantined": 0, "retired": 0}
    assert values("hora_hosts") == {"true": 1, "false": 0}
    counts = {
        (sample.labels["method"], sample.labels["route"], sample.labels["status"]): sample.value
        for sample in families["hora_http_request_duration_seconds"].samples
        if sample.name.endswith("_count")
    }
    assert counts["POST", "/v1/jobs", "201"] == 2
    assert counts["POST", "/v1/jobs/{job_id}/cancel", "202"] == 1


def test_the_document_describes_specs_problems_and_who_may_ask(api: TestClient) -> None:
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


def test_a_browser_is_sent_to_the_docs(api: TestClient) -> None:
    assert api.get("/", follow_redirects=False).headers["location"] == "/docs"


def test_the_service_starts_without_what_ranks_and_workers_import() -> None:
    heavy = ["keras", "horovod", "numpy", "psutil", "sklearn", "tensorflow"]
    program = f"import sys, api.main; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
