"""Articles over HTTP: versions, what is refused, and files with what the jobs show."""

import base64
import re
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import ArticleVersion, Job
from jobs.insight.articles import store
from tests.integration.api.answers import pages_of
from tests.integration.api.starting_rows import an_attempt, metric_points

ClientOf = Callable[..., TestClient]
Submit = Callable[..., str]


def add_article(client: TestClient, title: str = "Batches", text: str = "Prose.", **fields: Any) -> dict[str, Any]:
    answer = client.post("/v1/articles", json={"title": title, "text": text} | fields)
    assert answer.status_code == 201, answer.text
    document: dict[str, Any] = answer.json()
    assert answer.headers["Location"] == f"/v1/articles/{document['id']}"
    return document


def test_an_article_has_versions(client_of: ClientOf, sessions: Sessions) -> None:
    alice = client_of("alice")
    article = add_article(alice)
    path = f"/v1/articles/{article['id']}"
    assert alice.get(path).json() == article
    assert (article["owner"], article["project"], article["author"], article["version"]) == (
        "alice", "default", "alice", 1,
    )  # fmt: skip
    assert article["blocks"] == [{"kind": "prose", "text": "Prose."}]
    changed = alice.patch(path, json={"version": 1, "text": "More."}).json()
    assert (changed["version"], changed["title"], changed["text"]) == (2, "Batches", "More.")
    assert alice.patch(path, json={"version": 2, "title": "Batches", "text": "More."}).json() == changed
    assert alice.get(path).json() == changed
    first = alice.get(path, params={"version": 1}).json()
    assert (first["version"], first["text"]) == (1, "Prose.")
    assert first["changed_at"] < changed["changed_at"]
    versions = alice.get(f"{path}/versions").json()["items"]
    assert [(one["version"], one["author"], one["characters"]) for one in versions] == [
        (2, "alice", 5), (1, "alice", 6),
    ]  # fmt: skip
    missing = alice.get(path, params={"version": 3})
    assert (missing.status_code, missing.json()["type"].rpartition(":")[2]) == (404, "article-not-found")

    theirs = client_of("admin", scope="admin").patch(path, json={"version": 2, "text": "Theirs."})
    assert theirs.json()["author"] == "admin"
    refused = alice.patch(path, json={"version": 2, "text": "Mine."})  # nobody overwrites what somebody else wrote
    assert refused.status_code == 409
    assert "has version 3 now, by admin" in refused.json()["detail"]
    assert alice.get(path).json()["text"] == "Theirs."

    later = "```hora\npie: loss\n```"  # of a later version of Hora
    with sessions.begin() as session:
        session.execute(update(ArticleVersion).values(text=later))
    assert alice.get(path).json()["blocks"] == [{"kind": "prose", "text": later}]
    assert alice.delete(path).status_code == 204
    assert alice.get(path).status_code == 404


def test_articles_of_a_user_and_kept_versions_are_bounded(
    client_of: ClientOf, monkeypatch: pytest.MonkeyPatch, sessions: Sessions
) -> None:
    monkeypatch.setattr(store, "MAX_OF_AN_OWNER", 1)
    monkeypatch.setattr(store, "KEPT_VERSIONS", 3)
    alice = client_of("alice")
    path = f"/v1/articles/{add_article(alice)['id']}"
    refused = alice.post("/v1/articles", json={"title": "x"})
    assert (refused.status_code, "1 articles, the most allowed" in refused.text) == (409, True)
    for version in range(1, 5):
        assert alice.patch(path, json={"version": version, "text": f"{version}"}).status_code == 200
    assert [one["version"] for one in alice.get(f"{path}/versions").json()["items"]] == [5, 4, 3]
    alice.delete(path)
    add_article(alice)
    with sessions() as session:
        assert session.scalar(select(func.count()).select_from(ArticleVersion)) == 1


def test_articles_are_listed_by_their_last_change(client_of: ClientOf) -> None:
    alice, bob = client_of("alice"), client_of("bob")
    first, *_ = [add_article(client, title) for client, title in ((alice, "1"), (bob, "2"), (alice, "3"))]
    alice.patch(f"/v1/articles/{first['id']}", json={"version": 1, "text": "new"})

    def titles(**query: Any) -> list[str]:
        return [line["title"] for (line,) in pages_of(bob, "/v1/articles", limit=1, **query)]

    assert titles() == ["1", "3", "2"]
    assert titles(owner="alice") == ["1", "3"]
    assert bob.get("/v1/articles", params={"project": "nothing"}).json()["items"] == []


