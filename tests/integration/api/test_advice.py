"""GET /v1/jobs/{id}/advice, and the quotes of dry runs, on rows as workers leave them."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update

from jobs.db.engine import Sessions
from jobs.db.tables import Job, JobAnalysis
from jobs.insight.advice.quote import preview
from jobs.insight.analysis.analyse import VERSION
from jobs.lifecycle import store
from jobs.model.plan import resolve_plan
from jobs.model.spec import spec_from
from jobs.model.states import EndReason, Status
from jobs.views.analysis import FindingKind
from tests.integration.api.answers import got
from tests.integration.api.starting_rows import SPEC, START, a_host, an_attempt, metric_points
from tests.integration.jobs.writing import change
from tests.unit.jobs.insight.advice_inputs import an_analysis

Submit = Callable[..., str]
SUMMARY = {
    "best_epoch": 8, "epochs_run": 30, "val_accuracy": 0.95, "val_loss": 0.2, "train_samples_per_s": 4000.0,
    "wall_s": 36.0, "setup_s": 4.0, "parameters": 60_000, "trainable_parameters": 60_000, "model_bytes": 240_000,
    "after_best_share": 0.7, "stopped_early": False,
}  # fmt: skip
DATA = {"format": "arrays", "shape": [8, 8, 1], "train": 1350, "validation": 150, "test": 297}


@pytest.fixture
def run_job(submit_job: Submit, sessions: Sessions) -> Submit:
    """Submits a job, runs it on host `ha` and ends it. `summary` has changes to a usual one."""

    def run(
        *, summary: dict[str, Any] | None = None, host: str = "ha", devices: Sequence[str] = (), **changes: Any
    ) -> str:
        job_id = submit_job(**changes)
        gpus = (SPEC | changes)["gpus"]
        with sessions.begin() as session:
            store.transition(session, job_id, Status.LAUNCHING)
            store.transition(session, job_id, Status.RUNNING)
            store.transition(
                session, job_id, Status.SUCCEEDED, summary=SUMMARY | (summary or {}), attempt=1,
                dataset=DATA | {"damaged": 0, "damaged_files": []}, end_reason=EndReason.COMPLETED, ended_at=START,
            )  # fmt: skip
        shares = [{"host": host, "slots": list(range(gpus)), "devices": devices}]
        an_attempt(sessions, job_id, host=host, gpus=gpus, shares=shares, end_reason=EndReason.COMPLETED)
        return job_id

    return run


def advice(api: TestClient, job_id: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = got(api, f"/v1/jobs/{job_id}/advice")["items"]
    return items


def dry_run(api: TestClient, url: str = "/v1/jobs", **body: Any) -> dict[str, Any]:
    answer = api.post(url, params={"dry_run": True}, json=body)
    assert answer.status_code == 200, answer.text
    preview: dict[str, Any] = answer.json()
    return preview


def test_advice_says_what_to_change_and_the_clone_takes_it(
    api: TestClient, submit_job: Submit, run_job: Submit, sessions: Sessions
) -> None:
    a_host(sessions)
    job_id = run_job(early_stopping=None, goal={"metric": "val_loss"})
    losses = [0.9, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.2, *[0.4] * 22]
    metric_points(sessions, job_id, [(4 * (i + 1), value) for i, value in enumerate(losses)], name="val_loss", rank=-1)
    accuracies = [(4 * (i + 1), i / 100) for i in range(30)]
    metric_points(sessions, job_id, accuracies, name="val_accuracy", rank=-1)
    (item,) = advice(api, job_id)

    assert (item["number"], item["rule"]) == (1, "early_stopping")
    assert item["evidence"] == {"after_best_share": 0.7, "epochs_after_best": 22, "epochs_run": 30, "patience": 6}
    assert (item["change"]["early_stopping"]["monitor"], item["gain"]["accuracy"]) == ("val_loss", None)
    assert item["gain"]["time_factor"] == pytest.approx(1 - 0.7 * 16 / 22, abs=1e-4)
    clone = api.post(f"/v1/jobs/{job_id}/clone", json=item["change"])
    assert clone.status_code == 201
    assert clone.json()["spec"]["early_stopping"] == item["change"]["early_stopping"]
    assert advice(api, submit_job()) == []  # it has not run
    assert api.get("/v1/jobs/0000/advice").status_code == 404


def test_advice_proposes_the_weights_of_a_job_with_more_similar_images_while_they_exist(
    api: TestClient, run_job: Submit, sessions: Sessions
) -> None:
    a_host(sessions)
    base = run_job(dataset="synthetic:samples=5000,shape=8x8x1", model="convnet7")
    run_job(dataset="synthetic:samples=6000,shape=8x8x1", model="mlp")
    other_task = run_job(dataset="synthetic:samples=7000,shape=8x8x1", model="convnet7")
    change(sessions, update(Job).where(Job.id == other_task).values(dataset=DATA | {"task": "multilabel"}))
    job_id = run_job(model="convnet7", summary={"val_accuracy": 0.5, "after_best_share": 0.1})
    (item,) = advice(api, job_id)
    assert item["change"] == {"model": {"weights": f"job:{base}", "freeze_base": False}}
    clone = api.post(f"/v1/jobs/{job_id}/clone", json=item["change"])
    assert clone.status_code == 201
    api.post(f"/v1/jobs/{clone.json()['id']}/cancel")
    assert api.delete(f"/v1/jobs/{base}/artifacts").status_code == 204
    assert advice(api, job_id) == []


def test_no_job_is_called_compute_bound_while_a_larger_batch_may_be_faster(
    api: TestClient, run_job: Submit, sessions: Sessions
) -> None:
    a_host(sessions)
    kinds = {}
    for batch in (2, 64):
        job_id = run_job(batch_size=batch)
        stored = an_analysis(FindingKind.COMPUTE_BOUND).model_dump(mode="json") | {"job_id": job_id}
        with sessions.begin() as session:
            session.add(JobAnalysis(job_id=job_id, version=VERSION, data=stored))
        kinds[batch] = [one["kind"] for one in api.get(f"/v1/jobs/{job_id}/analysis").json()["findings"]]
    assert kinds == {2: ["underused"], 64: ["compute_bound"]}


def test_a_dry_run_quotes_past_jobs_and_warns(api: TestClient, run_job: Submit, sessions: Sessions) -> None:
    a_host(sessions, slots=4)
    runs = [run_job(summary={"wall_s": wall_s, "stopped_early": True, "epochs_run": 20}) for wall_s in (30.0, 40.0)]
    run_job(gpus=1, summary={"train_samples_per_s": 2800.0})
    quote = dry_run(api, **SPEC)["quote"]

    assert (quote["basis"], quote["jobs"]) == ("same_spec", runs[::-1])
    assert quote["wall_s"] == {"mean": 35.0, "low": 30.0, "high": 40.0}
    assert quote["gpu_hours"]["mean"] == pytest.approx(2 * (35 + 4) / 3600)
    assert (quote["speedup"], quote["doubling_gain"]) == (pytest.approx(4 / 2.8), pytest.approx(4 / 2.8))
    warnings = dry_run(api, **SPEC, time_limit_s=30)["warnings"]
    assert [warning.split(":")[0][:44] for warning in warnings] == [
        "In past jobs 2 GPUs reached 1.4x the through",
        "The job is expected to take 39 s, but time_l",
    ]
    other_optimizer = dry_run(api, f"/v1/jobs/{runs[0]}/clone", optimizer="sgd")
    assert other_optimizer["quote"]["basis"] == "same_batch_and_gpus"
    assert dry_run(api, f"/v1/jobs/{runs[0]}/clone", model="mlp") | {"spec": 0, "plan": 0} == {
        "spec": 0, "plan": 0, "quote": None, "warnings": [],
    }  # fmt: skip


def test_quotes_for_gpu_slots_ignore_jobs_on_cpu_slots(api: TestClient, run_job: Submit, sessions: Sessions) -> None:
    a_host(sessions, "ha")
    job_id = run_job()
    assert dry_run(api, **SPEC)["quote"]["jobs"] == [job_id]
    a_host(sessions, "hb", kind="gpu")  # where a job of any device would go now
    assert dry_run(api, **SPEC)["quote"] is None
    on_gpu = run_job(host="hb")
    run_job(host="hb", devices=["cpu", "cpu"])  # before the host could use its GPUs
    assert dry_run(api, **SPEC)["quote"]["jobs"] == [on_gpu]


def test_a_quote_takes_unknown_data_sizes_from_past_jobs_and_skips_unknown_summaries(
    run_job: Submit, sessions: Sessions
) -> None:
    a_host(sessions)
    job_id, strange = run_job(summary={"stopped_early": True}), run_job()
    change(sessions, update(Job).where(Job.id == strange).values(summary={"speed": "high"}))
    with sessions() as session:
        spec = spec_from(SPEC | {"optimizer": "sgd"})
        unknown = preview(session, spec, resolve_plan(spec, None)).quote
    assert unknown is not None
    assert unknown.jobs == [job_id]
    assert unknown.wall_s is not None
    assert unknown.wall_s.mean == pytest.approx(36.0)
