"""POST /v1/jobs and clones: what is stored, what is refused, and how a repeated request is answered."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from fastapi.testclient import TestClient
from sqlalchemy import func, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import Job, JobEvent, Slot
from jobs.model.states import Status
from jobs.runtime.hints import DISPATCH_QUEUE
from jobs.runtime.settings import Settings
from jobs.scheduling import registration
from tests.integration.api.answers import errors_of, problem, wrong_fields
from tests.integration.api.starting_rows import SPEC, a_host, client_with
from tests.integration.jobs.job_rows import a_job_that_is, a_mixed_host, count
from tests.integration.jobs.writing import change, write
from tests.waiting import until

JSON = {"Content-Type": "application/json"}


def test_the_smallest_spec_becomes_a_queued_job(api: TestClient, sessions: Sessions) -> None:
    answer = api.post("/v1/jobs", json=SPEC)

    assert answer.status_code == 201
    job = answer.json()
    assert answer.headers["location"] == f"/v1/jobs/{job['id']}"
    assert (job["status"], job["gpus"], job["attempt"], job["owner"]) == ("queued", 2, 0, "admin")
    assert (job["spec"]["dataset"]["source"], job["plan"]["global_batch"]) == ("digits", 128)
    assert (job["progress"]["epochs"], job["progress"]["steps"], job["summary"]) == (30, 300, None)
    assert job["created_at"].endswith("Z")
    waiting = {"position": 1, "reason": "no host is alive", "starts_in_s": None}
    usage = {"hosts": [], "devices": [], "gpu_hours": 0.0, "cost": None}
    assert api.get(answer.headers["location"]).json() == job | {"waiting": waiting, "usage": usage}
    with sessions() as session:
        assert session.scalars(select(JobEvent.kind).where(JobEvent.job_id == job["id"])).all() == ["submitted"]


def test_a_dry_run_says_the_plan_and_stores_nothing(api: TestClient, sessions: Sessions) -> None:
    answer = api.post("/v1/jobs", params={"dry_run": True}, json=SPEC)

    assert answer.status_code == 200
    assert set(answer.json()) == {"spec", "plan", "quote", "warnings"}
    assert answer.json()["plan"]["train_samples"] == 1350
    assert count(sessions, Job) == 0


@pytest.fixture
def client_with_data(configuration: Settings, tmp_path: Path) -> Iterator[TestClient]:
    """A service whose operator allows a folder of data and a network."""
    (tmp_path / "chips" / "cracked").mkdir(parents=True)
    roots = f"{tmp_path}:s3://bucket/sets"
    with client_with(configuration, data_roots=roots, models="acme.nets:wide") as client:
        yield client


def test_the_data_and_the_networks_of_this_site_are_accepted_and_a_typo_is_reported_at_once(
    client_with_data: TestClient, tmp_path: Path
) -> None:
    def submit(source: str, *, key: dict[str, str] | None = None, **parameters: bool) -> Any:
        spec = SPEC | {"dataset": source, "model": "chipnet"}
        return client_with_data.post("/v1/jobs", params=parameters, json=spec, headers=key)

    key = {"Idempotency-Key": "k-1"}
    first = submit("chips", key=key)
    assert (first.status_code, first.json()["plan"]["train_samples"]) == (201, None)
    for typo in ("chops", str(tmp_path / "chops")):
        assert wrong_fields(submit(typo)) == wrong_fields(submit(typo, dry_run=True)) == ["dataset.source"]
    assert str(tmp_path) in errors_of(submit("chops"))["dataset.source"]
    assert client_with_data.post("/v1/jobs", json=SPEC | {"model": "acme.nets:wide"}).status_code == 201
    assert "acme.nets:wide" in [model["name"] for model in client_with_data.get("/v1/models").json()["items"]]
    (tmp_path / "chips").rename(tmp_path / "gone")
    assert submit("chips", key=key).json() == first.json(), "the data is not looked at again"
    assert wrong_fields(submit("chips")) == ["dataset.source"]


def test_weights_of_a_job_are_those_that_it_succeeds_with(
    api: TestClient, sessions: Sessions, submit_job: Callable[..., str]
) -> None:
    probe_id = submit_job(model="mlp", probe={})
    job_id, failed_id = (a_job_that_is(sessions, status) for status in (Status.SUCCEEDED, Status.FAILED))

    def weights_error(weights: str, *, model: str = "mlp", **parameters: bool) -> str:
        answer = api.post("/v1/jobs", params=parameters, json=SPEC | {"model": {"name": model, "weights": weights}})
        assert wrong_fields(answer) == ["model.weights"]
        message: str = answer.json()["errors"][0]["message"]
        return message

    assert weights_error("job:000000000000") == "there is no job 000000000000"
    assert weights_error(f"job:{probe_id}") == f"job {probe_id} is a batch probe, which leaves no weights"
    for dry_run in (False, True):
        why = weights_error(f"job:{failed_id}", dry_run=dry_run)
        assert why.endswith("only a job that succeeds has weights to start from")
    assert "trains lenet5" in weights_error(f"job:{job_id}")
    assert submit_job(model={"name": "lenet5", "weights": f"job:{job_id}"})


def test_a_job_waits_for_those_that_it_names(api: TestClient, submit_job: Callable[..., str]) -> None:
    first, cancelled = submit_job(), submit_job()
    api.post(f"/v1/jobs/{cancelled}/cancel")
    refused = api.post("/v1/jobs", json=SPEC | {"after": [first, "nowhere", cancelled], "batch_size": 5000})
    assert wrong_fields(refused) == ["after.1", "after.2", "batch_size"]
    misspelt = errors_of(api.post("/v1/jobs", json=SPEC | {"after": [first, "No ID"]}))
    assert misspelt == {"after.1": "must be an id: small letters and digits, such as 3k9v0t2m7x1q"}
    no_list = errors_of(api.post("/v1/jobs", json=SPEC | {"after": first}))
    assert no_list == {"after": f'must be a list, such as ["{first}"]'}

    second = submit_job(after=[first])
    third = api.post(f"/v1/jobs/{second}/clone", json={"after": [second]}).json()
    assert third["spec"]["after"] == [second]
    tag = api.get(f"/v1/jobs/{third['id']}").headers["ETag"]
    api.post(f"/v1/jobs/{first}/cancel")
    seen = api.get(f"/v1/jobs/{third['id']}", headers={"If-None-Match": tag}).json()
    assert (seen["status"], seen["end_reason"]) == ("cancelled", "dependency")
    again = api.post(f"/v1/jobs/{second}/clone")
    assert wrong_fields(again) == ["after.0"]
    assert api.post(f"/v1/jobs/{second}/clone", json={"after": []}).status_code == 201


def test_gpus_that_no_host_has_are_refused_with_those_that_there_are(api: TestClient, sessions: Sessions) -> None:
    a100 = ("NVIDIA A100-SXM4-40GB", 42)
    a_mixed_host(sessions, "ha", a100, a100, a100, ("NVIDIA H100", 85), cpus=4)
    change(sessions, update(Slot).where(Slot.index == 0).values(retired_at=func.now()))

    def why_not(field: str, **fields: object) -> str:
        return errors_of(api.post("/v1/jobs", json=SPEC | {"gpus": 1} | fields))[field]

    models = "no host has a GPU whose name contains '{}': the hosts have NVIDIA A100-SXM4-40GB (2){}"
    assert why_not("gpu_model", gpu_model="h1000") == models.format("h1000", ", NVIDIA H100 (1); did you mean 'H100'?")
    memories = "the hosts have NVIDIA A100-SXM4-40GB with 42.0 GB (2), NVIDIA H100 with 85.0 GB (1)"
    assert why_not("gpu_memory_gb", gpu_memory_gb=90) == f"no host has a GPU with at least 90 GB: {memories}"
    group = "the largest group of one model is 2 x NVIDIA A100-SXM4-40GB; mixed_gpus: true would allow 3"
    assert group in why_not("gpus", gpus=3)
    assert why_not("gpus", gpus=4).endswith("its largest host has 2 gpu slots; device: cpu would use CPU slots")
    preview = api.post("/v1/jobs?dry_run=true", json=SPEC | {"gpus": 8, "batch_size": 8}).json()
    assert preview["plan"]["global_batch"] == 64
    (warning,) = preview["warnings"]
    assert warning.startswith("gpus 8: more than this cluster has: its largest host has 2 gpu slots")
    assert warning.endswith("The plan is for hardware that is not there; a submission would be refused now.")
    study = {"name": "s", "base": SPEC, "grid": {"gpus": [1, 3, 8]}}
    assert wrong_fields(api.post("/v1/studies", json=study)) == ["grid.gpus[1]", "grid.gpus[2]"]
    planned = api.post("/v1/studies?dry_run=true", json=study).json()
    assert [cell["plan"]["gpus"] for cell in planned["cells"]] == [1, 3, 8]
    assert [one[:15] for one in planned["warnings"]] == ["grid.gpus[1] 3:", "grid.gpus[2] 8:"]
    assert count(sessions, Job) == 0
    for fields in ({"gpus": 2, "gpu_model": "a100"}, {"gpus": 3, "mixed_gpus": True}, {"gpus": 4, "device": "cpu"}):
        assert api.post("/v1/jobs", json=SPEC | fields).status_code == 201
    change(sessions, update(Slot).where(Slot.name == "NVIDIA H100").values(unhealthy="it is off the bus"))
    assert why_not("gpu_model", gpu_model="h100") == models.format("h100", "")


def test_a_device_of_which_no_host_has_slots_is_refused_by_its_name(api: TestClient, sessions: Sessions) -> None:
    a_host(sessions, slots=2)
    answer = api.post("/v1/jobs", json=SPEC | {"gpus": 1, "device": "gpu"})
    assert errors_of(answer) == {"device": "no host has gpu slots: there are 2 cpu slots"}
    study = {"name": "s", "base": SPEC, "grid": {"device": ["cpu", "gpu"]}}
    assert wrong_fields(api.post("/v1/studies", json=study)) == ["grid.device[1]"]


def test_a_pool_must_be_offered_and_able_to_hold_the_job(api: TestClient, sessions: Sessions) -> None:
    def why_not(pool: str, **fields: Any) -> dict[str, str]:
        return errors_of(api.post("/v1/jobs", json=SPEC | {"pool": pool} | fields))

    assert why_not("slurm:main") == {"pool": "no worker offers this pool; there is none"}
    node = {"name": "n1", "state": "idle", "cpus": 8, "memory_bytes": 2**34, "gpus": {"a100": 4}, "features": []}
    write(sessions, registration.register_pool, "slurm:main", {"nodes": [node, node | {"name": "n2"}]})
    assert why_not("slurm:mian") == {"pool": "no worker offers this pool; did you mean slurm:main?"}
    assert why_not("slurm:x") == {"pool": "no worker offers this pool; there is slurm:main"}
    too_many = "more than slurm:main has: it needs 10 slots; 2 nodes with 4 GPUs a100 and 8 cores"
    assert why_not("slurm:main", gpus=10) == {"gpus": too_many}
    for fields in ({"pool": "slurm:main", "gpus": 8}, {"gpus": 8}, {"gpus": 16, "device": "cpu"}):
        answer = api.post("/v1/jobs", json=SPEC | {"batch_size": 8} | fields)
        assert answer.status_code == 201, answer.json()
    (host,) = api.get("/v1/hosts").json()["items"]
    assert (host["name"], [node["name"] for node in host["nodes"]]) == ("slurm:main", ["n1", "n2"])
    write(sessions, registration.register_pool, "slurm:cpu", {"nodes": [node | {"gpus": {}}]})
    no_gpu = "no node of slurm:cpu has GPUs: 1 node with 8 cores"
    assert why_not("slurm:cpu", gpus=1, device="gpu") == {"device": no_gpu}


def test_a_repeated_key_gets_the_first_answer_of_its_owner(
    api: TestClient, sessions: Sessions, client_of: Callable[..., TestClient], submit_job: Callable[..., str]
) -> None:
    key, clone_key = {"Idempotency-Key": "k-1"}, {"Idempotency-Key": "k-2"}
    assert api.post("/v1/jobs", params={"dry_run": True}, json=SPEC, headers=key).status_code == 200
    first = api.post("/v1/jobs", json=SPEC, headers=key)
    assert (first.status_code, "idempotency-replayed" in first.headers) == (201, False), "a dry run takes no key"
    url = f"/v1/jobs/{first.json()['id']}/clone"
    assert api.post(url, headers=clone_key).status_code == 201
    other_url = f"/v1/jobs/{submit_job()}/clone"
    a_host(sessions, slots=1)  # would refuse it by now

    again = api.post("/v1/jobs", json=SPEC, headers=key)
    assert (again.status_code, again.json()) == (201, first.json())
    assert again.headers["idempotency-replayed"] == "true"
    assert again.headers["location"] == first.headers["location"]
    refused_key = {"Idempotency-Key": "k-3"}
    assert client_of("ann").post("/v1/jobs", json=SPEC, headers=refused_key).status_code == 422
    a_host(sessions, "hb", slots=2)
    for path, body, headers in (
        ("/v1/jobs", SPEC | {"gpus": 1}, key), (url, SPEC, key), (url, {"seed": 7}, clone_key),
        (other_url, None, clone_key),
    ):  # fmt: skip
        problem(api.post(path, json=body, headers=headers), 409, "idempotency-conflict")
    assert count(sessions, Job) == 3
    for headers in (key, refused_key):  # one is another user's, and one is free, as its submission was refused
        answer = client_of("ann").post("/v1/jobs", json=SPEC, headers=headers)
        assert (answer.json()["owner"], "idempotency-replayed" in answer.headers) == ("ann", False)
    for malformed in ("", "x" * 256, "caf\u00e9", "a\tb"):
        raw = {b"Idempotency-Key": malformed.encode("latin-1")}
        assert wrong_fields(api.post("/v1/jobs", json=SPEC, headers=raw)) == ["Idempotency-Key"]


def test_a_submission_sends_a_hint_to_the_dispatcher(configuration: Settings, broker: str) -> None:
    with client_with(configuration, broker_url=broker) as client:
        client.post("/v1/jobs", json=SPEC)
        with redis.Redis.from_url(broker.replace("redis+socket://", "unix://")) as connection:
            until(lambda: connection.llen(DISPATCH_QUEUE), what="a hint in the dispatcher's queue")


def test_a_clone_is_the_same_job_with_changes(api: TestClient, submit_job: Callable[..., str]) -> None:
    original = submit_job(name="first", labels={"a": "1", "b": "2"}, early_stopping={"patience": 7})
    changes = {"batch_size": 32, "early_stopping": None, "dataset": {"validation": 0.2}, "labels": {"b": "3"}}
    answer = api.post(f"/v1/jobs/{original}/clone", json=changes)

    assert answer.status_code == 201
    job, first = answer.json(), api.get(f"/v1/jobs/{original}").json()
    assert job["id"] != original
    expected = first["spec"] | {"batch_size": 32, "early_stopping": None, "labels": {"a": "1", "b": "3"}}
    expected["dataset"] = first["spec"]["dataset"] | {"validation": 0.2}
    assert job["spec"] == expected
    assert job["plan"]["validation_samples"] == 300
    assert api.post(f"/v1/jobs/{original}/clone").json()["spec"] == first["spec"]


def test_a_body_that_is_no_json_is_refused(api: TestClient) -> None:
    """What JSON is no spec: `tests/unit/jobs/model/test_spec.py`."""
    for body in (b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"dataset": "digits", "seed": ' + b"9" * 5000 + b"}"):
        assert wrong_fields(api.post("/v1/jobs", content=body, headers=JSON)) == [""], body[:60]
    for headers in ({"Content-Type": "text/plain"}, {}):
        problem(api.post("/v1/jobs", content=b"{}", headers=headers), 415, "unsupported-media-type")
