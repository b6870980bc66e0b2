"""Jobs found, sorted and grouped by any field, over HTTP. `tests/integration/jobs` tests each field with its rows."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from jobs.db.engine import Sessions
from jobs.lifecycle import listing, store
from tests.integration.api.answers import got
from tests.integration.api.polls import Poll

Submit = Callable[..., str]


def job_names(api: TestClient, **query: Any) -> list[str]:
    """The names of the jobs on a page, in their order."""
    return [job["name"] for job in got(api, "/v1/jobs", **query)["items"]]


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
        ({"where": ["label.team=vision", "gpus>1"]}, ["gamma"]),
        ({"where": "!label.team or gpus<2", "sort": "spec.gpus"}, ["Alpha", "delta"]),
        ({"where": "name ~ ^[ab]", "search": "digits", "status": "queued"}, ["beta", "Alpha"]),
        ({"sort": "-label.team"}, ["gamma", "Alpha", "beta", "delta"]),
        ({"sort": ' -"label.team" , name', "where": "gpus<8"}, ["Alpha", "gamma", "beta"]),
        ({"search": "VISION", "label": "team:vision", "sort": "name"}, ["Alpha", "gamma"]),
        ({"search": "lenet", "sort": "-batch_size", "status": "queued,running"}, ["delta", "beta", "gamma", "Alpha"]),
        ({"search": "vision", "status": "failed,running"}, []),
    ]
    for query, names in queries:
        with subtests.test(query=query):
            assert job_names(api, **query) == names
            cursor = api.get("/v1/jobs", params=query | {"limit": 1}).json()["next_cursor"]
            assert (job_names(api, **query, cursor=cursor) if cursor else []) == names[1:]


@pytest.mark.usefixtures("four_jobs")
def test_a_search_gives_the_same_result_for_few_and_for_many_matches(
    api: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = [{"search": "vision"}, {"search": "i", "sort": "-gpus", "status": "queued,failed"}, {"search": "nobody"}]
    few = [job_names(api, **query) for query in queries]
    monkeypatch.setattr(listing, "_FEW", 0)
    assert [job_names(api, **query) for query in queries] == few
    assert few[0] == ["gamma", "Alpha"]


def test_the_tag_of_a_search_and_of_a_condition_changes_only_with_its_results(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    job_id = submit_job(name="polled")
    poll, of_condition = Poll(api, "/v1/jobs?search=olle"), Poll(api, "/v1/jobs?where=name~olle&sort=-label.team")

    def progress() -> None:
        with sessions.begin() as session:
            store.touch(session, job_id, progress={"epoch": 1})

    poll.changes_with(progress)
    poll.stands_still_with(lambda: submit_job(name="other", priority=1))
    poll.changes_with(lambda: submit_job(name="polled as well", priority=1))
    assert not of_condition.is_unchanged()
    of_condition.stands_still_with(lambda: submit_job(name="another", priority=1))


def test_each_wrong_condition_is_named(api: TestClient) -> None:
    answer = api.get("/v1/jobs", params={"where": ["gpus == 1", "gpus>0", "batch_size>3"]})
    assert [(error["field"], error["received"]) for error in answer.json()["errors"]] == [
        ("where", "gpus == 1"), ("where", "batch_size>3"),
    ]  # fmt: skip
    pattern = api.get("/v1/jobs", params={"where": "name ~ (a"})
    assert pattern.status_code == 422
    assert "`(a`: invalid regular expression: parentheses () not balanced" in pattern.json()["detail"]
    assert pattern.json()["errors"][0]["received"] == "name ~ (a"
    refused: list[dict[str, Any]] = [
        {"where": "starred " * 300}, {"where": ["starred"] * 21}, {"where": [MANY] * 5}, {"sort": "-spec.x"},
        {"sort": "spec"}, {"search": ""}, {"search": "\0"}, {"search": "x" * 201},
    ]  # fmt: skip
    for query in refused:
        assert api.get("/v1/jobs", params=query).status_code == 422, query
    (error,) = api.get("/v1/jobs", params={"sort": "gpus,-gpus"}).json()["errors"]
    assert (error["field"], error["received"]) == ("sort", "gpus,-gpus")
    assert "`gpus` is repeated" in error["message"]
    assert "did you mean batch_size?" in api.get("/v1/jobs", params={"sort": "batchsize"}).json()["detail"]


@pytest.mark.usefixtures("four_jobs")
def test_jobs_are_grouped_by_fields(api: TestClient) -> None:
    page = api.get("/v1/jobs/groups", params={"by": "label.team", "metric": "val_loss", "where": "gpus<8"}).json()
    newest_at = page["items"][0].pop("newest_at")
    loss = {"name": "val_loss", "n": 0, "mean": None, "min": None, "max": None}
    assert page["items"][0] == {
        "values": ["vision"], "where": ['label.team="vision"'], "jobs": 2, "statuses": {"queued": 2},
        "metric": loss, "metrics": [loss],
    }  # fmt: skip
    assert newest_at == api.get("/v1/jobs", params={"where": "name=gamma"}).json()["items"][0]["created_at"]
    assert [group["values"] for group in page["items"]] == [["vision"], ["speech"]]
    both = api.get("/v1/jobs/groups", params={"by": ["label.team", "gpus"], "limit": 1}).json()
    assert both["items"][0]["where"] == ["!label.team", "gpus=8"]
    assert (both["items"][0]["metric"], both["items"][0]["metrics"]) == (None, [])
    several = {"by": "gpus", "metric": ["iou", "val_loss", "iou"], "limit": 1}
    first = api.get("/v1/jobs/groups", params=several).json()
    assert [metric["name"] for metric in first["items"][0]["metrics"]] == ["iou", "val_loss"]
    assert first["items"][0]["metric"]["name"] == "iou"
    cursor = {"cursor": first["next_cursor"]}
    assert api.get("/v1/jobs/groups", params=several | cursor).status_code == 200
    assert api.get("/v1/jobs/groups", params=several | cursor | {"metric": "iou"}).status_code == 422
    assert both["next_cursor"] is not None


def test_wrong_groups_are_refused(api: TestClient) -> None:
    for by in ([], ["owner"] * 4, ["colour"], ["spec.x", "owner"]):
        answer = api.get("/v1/jobs/groups", params={"by": by})
        assert answer.status_code == 422
        assert [error["field"] for error in answer.json()["errors"]] == ["by"], by
    for metric in ("a b", ["iou", ""], [f"m{n}" for n in range(6)]):
        answer = api.get("/v1/jobs/groups", params={"by": "owner", "metric": metric})
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"].startswith("metric"), answer.text
    assert api.get("/v1/jobs/groups", params={"by": "owner", "where": "name ~ (", "limit": 5}).status_code == 422


MANY = " or ".join(["spec.params.a.b > 1"] * 10)
ODD = [
    "gpus>1e999", "gpus=-1e-999", "gpus<" + "9" * 99, "metrics.val_loss=1e999", "created>0001-01-01T00:00:00+14:00",
    "created<=9999-12-31T23:59:59.999998Z", "created=0001-01-01", "created>2030-01-01T00:00:00-23:59", "label.a>1e999",
    'spec.params.x={"a": [1, NaN]}', "spec.params.x=[1e999]", "spec.params.x=[" + "[" * 900,
    'spec.params.x=["\\u0000"]', 'spec.params.x=["\\ud800"]', "name ~ \\0", "name ~ \\u0000", "name=İ\u0301",
    "label.😀 = 😀", "starred ~ t", "gpus ~ ^1", "created ~ ^2030", "spec ~ digits", "spec.=1", "spec.params.a..b=1",
    "metrics.a%(b)s=1", "label.%s=%(x)s", "name ~ :x", "spec.params.%=1", "label.a:b=c", "status<z", "starred<true",
    "notes>=x", "name<1", "host >= -1e5",
]  # fmt: skip


def test_no_condition_breaks_the_list(api: TestClient, submit_job: Submit, subtests: pytest.Subtests) -> None:
    submit_job(name="one", labels={"a": "1e999"})
    for text in ODD:
        with subtests.test(where=text):
            answer = api.get("/v1/jobs", params={"where": text})
            assert answer.status_code in (200, 422), answer.text
            if answer.status_code == 422:
                assert [error["field"] for error in answer.json()["errors"]] == ["where"]
    for field in ("spec.params.%", "label.😀", "label.a:b", "spec", "duration", '"x"', "metrics.a%(b)s", "spec.a..b"):
        with subtests.test(field=field):
            assert api.get("/v1/jobs", params={"sort": f"-{field}"}).status_code in (200, 422)
            assert api.get("/v1/jobs/groups", params={"by": field}).status_code in (200, 422)
