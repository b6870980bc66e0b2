"""Jobs found, sorted and grouped by any field, over HTTP."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.integration.api.test_search import job_names

Submit = Callable[..., str]


@pytest.fixture
def four_jobs(submit_job: Submit) -> None:
    """Four jobs; two have the label of one team."""
    for name, labels, gpus in (
        ("Alpha", {"team": "vision"}, 1),
        ("beta", {"team": "speech"}, 4),
        ("gamma", {"team": "vision"}, 2),
        ("delta", {}, 8),
    ):
        submit_job(name=name, labels=labels, gpus=gpus, min_gpus=1)


@pytest.mark.usefixtures("four_jobs")
def test_conditions_combine_with_each_other_and_with_filters_sorts_and_pages(
    api: TestClient, subtests: pytest.Subtests
) -> None:
    queries: list[tuple[dict[str, Any], list[str]]] = [
        ({"where": "label.team=vision"}, ["gamma", "Alpha"]),
        ({"where": ["label.team=vision", "gpus>1"]}, ["gamma"]),
        ({"where": "!label.team or gpus<2", "sort": "spec.gpus"}, ["Alpha", "delta"]),
        ({"where": "label.team!=vision", "sort": "-gpus"}, ["delta", "beta"]),
        ({"where": "name ~ ^[ab]", "search": "digits", "status": "queued"}, ["beta", "Alpha"]),
        ({"sort": "label.team"}, ["beta", "Alpha", "gamma", "delta"]),
        ({"sort": "-label.team"}, ["gamma", "Alpha", "beta", "delta"]),
        ({"sort": "-batch"}, ["delta", "beta", "gamma", "Alpha"]),
    ]
    for query, names in queries:
        with subtests.test(query=query):
            assert job_names(api, **query) == names
            cursor = api.get("/v1/jobs", params=query | {"limit": 1}).json()["next_cursor"]
            assert (job_names(api, **query, cursor=cursor) if cursor else []) == names[1:]
    other = api.get("/v1/jobs", params={"where": "gpus<8", "limit": 1}).json()["next_cursor"]
    assert api.get("/v1/jobs", params={"where": "gpus<9", "cursor": other}).status_code == 422


@pytest.mark.usefixtures("four_jobs")
def test_an_unchanged_page_of_a_condition_gets_304(api: TestClient, submit_job: Submit) -> None:
    query = {"where": "gpus>=2", "sort": "-label.team"}
    tag = {"If-None-Match": api.get("/v1/jobs", params=query).headers["ETag"]}
    assert api.get("/v1/jobs", params=query, headers=tag).status_code == 304
    assert api.get("/v1/jobs", params=query | {"where": "gpus>=1"}, headers=tag).status_code == 200
    submit_job(name="more", gpus=2)
    assert api.get("/v1/jobs", params=query, headers=tag).status_code == 200


def test_each_wrong_condition_is_named(api: TestClient) -> None:
    wrong = ["gpus == 1", "gpus>0", "batch_size>3"]
    answer = api.get("/v1/jobs", params={"where": wrong})
    assert answer.status_code == 422
    assert [(error["field"], error["received"]) for error in answer.json()["errors"]] == [
        ("where", "gpus == 1"), ("where", "batch_size>3"),
    ]  # fmt: skip
    assert "did you mean `spec.batch_size`?" in answer.json()["detail"]
    pattern = api.get("/v1/jobs", params={"where": "name ~ (a"})
    assert pattern.status_code == 422
    assert "`(a`: invalid regular expression: parentheses () not balanced" in pattern.json()["detail"]
    for query in ({"where": "starred " * 300}, {"where": ["starred"] * 21}, {"sort": "colour"}, {"sort": "-spec.x"}):
        assert api.get("/v1/jobs", params=query).status_code == 422, query
    assert "did you mean batch_size?" in api.get("/v1/jobs", params={"sort": "batchsize"}).json()["detail"]