def test_what_is_wrong_is_named_and_a_dry_run_stores_nothing(api: TestClient) -> None:
    right = "A\n\n```hora\ntable: name\njobs: 1\n```"
    for body, field in (
        ({}, "title"),
        ({"title": ""}, "title"),
        ({"title": "a\nb"}, "title"),
        ({"title": "x" * 201}, "title"),
        ({"title": "x", "text": "x" * 100_001}, "text"),
        ({"title": "x", "text": "a\0b"}, "text"),
        ({"title": "x", "project": "nothing"}, "project"),
        ({"title": "x", "txt": ""}, "txt"),
        ({"title": "x", "text": "```hora\nchart: loss\n```"}, "text"),
    ):
        answer = api.post("/v1/articles", json=body)
        assert answer.status_code == 422, answer.text
        assert {error["field"] for error in answer.json()["errors"]} == {field}
    assert api.post("/v1/articles", params={"dry_run": True}, json=body).status_code == 422
    preview = api.post("/v1/articles", params={"dry_run": True}, json={"title": "x", "text": right})
    assert (preview.status_code, [block["kind"] for block in preview.json()["blocks"]]) == (200, ["prose", "table"])
    assert api.get("/v1/articles").json()["items"] == []


@pytest.fixture
def trained_jobs(submit_job: Submit, sessions: Sessions) -> list[str]:
    """Four jobs of four epochs: two with each batch."""
    job_ids = []
    for number, batch in enumerate((32, 32, 64, 64)):
        job_ids.append(submit_job(batch_size=batch, labels={"team": "vision"}, name=f"run-{number}"))
        an_attempt(sessions, job_ids[-1])
        points = [(4 * epoch, epoch / 10 + number / 100) for epoch in range(1, 5)]
        metric_points(sessions, job_ids[-1], points, name="val_accuracy", rank=-1)
        with sessions.begin() as session:
            best = {"val_accuracy": {"last": 0.4, "best": 0.4 + number / 100}}
            session.execute(update(Job).where(Job.id == job_ids[-1]).values(metrics=best))
    return job_ids


def test_a_file_has_what_the_jobs_show(client_of: ClientOf, trained_jobs: list[str]) -> None:
    text = f"""
Read *this*.

```hora
chart: val_accuracy, mae
filter: label=team:vision
group: spec.batch_size
```

```hora
table: name, spec.batch_size, label.team, spec.model.name, metrics.val_accuracy
jobs: {trained_jobs[0]}, {trained_jobs[3]}, 0000000000zz
```
"""
    alice = client_of("alice", scope="admin")  # who has no limit of requests: a slow machine charges for the time
    path = f"/v1/articles/{add_article(alice, 'A & B', text)['id']}/export"
    answer = alice.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["content-disposition"].startswith("attachment; ")
    page = answer.text
    assert "<h1>A &amp; B</h1>" in page
    assert "<em>this</em>" in page
    (picture,) = re.findall(r"base64,([A-Za-z0-9+/=]+)", page)
    drawn = base64.b64decode(picture).decode()
    assert "spec.batch_size 32 (2 runs)" in drawn
    assert "spec.batch_size 64 (2 runs)" in drawn
    assert "4 jobs: those with label=team:vision." in page
    assert "None of them has mae." in page
    assert "2 jobs. There is no job 0000000000zz." in page
    cells = re.findall(r"<td>(.*?)</td>", page)
    first, fourth = trained_jobs[0], trained_jobs[3]
    assert cells == [
        first, "run-0", "32", "vision", "lenet5", "0.4",
        fourth, "run-3", "64", "vision", "lenet5", "0.43",
    ]  # fmt: skip
    assert alice.get(path, params={"format": "markdown"}).text == f"# A & B\n\n{text}"
    printed = alice.get(path, params={"format": "pdf"})
    if printed.status_code == 501:
        pytest.skip(printed.json()["detail"])
    assert (printed.status_code, printed.headers["content-type"]) == (200, "application/pdf"), printed.text
    assert printed.content.startswith(b"%PDF-")
