"""Jobs found by a text, and sorted by their figures, over HTTP."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from jobs.db.engine import Sessions
from jobs.lifecycle import listing, store
from tests.integration.api.polls import Poll

Submit = Callable[..., str]


def job_names(api: TestClient, **query: Any) -> list[str]:
    """The names of the jobs on a page, in their order."""
    answer = api.get("/v1/jobs", params=query)
    assert answer.status_code == 200, answer.text
    return [job["name"] for job in answer.json()["items"]]


@pytest.fixture
def four_jobs(submit_job: Submit) -> None:
    """Several jobs; two have the label of one team."""
    for name, team, gpus in (
        ("Alpha", "Vision", 1),
        ("beta", "speech", 4),
        ("gamma_1", "vision", 2),
        ("delta", "x", 8),
    ):
        submit_job(name=name, labels={"team": team}, gpus=gpus, min_gpus=1)


@pytest.mark.usefixtures("four_jobs")
def test_a_search_combines_with_filters_sorts_and_pages(api: TestClient, subtests: pytest.Subtests) -> None:
    queries: list[tuple[dict[str, Any], list[str]]] = [
        ({"search": "VISION"}, ["gamma_1", "Alpha"]),
        ({"search": "vision", "sort": "name"}, ["Alpha", "gamma_1"]),
        ({"search": "vision", "label": "team:vision"}, ["gamma_1"]),
        ({"search": "digits", "sort": "-gpus"}, ["delta", "beta", "gamma_1", "Alpha"]),
        ({"search": "lenet", "sort": "-batch_size", "status": "queued,running"}, ["delta", "beta", "gamma_1", "Alpha"]),
        ({"search": "gamma_"}, ["gamma_1"]),
        ({"search": "_1"}, ["gamma_1"]),
        ({"search": "vision", "status": "failed,running"}, []),
    ]
    for query, names in queries:
        with subtests.test(query=query):
            assert job_names(api, **query) == names
    first = api.get("/v1/jobs?search=digits&sort=gpus&limit=3").json()
    assert job_names(api, search="digits", sort="gpus", limit=3, cursor=first["next_cursor"]) == ["delta"]
    for other in ("search=digit&sort=gpus", "sort=gpus", "search=digits&sort=-gpus"):
        assert api.get(f"/v1/jobs?{other}&cursor={first['next_cursor']}").status_code == 422


@pytest.mark.usefixtures("four_jobs")
def test_a_search_gives_the_same_result_for_few_and_for_many_matches(
    api: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = [{"search": "vision"}, {"search": "i", "sort": "-gpus", "status": "queued,failed"}, {"search": "nobody"}]
    few = [job_names(api, **query) for query in queries]
    monkeypatch.setattr(listing, "_FEW", 0)
    assert [job_names(api, **query) for query in queries] == few
    assert few[0] == ["gamma_1", "Alpha"]


def test_the_tag_of_a_search_changes_only_with_its_results(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    job_id = submit_job(name="polled")
    poll = Poll(api, "/v1/jobs?search=olle")

    def progress() -> None:
        with sessions.begin() as session:
            store.touch(session, job_id, progress={"epoch": 1})

    poll.changes_with(progress)
    poll.stands_still_with(lambda: submit_job(name="other", priority=1))
    poll.changes_with(lambda: submit_job(name="polled as well", priority=1))


def test_jobs_without_figures_are_last_in_both_directions(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    ids = [submit_job(name=name) for name in ("none", "worse", "better", "neither")]
    with sessions.begin() as session:
        for job_id, accuracy in ((ids[1], 0.25), (ids[2], 0.5), (ids[3], float("nan"))):
            store.touch(session, job_id, summary={"val_accuracy": accuracy})
    assert job_names(api, sort="-val_accuracy") == ["better", "worse", "neither", "none"]
    assert job_names(api, sort="val_accuracy") == ["worse", "better", "none", "neither"]


@pytest.mark.parametrize("query", ["search=", "search=%00", f"search={'x' * 201}", "sort=spec", "sort=test_accuracy"])
def test_an_invalid_search_or_sort_is_refused(api: TestClient, query: str) -> None:
    assert api.get(f"/v1/jobs?{query}").status_code == 422
