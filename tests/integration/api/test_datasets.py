"""Registered datasets over HTTP: names, versions, and the jobs that train on them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import select

from api.main import app_for
from jobs.data import validation
from jobs.db.engine import Sessions
from jobs.db.tables import AuditEntry, Job
from jobs.lifecycle.store import move
from jobs.model.catalog import DATASETS
from jobs.model.states import Status
from jobs.runtime.settings import Settings
from tests.integration.api.starting_rows import SPEC, TOKEN

Register = Callable[..., dict[str, Any]]
Submit = Callable[..., str]
FACTS = {
    "format": "images", "shape": [12, 12, 3], "classes": ["cracked", "whole"],
    "class_counts": {"cracked": 50, "whole": 50}, "samples": 100,
    "train": 90, "validation": 10, "test": 20, "split": 0.1, "damaged": 0, "damaged_files": [],
    "files": 120, "bytes": 12_000,
}  # fmt: skip


@pytest.fixture
def configuration(database: str, tmp_path: Path) -> Settings:
    (tmp_path / "data" / "chips").mkdir(parents=True)
    return Settings(
        database_url=database, broker_url="memory://", token=TOKEN, home=tmp_path, data_roots=str(tmp_path / "data")
    )


@pytest.fixture
def app(configuration: Settings) -> FastAPI:
    return app_for(configuration)


def settled(sessions: Sessions, **values: Any) -> None:
    """Do what a worker does with the next version: ready by default."""
    with sessions.begin() as session:
        claim = validation.claim(session, "ha", for_s=60)
        assert claim is not None
        fingerprint = f"{claim.version:064x}"
        values = values or {"facts": FACTS, "fingerprint": fingerprint}
        assert validation.settle(session, claim, **values)


@pytest.fixture
def register_dataset(api: TestClient, sessions: Sessions) -> Register:
    """Registers the next version of chips, ready unless it says otherwise."""

    def register(*, ready: bool = True, **fields: Any) -> dict[str, Any]:
        answer = api.post("/v1/datasets", json={"name": "chips", "source": "chips"} | fields)
        assert answer.status_code == 201, answer.text
        if ready:
            settled(sessions)
        found: dict[str, Any] = api.get(answer.headers["Location"]).json()
        return found

    return register


def errors_of(answer: Any) -> dict[str, str]:
    assert answer.status_code == 422, answer.text
    return {error["field"]: error["message"] for error in answer.json()["errors"]}


def test_versions_are_numbered_and_start_as_validating(api: TestClient, register_dataset: Register) -> None:
    first = register_dataset(ready=False, description="of the first camera", label="kind")
    assert (first["name"], first["version"], first["status"], first["facts"]) == ("chips", 1, "validating", None)
    assert first["options"] == {"format": "auto", "label": "kind", "image_size": None, "validation": 0.1}
    assert register_dataset(ready=False)["version"] == 2
    shown_dataset = api.get("/v1/datasets/chips").json()
    assert [(one["version"], one["status"]) for one in shown_dataset["items"]] == [(2, "validating"), (1, "validating")]
    assert (shown_dataset["builtin"], shown_dataset["newest_ready"], shown_dataset["next_cursor"]) == (
        False,
        None,
        None,
    )


def test_the_list_has_built_in_datasets_and_the_newest_version_of_others(
    api: TestClient, register_dataset: Register
) -> None:
    register_dataset()
    listed = {line["name"]: line for line in api.get("/v1/datasets").json()["items"]}
    for name, known in DATASETS.items():
        assert known.model_dump(mode="json").items() <= listed[name].items()
        assert listed[name]["builtin"]
    assert listed["chips"] | {"created_at": None} == {
        "name": "chips", "description": "", "trainable": 100, "test": 20, "classes": 2, "targets": 0,
        "shape": [12, 12, 3], "task": "classification", "format": "images", "builtin": False,
        "version": 1, "status": "ready", "error": None, "created_by": "admin", "created_at": None,
    }  # fmt: skip
    register_dataset(ready=False)
    newest = next(line for line in api.get("/v1/datasets").json()["items"] if line["name"] == "chips")
    assert (newest["version"], newest["status"], newest["trainable"]) == (2, "validating", None)


def test_lists_go_page_by_page(api: TestClient, register_dataset: Register) -> None:
    for name in ("aa", "chips", "chips", "chips", "zz"):
        register_dataset(ready=False, name=name)
    names: list[str] = []
    cursor: str | None = None
    while True:
        page = api.get("/v1/datasets", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        names += [item["name"] for item in page["items"]]
        if (cursor := page["next_cursor"]) is None:
            break
    assert names == sorted(["aa", "chips", "zz", *DATASETS])
    page = api.get("/v1/datasets/chips", params={"limit": 2}).json()
    rest = api.get("/v1/datasets/chips", params={"limit": 2, "cursor": page["next_cursor"]}).json()
    assert [item["version"] for item in page["items"] + rest["items"]] == [3, 2, 1]
    assert api.get("/v1/datasets/aa", params={"cursor": page["next_cursor"]}).status_code == 422


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "digits"}, "name"), ({"name": "Chips"}, "name"), ({"name": "../x"}, "name"),
        ({"name": "a@1"}, "name"), ({"name": "a/b"}, "name"), ({"name": ".a"}, "name"), ({"name": "x" * 65}, "name"),
        ({"source": "../etc"}, "source"), ({"source": "/etc"}, "source"), ({"source": "a/../../etc"}, "source"),
        ({"source": "nowhere"}, "source"), ({"source": "digits"}, "source"), ({"source": "chips@1"}, "source"),
        ({"source": "http://169.254.169.254/latest"}, "source"), ({"source": "a\x00b"}, "source"),
        ({"validation": "../etc"}, "validation"), ({"validation": 1.5}, "validation"),
        ({"image_size": [0, 5]}, "image_size.0"),
        ({"upload": "0000"}, "upload"), ({"source": None}, "upload"), ({"source": None, "upload": "0000"}, "upload"),
        ({"format": "pickle"}, "format"), ({"more": 1}, "more"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named(fields: dict[str, Any], field: str, api: TestClient) -> None:
    request_body = {"name": "chips", "source": "chips"} | fields
    answer = api.post("/v1/datasets", json={key: value for key, value in request_body.items() if value is not None})
    assert field in errors_of(answer)


@pytest.mark.parametrize(
    "name", ["..%2F..%2Fetc", "%252e%252e%252f", "chips%00", "Chips", "chips%2Fversions%2F1", "a" * 65]
)
def test_an_impossible_name_is_not_found(name: str, api: TestClient) -> None:
    for path in (f"/v1/datasets/{name}", f"/v1/datasets/{name}/versions/1"):
        assert api.get(path).status_code == 404
    assert api.get("/v1/datasets/chips/versions/x").status_code == 404


def test_a_repeated_key_registers_only_one_version(api: TestClient) -> None:
    body = {"name": "chips", "source": "chips"}
    first = api.post("/v1/datasets", json=body, headers={"Idempotency-Key": "k"})
    again = api.post("/v1/datasets", json=body, headers={"Idempotency-Key": "k"})
    assert (first.json()["version"], again.json()["version"]) == (1, 1)
    assert again.headers["Idempotency-Replayed"] == "true"
    changed_request = api.post("/v1/datasets", json=body | {"label": "kind"}, headers={"Idempotency-Key": "k"})
    assert changed_request.status_code == 409


def test_a_job_trains_on_the_newest_ready_version_and_keeps_it(
    api: TestClient, register_dataset: Register, submit_job: Submit, sessions: Sessions
) -> None:
    register_dataset(image_size=[96, 96], label="kind", validation=0.2)
    register_dataset(ready=False)
    job = api.get(f"/v1/jobs/{submit_job(dataset='chips', batch_size=8)}").json()
    assert job["dataset_version"] == {"name": "chips", "version": 1, "fingerprint": f"{1:064x}"}
    dataset_of_job = job["spec"]["dataset"]
    assert (
        dataset_of_job["source"],
        dataset_of_job["image_size"],
        dataset_of_job["label"],
        dataset_of_job["validation"],
    ) == ("chips@1", [96, 96], "kind", 0.2)
    with sessions() as session:
        ref = session.get_one(Job, job["id"]).dataset_ref
    assert ref == {
        "name": "chips", "version": 1, "fingerprint": f"{1:064x}", "source": "chips", "uploaded": False,
        "options": {"format": "auto", "label": "kind", "image_size": [96, 96], "validation": 0.2},
        "expects": {"samples": 100, "test": 20, "classes": 2},
    }  # fmt: skip
    settled(sessions)
    assert api.get(f"/v1/jobs/{submit_job(dataset='chips', batch_size=8)}").json()["dataset_version"]["version"] == 2
    assert api.get(f"/v1/jobs/{submit_job()}").json()["dataset_version"] is None


def test_fields_of_the_spec_override_the_version_and_its_sizes_are_planned(
    api: TestClient, register_dataset: Register, submit_job: Submit
) -> None:
    register_dataset(image_size=[96, 96])
    own = {"source": "chips@1", "image_size": [64, 64], "validation": 0.25, "label": "label"}
    job = api.get(f"/v1/jobs/{submit_job(dataset=own, batch_size=8)}").json()
    assert (job["spec"]["dataset"]["image_size"], job["spec"]["dataset"]["validation"]) == ([64, 64], 0.25)
    assert (job["plan"]["train_samples"], job["plan"]["validation_samples"], job["plan"]["test_samples"]) == (
        75,
        25,
        20,
    )
    large = api.post("/v1/jobs", json=SPEC | {"dataset": "chips", "batch_size": 64})
    assert "larger than the 90 training samples" in errors_of(large)["batch_size"]


def test_a_model_that_does_not_fit_the_dataset_is_refused_at_submission(
    api: TestClient, register_dataset: Register
) -> None:
    register_dataset()
    answer = api.post("/v1/jobs", json=SPEC | {"dataset": "chips", "model": "xception", "batch_size": 4})
    assert "71x71" in errors_of(answer)["dataset.image_size"]


def test_a_weight_of_a_class_that_the_dataset_does_not_have_is_refused_at_submission(
    api: TestClient, register_dataset: Register
) -> None:
    register_dataset()
    spec = SPEC | {"dataset": "chips", "batch_size": 4}
    message = errors_of(api.post("/v1/jobs", json=spec | {"class_weights": {"moon": 2}}))["class_weights.moon"]
    assert message.startswith("there is no such class; the data has: ")
    named = message.rpartition(": ")[2].split(", ")
    stored = api.post("/v1/jobs", json=spec | {"class_weights": {named[0]: 2}})
    assert stored.status_code == 201, stored.text
    assert stored.json()["spec"]["class_weights"] == {named[0]: 2.0}


def test_a_job_has_the_task_of_its_data_or_is_refused_at_submission(
    api: TestClient, register_dataset: Register, sessions: Sessions
) -> None:
    registered = register_dataset(ready=False, task="regression")
    assert registered["options"]["task"] == "regression"
    learned = {"task": "regression", "targets": 2, "classes": [], "class_counts": {}}
    settled(sessions, facts=FACTS | learned, fingerprint="3" * 64)
    assert api.get("/v1/datasets/chips").json()["items"][0]["facts"]["targets"] == 2
    spec = SPEC | {"dataset": "chips", "batch_size": 4}
    stored = api.post("/v1/jobs", json=spec)
    assert stored.status_code == 201, stored.text
    assert (stored.json()["spec"]["task"], stored.json()["spec"]["early_stopping"]["monitor"]) == (
        "regression",
        "val_loss",
    )
    with sessions() as session:
        (job,) = session.scalars(select(Job)).all()
        assert job.dataset_ref is not None
        assert job.dataset_ref["expects"] == {"samples": 100, "test": 20, "classes": 0, "targets": 2}
    assert api.post("/v1/jobs", json=stored.json()["spec"]).status_code == 201
    for dataset in ("chips", "diabetes"):
        of_data = SPEC | {"dataset": dataset, "batch_size": 4, "model": "mlp"}
        other = errors_of(api.post("/v1/jobs", json=of_data | {"task": "multilabel"}))
        assert "is for regression" in other["task"]
        unfit = errors_of(api.post("/v1/jobs", json=of_data | {"class_weights": "balanced"}))
        assert "only for classification" in unfit["class_weights"]
        unknown = errors_of(api.post("/v1/jobs", json=of_data | {"goal": {"metric": "val_auc"}}))
        assert "there are: loss, mae, val_loss, val_mae, val_rmse" in unknown["goal.metric"]
    digits = errors_of(api.post("/v1/jobs", json=SPEC | {"dataset": "digits", "goal": {"metric": "val_auc"}}))
    assert "val_top5" in digits["goal.metric"]  # ten classes have no area


def test_a_version_that_is_not_ready_is_refused_with_the_ready_ones(
    api: TestClient, register_dataset: Register, sessions: Sessions
) -> None:
    def refused(source: str) -> str:
        return errors_of(api.post("/v1/jobs", json=SPEC | {"dataset": source}))["dataset.source"]

    assert "no dataset chips is registered" in refused("chips@1")
    register_dataset(ready=False)
    assert refused("chips") == "chips has no version that is ready: chips@1 is still being validated"
    assert "still being validated" in refused("chips@1")
    settled(sessions, error="there is one class only")
    assert refused("chips@1") == "chips@1 is invalid: there is one class only"
    register_dataset()
    assert refused("chips@9") == "there is no chips@9; there are: chips@1, chips@2"
    assert refused("chips@0") == "only registered datasets have versions (NAME@N)"
    assert refused("chisp").endswith("; registered: chips; did you mean chips?")
    assert refused("other@1").endswith("; registered: chips")


def test_a_path_is_not_taken_for_a_registered_name(
    api: TestClient, submit_job: Submit, configuration: Settings, register_dataset: Register
) -> None:
    job = api.get(f"/v1/jobs/{submit_job(dataset='chips')}").json()
    assert (job["spec"]["dataset"]["source"], job["dataset_version"]) == ("chips", None)
    register_dataset()
    job = api.get(f"/v1/jobs/{submit_job(dataset='./chips')}").json()
    assert (job["spec"]["dataset"]["source"], job["dataset_version"]) == ("./chips", None)


def test_a_clone_keeps_the_version_unless_it_is_changed(
    api: TestClient, register_dataset: Register, submit_job: Submit
) -> None:
    register_dataset(image_size=[96, 96])
    job_id = submit_job(dataset={"source": "chips", "label": "mine"}, batch_size=8)
    register_dataset()
    clone = api.post(f"/v1/jobs/{job_id}/clone", json={"batch_size": 4}).json()
    assert (clone["dataset_version"]["version"], clone["spec"]["dataset"]["image_size"]) == (1, [96, 96])
    newest = api.post(f"/v1/jobs/{job_id}/clone", json={"dataset": {"source": "chips"}}).json()
    assert newest["dataset_version"]["version"] == 2
    assert (newest["spec"]["dataset"]["image_size"], newest["spec"]["dataset"]["label"]) == (None, "mine")


def test_a_study_trains_on_one_version(api: TestClient, register_dataset: Register, sessions: Sessions) -> None:
    register_dataset(image_size=[16, 16])
    base = {"dataset": "chips", "batch_size": 8, "learning_rate": 0.001}
    study = api.post("/v1/studies", json={"name": "s", "base": base, "grid": {"batch_size": [4, 8]}, "repeats": 2})
    assert study.status_code == 201, study.text
    with sessions() as session:
        jobs = session.scalars(select(Job)).all()
    assert [job.spec["dataset"]["source"] for job in jobs] == ["chips@1"] * 4
    assert {job.dataset_ref["version"] for job in jobs if job.dataset_ref} == {1}
    assert {job.plan["train_samples"] for job in jobs} == {90}
    register_dataset()
    for job in jobs:
        api.post(f"/v1/jobs/{job.id}/cancel")
    api.post(f"/v1/studies/{study.json()['id']}/resume")
    with sessions() as session:
        fresh = session.scalars(select(Job).where(Job.status == "queued")).all()
    assert [job.spec["dataset"]["source"] for job in fresh] == ["chips@1"] * 4
    assert {job.dataset_ref["version"] for job in fresh if job.dataset_ref} == {1}


def test_a_version_in_use_cannot_be_removed_and_a_removed_one_cannot_be_used(
    api: TestClient, register_dataset: Register, submit_job: Submit, sessions: Sessions
) -> None:
    register_dataset()
    job_id = submit_job(dataset="chips", batch_size=8)
    answer = api.delete("/v1/datasets/chips/versions/1")
    assert answer.status_code == 409
    assert job_id in answer.json()["detail"]
    with sessions.begin() as session:
        assert move(session, [job_id], Status.CANCELLED)
    assert api.delete("/v1/datasets/chips/versions/1").status_code == 204
    assert api.get("/v1/datasets/chips").status_code == 404
    assert api.get("/v1/datasets/chips/versions/1").status_code == 404
    assert "no dataset chips is registered" in errors_of(api.post(f"/v1/jobs/{job_id}/clone"))["dataset.source"]
    assert api.get(f"/v1/jobs/{job_id}").json()["dataset_version"]["version"] == 1
    assert register_dataset(ready=False)["version"] == 2  # a number is given once


def test_a_repeated_key_is_answered_after_its_data_is_gone(
    api: TestClient, register_dataset: Register, sessions: Sessions
) -> None:
    register_dataset()
    body = SPEC | {"dataset": "chips", "batch_size": 8}
    first = api.post("/v1/jobs", json=body, headers={"Idempotency-Key": "k"}).json()
    with sessions.begin() as session:
        move(session, [first["id"]], Status.CANCELLED)
    api.delete("/v1/datasets/chips/versions/1")
    register_dataset(ready=False)
    assert api.post("/v1/jobs", json=body, headers={"Idempotency-Key": "k"}).json()["id"] == first["id"]
    assert "dataset.source" in errors_of(api.post("/v1/jobs", json=body, headers={"Idempotency-Key": "l"}))


@pytest.mark.parametrize(
    ("changed_facts", "field"),
    [({"train": 4, "samples": 5}, "batch_size"), ({"shape": [12, 16, 3]}, "dataset.augment")],
)
def test_a_replay_is_answered_though_a_newer_version_does_not_fit(
    api: TestClient, register_dataset: Register, sessions: Sessions, changed_facts: dict[str, Any], field: str
) -> None:
    register_dataset()
    body = SPEC | {"dataset": {"source": "chips", "augment": ["rotate_90"]}, "batch_size": 8}
    study = {"base": body, "grid": {"learning_rate": [0.1, 0.01]}}
    job = api.post("/v1/jobs", json=body, headers={"Idempotency-Key": "job"}).json()
    first_study = api.post("/v1/studies", json=study, headers={"Idempotency-Key": "study"}).json()
    register_dataset(ready=False)
    settled(sessions, facts=FACTS | changed_facts, fingerprint="2" * 64)

    assert field in errors_of(api.post("/v1/jobs", json=body))
    assert api.post("/v1/jobs", json=body, headers={"Idempotency-Key": "job"}).json()["id"] == job["id"]
    repeated_study = api.post("/v1/studies", json=study, headers={"Idempotency-Key": "study"})
    assert repeated_study.json()["id"] == first_study["id"]


def test_only_who_registered_it_and_admins_remove_a_version(
    api: TestClient, client_of: Callable[..., TestClient], register_dataset: Register, sessions: Sessions
) -> None:
    ada, bob, reader = client_of("ada"), client_of("bob"), client_of("rob", "read")
    assert ada.post("/v1/datasets", json={"name": "chips", "source": "chips"}).status_code == 201
    assert reader.get("/v1/datasets/chips").status_code == 200
    assert reader.post("/v1/datasets", json={"name": "chips", "source": "chips"}).status_code == 403
    assert bob.delete("/v1/datasets/chips/versions/1").status_code == 403
    assert ada.delete("/v1/datasets/chips/versions/1").status_code == 204
    with sessions() as session:
        audit_entries = session.execute(select(AuditEntry.action, AuditEntry.subject, AuditEntry.actor)).all()
    assert ("dataset.registered", "chips@1", "ada") in audit_entries
    assert ("dataset.removed", "chips@1", "ada") in audit_entries
