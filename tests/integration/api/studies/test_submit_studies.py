"""Studies over HTTP: what a submission stores, and what it refuses."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from fastapi.testclient import TestClient
from sqlalchemy import select

from jobs.db.engine import Sessions
from jobs.db.tables import Job, JobEvent, Study
from tests.integration.api.answers import wrong_fields
from tests.integration.api.starting_rows import a_host
from tests.integration.api.studies.study_jobs import BASE, GRID, STUDY
from tests.integration.jobs.job_rows import count


def test_a_grid_becomes_jobs_that_are_linked_to_their_cells(api: TestClient, sessions: Sessions) -> None:
    preview = api.post("/v1/studies", params={"dry_run": True}, json=STUDY).json()
    assert (preview["jobs"], preview["repeats"], preview["varied"]) == (8, 2, list(GRID))
    assert [cell["plan"]["global_batch"] for cell in preview["cells"]] == [32, 64, 64, 128]
    assert count(sessions, Study) == count(sessions, Job) == 0
    answer = api.post("/v1/studies", json=STUDY | {"note": " first try "})
    study = answer.json()
    assert answer.headers["location"] == f"/v1/studies/{study['id']}"
    assert answer.headers["etag"] == api.get(answer.headers["location"]).headers["etag"]
    assert [cell["values"] for cell in study["cells"]] == [
        {"gpus": gpus, "batch_size": batch} for gpus in (1, 2) for batch in (32, 64)
    ]
    assert (study["jobs"], study["counts"]["queued"], study["complete"], study["varied"]) == (8, 8, False, list(GRID))
    assert [note["text"] for note in study["notes"]] == ["first try"]
    listed_jobs = api.get("/v1/jobs", params={"study": study["id"], "sort": "created_at"}).json()["items"]
    assert [(job["study_cell"], job["study_repeat"]) for job in listed_jobs] == [
        (c, r) for r in (0, 1) for c in range(4)
    ]
    for job in listed_jobs:
        cell = study["cells"][job["study_cell"]]
        assert cell["jobs"][job["study_repeat"]]["id"] == job["id"]
        assert list(job["study_values"].items()) == list(cell["values"].items())
        assert (job["spec"]["gpus"], job["spec"]["batch_size"]) == tuple(cell["values"].values())
        assert (job["spec"]["seed"], job["study"]) == (42 + job["study_repeat"], study["id"])
        assert job["plan"]["global_batch"] == job["gpus"] * job["spec"]["batch_size"]
    assert listed_jobs[0]["name"] == "scaling gpus 1 batch_size 32"
    with sessions() as session:
        assert Counter(session.scalars(select(JobEvent.kind))) == {"submitted": 8}
    assert api.get(f"/v1/studies/{study['id']}").json() == study


def test_wrong_cells_are_named_and_nothing_is_stored(api: TestClient, sessions: Sessions) -> None:
    a_host(sessions)
    wrong = {
        "grid.gpus[2]": STUDY | {"grid": GRID | {"gpus": [1, 2, 3]}},  # the host has two
        "grid.model[1].name": STUDY | {"grid": {"model": ["mlp", "resnet51"]}},
        "grid.batch_size[1]": STUDY | {"grid": {"batch_size": [64, 4096]}},
        "base.dataset.source": STUDY | {"base": {"dataset": "/etc"}},
        "grid.model.weights[0]": STUDY | {"grid": {"model.weights": ["job:0000"]}, "base": BASE | {"model": "mlp"}},
        "max_jobs": STUDY | {"max_jobs": 7},
        "note": STUDY | {"note": "\x00"},
        "target": STUDY | {"target": 90},
    }  # fmt: skip
    for field, body in wrong.items():
        for dry_run in (True, False) if field != "grid.gpus[2]" else (False,):
            assert wrong_fields(api.post("/v1/studies", params={"dry_run": dry_run}, json=body)) == [field]
    assert count(sessions, Study) == count(sessions, Job) == 0


def test_a_repeated_key_gets_the_first_study_again(api: TestClient, sessions: Sessions) -> None:
    key = {"Idempotency-Key": "k"}
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: api.post("/v1/studies", json=STUDY, headers=key), range(4)))

    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert Counter("idempotency-replayed" in answer.headers for answer in answers) == {True: 3, False: 1}
    assert count(sessions, Job) == 8
    changed_study = api.post("/v1/studies", json=STUDY | {"repeats": 1}, headers=key)
    assert (changed_study.status_code, changed_study.json()["type"]) == (409, "urn:hora:problem:idempotency-conflict")
    assert api.post("/v1/jobs", json=BASE, headers=key).status_code == 409


def test_an_unknown_study_is_not_found(api: TestClient) -> None:
    for path in ("0000", "0000/report", "UPPER"):
        answer = api.get(f"/v1/studies/{path}")
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:hora:problem:study-not-found")
    for order in ("cancel", "pause", "resume"):
        assert api.post(f"/v1/studies/0000/{order}").status_code == 404
    assert api.post("/v1/studies/0000/notes", json={"text": "x"}).status_code == 404
