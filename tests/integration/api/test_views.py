"""Saved views of the list of jobs: what is kept, refused and limited. `rights/table.py` says who may change which."""

from collections.abc import Callable
from typing import Any

from fastapi.testclient import TestClient
from sqlalchemy import func, insert, select

from jobs.db.engine import Sessions
from jobs.db.tables import SavedView
from jobs.people import saved_views
from tests.integration.api.answers import created, errors_of, pages_of, problem

Clients = Callable[..., TestClient]

CONTENT: dict[str, Any] = {
    "filter": {"status": ["running", "failed"], "label": ["team:a,b"], "search": "<script>", "where": ["starred"]},
    "sort": f'-starred,-metrics.val_accuracy,"label.{"a,b" * 80}",created',
    "columns": ["name", "spec.params.x", "label.team"],
    "pinned": ["name"],
    "widths": {"spec.params.x": 240},
    "heat": ["spec.params.x"],
    "group": ["spec.optimizer.name", "status"],
}


def saved(client: TestClient, name: str, **more: Any) -> dict[str, Any]:
    return created(client, "/v1/views", {"name": name, **more})


def test_a_view_comes_back_as_it_was_saved_renamed_or_replaced(api: TestClient) -> None:
    view = saved(api, "Rates", content=CONTENT)
    assert (view["owner"], view["project"], view["name"]) == ("admin", None, "Rates")
    for name, value in CONTENT.items():
        kept = view["content"][name]
        assert ({field: kept[field] for field in value} if name == "filter" else kept) == value
    assert api.get(f"/v1/views/{view['id']}").json() == view
    assert api.get("/v1/views").json() == {"items": [view], "next_cursor": None}
    of_an_earlier_version = [saved(api, f"v{old}", content={"group": old})["content"] for old in ("study", "")]
    assert [content["group"] for content in of_an_earlier_version] == [["study"], []]

    path = f"/v1/views/{view['id']}"
    renamed = api.patch(path, json={"name": "Speeds"}).json()
    assert (renamed["name"], renamed["content"]) == ("Speeds", view["content"])
    assert renamed["updated_at"] > view["updated_at"]
    assert api.patch(path, json={"name": "Speeds"}).json() == renamed
    replaced = api.patch(path, json={"content": {"sort": "name"}}).json()["content"]
    assert (replaced["sort"], replaced["columns"], replaced["filter"]["status"]) == ("name", [], [])
    assert api.delete(path).status_code == 204
    assert api.get(path).json()["type"] == "urn:hora:problem:view-not-found"


def test_a_name_is_taken_once_by_a_person_and_once_by_a_project(api: TestClient) -> None:
    saved(api, "Rates")
    saved(api, "Rates", project="default")
    other = saved(api, "Speeds")
    assert [len(page) for page in pages_of(api, "/v1/views", limit=2)] == [2, 1]
    assert [view["name"] for (view,) in pages_of(api, "/v1/views", project="default")] == ["Rates"]
    for answer in (
        api.post("/v1/views", json={"name": " Rates"}),
        api.post("/v1/views", json={"name": "Rates", "project": "default"}),
        api.patch(f"/v1/views/{other['id']}", json={"name": "Rates"}),
    ):
        problem(answer, 409, "view-exists")


def test_what_is_no_view_is_refused_with_its_field(api: TestClient) -> None:
    wrong_content: list[tuple[dict[str, Any], str]] = [
        ({"sort": "name; DROP TABLE"}, "content.sort"),
        ({"filter": {"where": ["gpus == 1"]}}, "content.filter.where"),
        ({"group": ["colour"]}, "content.group"),
        ({"columns": ["a"], "pinned": ["b"]}, "content"),
        ({"filter": {"status": ["asleep"]}}, "content.filter.status.0"),
        ({"filter": {"label": ["no colon"]}}, "content.filter.label.0"),
    ]
    bodies = [({"name": "x", "content": content}, field) for content, field in wrong_content]
    for body, field in [({"name": "a\u202eb"}, "name"), ({"name": "x", "project": "none"}, "project"), *bodies]:
        assert errors_of(api.post("/v1/views", json=body)).keys() == {field}


def test_a_person_and_a_project_have_a_limited_number(api: TestClient, sessions: Sessions) -> None:
    most = saved_views.MOST_VIEWS
    with sessions.begin() as session:
        session.execute(
            insert(SavedView),
            [
                {"id": f"{whose}{i}", "owner": "admin", "project": project, "name": f"v{i}", "content": {}}
                for whose, project in (("own", None), ("shared", "default"))
                for i in range(most)
            ],
        )
    for project in (None, "default"):
        answer = api.post("/v1/views", json={"name": "one more", "project": project})
        assert f"{most} views" in problem(answer, 409, "too-many-views")["detail"]
    with sessions() as session:
        assert session.scalar(select(func.count()).select_from(SavedView)) == 2 * most
