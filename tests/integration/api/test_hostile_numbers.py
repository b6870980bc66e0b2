"""Numbers and times that no column, float or timestamp holds: refused at their field, or harmless; never a fault."""

import json
from collections.abc import Callable
from itertools import product

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from jobs.db.engine import Sessions
from jobs.db.tables import Job
from tests.integration.api.answers import errors_of
from tests.integration.api.starting_rows import SPEC

DIGITS = "9" * 5000  # more than Python makes an int of
NUMBERS = ["1e300", "1e400", "-1e400", "NaN", "Infinity", "9223372036854775808", DIGITS]
LONGEST_DATES = ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "99999-01-01T00:00:00Z"]

BODIES = [
    ("/v1/jobs", SPEC, "time_limit_s"),  # the other fields of a spec: tests/unit/jobs/model/test_spec_numbers.py
    ("/v1/studies", {"base": SPEC}, "repeats"),
    ("/v1/studies", {"base": SPEC}, "max_jobs"),
    ("/v1/studies", {"base": SPEC}, "target"),
    ("/v1/projects", {"name": "p"}, "max_slots"),
    ("/v1/projects", {"name": "p"}, "max_queued"),
    ("/v1/projects", {"name": "p"}, "max_gpu_hours"),
    ("/v1/projects", {"name": "p"}, "share"),
    ("/v1/tokens", {"name": "t", "scope": "read"}, "expires_in_s"),
    ("/v1/tokens", {"name": "t", "scope": "read"}, "rate_limit_per_s"),
    ("/v1/uploads", {"filename": "x.zip"}, "size_bytes"),
]


def test_a_hostile_number_in_a_body_is_refused_at_its_field(api: TestClient, subtests: pytest.Subtests) -> None:
    for (path, body, field), number in product(BODIES, NUMBERS):
        with subtests.test(f"{path} {field} {number[:20]}"):
            text = f'{json.dumps(body)[:-1]}, "{field}": {number}}}'
            answer = api.post(path, content=text, headers={"Content-Type": "application/json"})
            assert answer.status_code == 422, answer.text
            [error] = answer.json()["errors"]
            # The JSON parser refuses a number of 5,000 digits before any field is read.
            assert error["field"] == ("" if number == DIGITS else field)
            assert error["message"]
            assert len(answer.content) < 2_000


def test_the_smallest_positive_numbers_are_stored(api: TestClient) -> None:
    least = {"time_limit_s": 5e-324, "stall_timeout_s": 5e-324, "learning_rate": 5e-324}
    answer = api.post("/v1/jobs", json=SPEC | least)
    assert answer.status_code == 201, answer.text
    assert api.get("/v1/jobs", params={"sort": "learning_rate"}).json()["items"][0]["spec"]["time_limit_s"] == 5e-324


def test_images_that_no_rank_makes_are_refused(api: TestClient) -> None:
    for image_size in ([4, 32], [32, 4], [4096, 4096]):
        dataset = {"source": "synthetic:classes=20,shape=32x32x4", "image_size": image_size}
        answer = api.post("/v1/jobs", json=SPEC | {"dataset": dataset})
        assert errors_of(answer).keys() == {"dataset.image_size"}


def test_a_stored_job_whose_options_are_not_allowed_any_more_is_still_answered(
    api: TestClient, submit_job: Callable[..., str], sessions: Sessions
) -> None:
    job_id = submit_job(dataset={"source": "synthetic:samples=200"})
    study_id = api.post("/v1/studies", json={"base": SPEC | {"dataset": "synthetic:samples=200"}}).json()["id"]
    with sessions.begin() as session:
        for job in session.scalars(select(Job)):
            job.spec = {**job.spec, "dataset": {**job.spec["dataset"], "source": "synthetic:samples=2147483648"}}
    of_job = [f"/v1/jobs/{job_id}{part}" for part in ("", "/advice", "/analysis")]
    for path in (*of_job, "/v1/jobs", f"/v1/studies/{study_id}"):
        assert api.get(path).status_code in (200, 409), path
    clone = api.post(f"/v1/jobs/{job_id}/clone")
    assert (clone.status_code, clone.json()["errors"][0]["field"]) == (422, "dataset.source")
    assert api.post(f"/v1/jobs/{job_id}/clone", json={"dataset": "synthetic:samples=400"}).status_code == 201


def test_extreme_numbers_and_times_in_a_query_cause_no_internal_error(api: TestClient, submit_job: object) -> None:
    job_id = submit_job()  # type: ignore[operator]
    numbers = {
        f"/v1/jobs/{job_id}/metrics": ("from", "to", "points", "bands"),
        f"/v1/jobs/{job_id}/utilization": ("from", "to", "points"),
        f"/v1/jobs/{job_id}/logs": ("after", "before", "tail", "rank", "limit", "attempt"),
        f"/v1/jobs/{job_id}/events": ("limit",),
        "/v1/jobs": ("limit",),
        "/v1/hosts/ha/utilization": ("minutes", "points"),
        "/v1/studies": ("limit",),
        "/v1/webhooks/x/deliveries": ("limit",),
    }
    queries = [(path, name, number) for path, names in numbers.items() for name, number in product(names, NUMBERS)]
    for path, name, value in [*queries, *product(("/v1/jobs", "/v1/audit"), ("since", "until"), LONGEST_DATES)]:
        answer = api.get(path, params={name: value})
        assert answer.status_code in (200, 404, 422), f"{path} {name}={value[:30]}: {answer.status_code}"
    ranged = api.get(f"/v1/jobs/{job_id}/artifacts/model.keras", headers={"Range": f"bytes={DIGITS}-"})
    assert ranged.status_code < 500
