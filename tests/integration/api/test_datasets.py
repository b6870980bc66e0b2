"""Registered datasets over HTTP: names, versions, and the jobs that train on them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from jobs.data import validation
from jobs.db.engine import Sessions
from jobs.db.tables import Job
from jobs.lifecycle.store import move
from jobs.model.catalog import DATASETS
from jobs.model.states import Status
from jobs.runtime.settings import Settings
from tests.integration.api.answers import errors_of, pages_of
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


def test_versions_are_numbered_and_lists_go_page_by_page(api: TestClient, register_dataset: Register) -> None:
    first = register_dataset(description="of the first camera", label="kind")
    assert (first["name"], first["version"], first["status"]) == ("chips", 1, "ready")
    assert first["options"] == {"format": "auto", "label": "kind", "image_size": None, "validation": 0.1}
    listed = {line["name"]: line for line in api.get("/v1/datasets").json()["items"]}
    for name, known in DATASETS.items():
        assert known.model_dump(mode="json").items() <= listed[name].items()
        assert listed[name]["builtin"]
    assert listed["chips"] | {"created_at": None} == {
        "name": "chips", "description": "of the first camera", "trainable": 100, "test": 20, "classes": 2,
        "targets": 0, "shape": [12, 12, 3], "task": "classification", "format": "images", "builtin": False,
        "version": 1, "status": "ready", "error": None, "created_by": "admin", "created_at": None,
    }  # fmt: skip
    second = register_dataset(ready=False)
    assert (second["version"], second["status"], second["facts"]) == (2, "validating", None)
    newest = next(line for line in api.get("/v1/datasets").json()["items"] if line["name"] == "chips")
    assert (newest["version"], newest["status"], newest["trainable"]) == (2, "validating", None)
    shown_dataset = api.get("/v1/datasets/chips").json()
    assert [(one["version"], one["status"]) for one in shown_dataset["items"]] == [(2, "validating"), (1, "ready")]
    assert (shown_dataset["builtin"], shown_dataset["newest_ready"], shown_dataset["next_cursor"]) == (False, 1, None)

    once = {"json": {"name": "chips", "source": "chips"}, "headers": {"Idempotency-Key": "k"}}
    third, again = (api.post("/v1/datasets", **once) for _ in range(2))
    assert (third.json()["version"], again.json()["version"]) == (3, 3)
    assert again.headers["Idempotency-Replayed"] == "true"
    changed = {"name": "chips", "source": "chips", "label": "kind"}
    assert api.post("/v1/datasets", json=changed, headers={"Idempotency-Key": "k"}).status_code == 409

    for name in ("aa", "zz"):
        register_dataset(ready=False, name=name)
    names = [item["name"] for page in pages_of(api, "/v1/datasets", limit=2) for item in page]
    assert names == sorted(["aa", "chips", "zz", *DATASETS])
    versions = pages_of(api, "/v1/datasets/chips", limit=2)
    assert [[item["version"] for item in page] for page in versions] == [[3, 2], [1]]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"name": "digits"}, "name"), ({"name": "Chips"}, "name"), ({"name": "../x"}, "name"), ({"name": "a@1"}, "name"),
    ({"name": "x" * 65}, "name"), ({"source": "a/../../etc"}, "source"), ({"source": "nowhere"}, "source"),
    ({"source": "digits"}, "source"), ({"source": "chips@1"}, "source"), ({"source": "a\x00b"}, "source"),
    ({"source": "http://169.254.169.254/latest"}, "source"), ({"validation": "../etc"}, "validation"),
    ({"validation": 1.5}, "validation"), ({"image_size": [0, 5]}, "image_size.0"), ({"upload": "0000"}, "upload"),
    ({"source": None}, "upload"), ({"source": None, "upload": "0000"}, "upload"), ({"format": "pickle"}, "format"),
    ({"more": 1}, "more"),
]  # fmt: skip


def test_wrong_fields_and_impossible_names_are_refused(api: TestClient) -> None:
    for fields, field in WRONG:
        new = {"name": "chips", "source": "chips"} | fields
        answer = api.post("/v1/datasets", json={key: value for key, value in new.items() if value is not None})
        assert field in errors_of(answer), fields
    for name in ("..%2F..%2Fetc", "%252e%252e%252f", "chips%00", "Chips", "chips%2Fversions%2F1", "a" * 65):
        for path in (f"/v1/datasets/{name}", f"/v1/datasets/{name}/versions/1"):
            assert api.get(path).status_code == 404, path
    assert api.get("/v1/datasets/chips/versions/x").status_code == 404


def test_a_job_trains_on_the_newest_ready_version_and_keeps_it(
    api: TestClient, register_dataset: Register, submit_job: Submit, sessions: Sessions
) -> None:
    def job_on(dataset: Any) -> dict[str, Any]:
        job: dict[str, Any] = api.get(f"/v1/jobs/{submit_job(dataset=dataset, batch_size=8)}").json()
        return job

    of_path = job_on("chips")
    assert (of_path["spec"]["dataset"]["source"], of_path["dataset_version"]) == ("chips", None)
    register_dataset(image_size=[96, 96], label="kind", validation=0.2)
    register_dataset(ready=False)
    of_path = job_on("./chips")
    assert (of_path["spec"]["dataset"]["source"], of_path["dataset_version"]) == ("./chips", None)
    job = job_on("chips")
    assert job["dataset_version"] == {"name": "chips", "version": 1, "fingerprint": f"{1:064x}"}
    dataset = {"source": "chips@1", "image_size": [96, 96], "label": "kind", "validation": 0.2}
    assert dataset.items() <= job["spec"]["dataset"].items()
    with sessions() as session:
        ref = session.get_one(Job, job["id"]).dataset_ref
    assert ref == {
        "name": "chips", "version": 1, "fingerprint": f"{1:064x}", "source": "chips", "uploaded": False,
        "options": {"format": "auto", "label": "kind", "image_size": [96, 96], "validation": 0.2},
        "expects": {"samples": 100, "test": 20, "classes": 2},
    }  # fmt: skip
    plan = job_on({"source": "chips@1", "validation": 0.25})["plan"]
    assert (plan["train_samples"], plan["validation_samples"], plan["test_samples"]) == (75, 25, 20)
    settled(sessions)
    assert job_on("chips")["dataset_version"]["version"] == 2
    assert job_on("digits")["dataset_version"] is None


def test_what_does_not_fit_the_dataset_is_refused_at_submission(api: TestClient, register_dataset: Register) -> None:
    register_dataset()
    spec = SPEC | {"dataset": "chips", "batch_size": 4}
    large = errors_of(api.post("/v1/jobs", json=spec | {"batch_size": 64}))
    assert "larger than the 90 training samples" in large["batch_size"]
    assert "71x71" in errors_of(api.post("/v1/jobs", json=spec | {"model": "xception"}))["dataset.image_size"]
    unknown = errors_of(api.post("/v1/jobs", json=spec | {"class_weights": {"moon": 2}}))
    assert unknown["class_weights.moon"] == "there is no such class; the data has: cracked, whole"
    stored = api.post("/v1/jobs", json=spec | {"class_weights": {"whole": 2}})
    assert stored.status_code == 201, stored.text
    assert stored.json()["spec"]["class_weights"] == {"whole": 2.0}


def test_a_dry_run_repeats_the_warnings_about_its_data(
    api: TestClient, register_dataset: Register, sessions: Sessions
) -> None:
    register_dataset(ready=False)
    settled(sessions, facts=FACTS | {"warnings": ["Class 0 is empty."]}, fingerprint="4" * 64)
    assert api.get("/v1/datasets/chips").json()["items"][0]["facts"]["warnings"] == ["Class 0 is empty."]
    preview = api.post("/v1/jobs?dry_run=true", json=SPEC | {"dataset": "chips", "batch_size": 4}).json()
    assert "Class 0 is empty." in preview["warnings"]


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
    assert stored.json()["spec"]["task"] == "regression"
    assert stored.json()["spec"]["early_stopping"]["monitor"] == "val_loss"
    with sessions() as session:
        ref = session.scalars(select(Job.dataset_ref)).one()
    assert ref is not None
    assert ref["expects"] == {"samples": 100, "test": 20, "classes": 0, "targets": 2}
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


def test_a_clone_keeps_the_version_unless_it_is_changed_and_a_study_trains_on_one(
    api: TestClient, register_dataset: Register, submit_job: Submit, sessions: Sessions
) -> None:
    register_dataset(image_size=[96, 96])
    job_id = submit_job(dataset={"source": "chips", "label": "mine"}, batch_size=8)
    register_dataset()
    clone = api.post(f"/v1/jobs/{job_id}/clone", json={"batch_size": 4}).json()
    assert (clone["dataset_version"]["version"], clone["spec"]["dataset"]["image_size"]) == (1, [96, 96])
    newest = api.post(f"/v1/jobs/{job_id}/clone", json={"dataset": {"source": "chips"}}).json()
    assert newest["dataset_version"]["version"] == 2
    assert (newest["spec"]["dataset"]["image_size"], newest["spec"]["dataset"]["label"]) == (None, "mine")

    base = {"dataset": "chips", "batch_size": 8, "learning_rate": 0.001}
    study = api.post("/v1/studies", json={"name": "s", "base": base, "grid": {"batch_size": [4, 8]}, "repeats": 2})
    assert study.status_code == 201, study.text
    of_study = select(Job).where(Job.study_id == study.json()["id"], Job.status == "queued")
    for _ in range(2):
        with sessions() as session:
            jobs = session.scalars(of_study).all()
        assert [job.spec["dataset"]["source"] for job in jobs] == ["chips@2"] * 4
        assert [job.dataset_ref["version"] for job in jobs if job.dataset_ref] == [2] * 4
        assert {job.plan["train_samples"] for job in jobs} == {90}
        register_dataset()
        for job in jobs:
            api.post(f"/v1/jobs/{job.id}/cancel")
        api.post(f"/v1/studies/{study.json()['id']}/resume")


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


def test_a_replay_is_answered_though_its_data_does_not_fit_or_is_gone(
    api: TestClient, register_dataset: Register, sessions: Sessions
) -> None:
    register_dataset()
    body = SPEC | {"dataset": {"source": "chips", "augment": ["rotate_90"]}, "batch_size": 8}
    study = {"base": body, "grid": {"learning_rate": [0.1, 0.01]}}
    keys = {path: {"Idempotency-Key": path} for path in ("/v1/jobs", "/v1/studies")}
    bodies = {"/v1/jobs": body, "/v1/studies": study}
    first = {path: api.post(path, json=bodies[path], headers=keys[path]).json()["id"] for path in keys}

    def refused_field() -> str:
        """The wrong field of a new job. Replays get their first answers."""
        for path, headers in keys.items():
            assert api.post(path, json=bodies[path], headers=headers).json()["id"] == first[path]
        (field,) = errors_of(api.post("/v1/jobs", json=body))
        return field

    for number, (facts, field) in enumerate(
        [({"train": 4, "samples": 5}, "batch_size"), ({"shape": [12, 16, 3]}, "dataset.augment")], start=2
    ):
        register_dataset(ready=False)
        settled(sessions, facts=FACTS | facts, fingerprint=f"{number:064x}")
        assert refused_field() == field
    with sessions.begin() as session:
        assert move(session, session.scalars(select(Job.id)).all(), Status.CANCELLED)
    for number in (1, 2, 3):
        assert api.delete(f"/v1/datasets/chips/versions/{number}").status_code == 204
    register_dataset(ready=False)
    assert refused_field() == "dataset.source"
