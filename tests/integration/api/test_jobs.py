"""Listing, looking up and cancelling jobs, also those whose names mean something where they are shown."""

import subprocess
import sys
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from jobs.db.engine import Sessions
from jobs.insight.studies.plots import Line, Panel, Plot
from jobs.lifecycle import store
from jobs.model.states import Status
from tests.integration.api.answers import errors_of, pages_of, problem
from tests.integration.api.starting_rows import end_job

Submit = Callable[..., str]


def pages(api: TestClient, **parameters: Any) -> list[list[str]]:
    """The ids on each page of a list, by following the cursors."""
    return [[job["id"] for job in page] for page in pages_of(api, "/v1/jobs", **parameters)]


def move_job(sessions: Sessions, job_id: str, *path: Status) -> None:
    with sessions.begin() as session:
        for status in path:
            store.transition(session, job_id, status)


def test_filters_are_combined_and_their_jobs_counted(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    a = submit_job(name="one", labels={"team": "vision", "run": "a:b"})
    b = submit_job(name="two", labels={"team": "vision"})
    c = submit_job(name="two", labels={"team": "audio"})
    move_job(sessions, b, Status.LAUNCHING, Status.RUNNING)
    move_job(sessions, c, Status.CANCELLED)

    assert pages(api, label="team:vision") == [[b, a]]
    assert pages(api, label=["team:vision", "run:a:b"]) == [[a]]
    assert pages(api, label="team:vis") == [[]]
    assert pages(api, name="two") == [[c, b]]
    assert pages(api, status="running,cancelled") == [[c, b]]
    assert pages(api, status=["queued", "running"]) == [[b, a]]
    assert pages(api, status="running", name="one") == [[]]
    assert pages(api, owner="admin", limit=2) == [[c, b], [a]]
    assert pages(api, owner="nobody") == [[]]
    for query, jobs in (("", 3), ("?label=team:vision", 2), ("?status=failed,running", 1), ("?where=gpus%3E9", 0)):
        assert api.get(f"/v1/jobs/count{query}").json() == {"jobs": jobs, "more": False}, query
    assert api.get("/v1/jobs/count", params={"status": "faild"}).status_code == 422


WRONG_QUERIES = [
    ("limit=0", "limit"),
    ("sort=spec", "sort"),
    ("sort=metrics.", "sort"),
    ("since=2030-01-01T00:00:00", "since"),
    ("status=lost", "status"),
    ("label=team", "label"),
    ("stauts=queued", "stauts"),
    ("name=%00", "name"),
    ("label=a:%00", "label.0"),
    ("cursor=%FF", "cursor"),
]


def test_a_wrong_query_is_refused(api: TestClient, subtests: pytest.Subtests) -> None:
    for query, field in WRONG_QUERIES:
        with subtests.test(query=query):
            assert errors_of(api.get(f"/v1/jobs?{query}")).keys() == {field}


def test_a_cursor_is_valid_only_for_its_own_query(api: TestClient, submit_job: Submit) -> None:
    for _ in range(2):
        submit_job()
    cursor = api.get("/v1/jobs", params={"limit": 1}).json()["next_cursor"]
    assert cursor is not None
    for other in (
        "sort=created_at", "sort=-name", "status=queued", "name=job", "until=2030-01-01T00:00:00Z", "archived=false",
        "where=gpus%3C9", "search=digits",
    ):  # fmt: skip
        assert api.get(f"/v1/jobs?{other}&cursor={cursor}").status_code == 422
    assert api.get("/v1/jobs", params={"limit": 9, "cursor": cursor}).status_code == 200


def test_a_queued_job_is_cancelled_at_once_and_a_running_one_is_asked_to_end(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    url = f"/v1/jobs/{submit_job()}"
    first, again = (api.post(f"{url}/cancel") for _ in range(2))
    assert (first.status_code, first.json()["status"], again.status_code) == (202, "cancelled", 202)
    assert again.json() == first.json()

    running, ended = submit_job(), submit_job()
    move_job(sessions, running, Status.LAUNCHING, Status.RUNNING)
    answer = api.post(f"/v1/jobs/{running}/cancel")
    assert (answer.status_code, answer.json()["status"]) == (202, "running")
    assert answer.json()["cancel_requested_at"] is not None
    end_job(sessions, ended)
    assert "failed" in problem(api.post(f"/v1/jobs/{ended}/cancel"), 409, "job-ended")["detail"]
    assert api.post("/v1/jobs/0000/cancel").status_code == 404


DATA = {
    "format": "images", "shape": [96, 96, 3], "train": 90, "validation": 10, "test": 0, "damaged": 1,
    "damaged_files": ["chips/whole/7.png"],
}  # fmt: skip


def test_a_job_shows_its_class_names_but_lists_do_not(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    job_id = submit_job()
    assert api.get(f"/v1/jobs/{job_id}").json()["dataset"] is None
    with sessions.begin() as session:
        store.touch(session, job_id, dataset=DATA, classes=["cracked", "whole"])

    data = DATA | {
        "task": "classification",
        "targets": 0,
        "words": None,
        "warnings": [],
    }  # of a worker that names only classes
    assert api.get(f"/v1/jobs/{job_id}").json()["dataset"] == data | {"classes": ["cracked", "whole"]}
    (listed,) = api.get("/v1/jobs").json()["items"]
    assert listed["dataset"] == data | {"classes": None}
    assert api.post(f"/v1/jobs/{job_id}/cancel").json()["dataset"]["classes"] == ["cracked", "whole"]


NAMES = {
    "scripts": "Zoë 訓練 ελληνικά",
    "right to left": "اسم התרגיל 3",
    "emoji": "👩‍🔬 run ❤️ 🇩🇪",
    "quotes": 'it\'s "<ok>" & `x`',
    "formula": "=HYPERLINK(1)|$x^2$ _a_ \\frac{x",
    "path": "../../etc/passwd",
    "markup": "[red]x[/red]</script><!-- {{x}} %s",
    "longest": "訓" * 128,
    "query": "a&b=c;d?e#f%20+,g:h",
}


def test_a_job_with_any_name_is_found_by_name_label_and_search(
    api: TestClient, submit_job: Callable[..., str], subtests: pytest.Subtests
) -> None:
    ids = {kind: submit_job(name=name, labels={"k": name}) for kind, name in NAMES.items()}
    figures = api.get("/metrics").text
    for kind, name in NAMES.items():
        with subtests.test(kind=kind):
            for typed in (name, unicodedata.normalize("NFD", name), f"  {name}\u3000"):
                assert pages(api, name=typed) == [[ids[kind]]]
                if len(typed) < 250:
                    assert pages(api, label=f"k:{typed}") == [[ids[kind]]]
            for typed in (name, unicodedata.normalize("NFD", name), name.upper(), name[:5]):
                assert ids[kind] in pages(api, search=typed[:200])[0]
            job = api.get(f"/v1/jobs/{ids[kind]}").json()
            assert job["name"] == job["spec"]["name"] == job["spec"]["labels"]["k"] == name
            assert name not in figures


def test_a_picture_shows_any_name_without_a_warning() -> None:
    lines = [Line(label=name, x=[0, 1], y=[1, 2], low=[None] * 2, high=[None] * 2) for name in NAMES.values()]
    panel = Panel(title="t", x_label="$a", y_label="_b", lines=lines, ticks=["訓練", "$\\frac{"])
    plot = Plot(title=NAMES["longest"], panels=[panel])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "api.processes.plot"],
        input=plot.model_dump_json().encode(), capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"\x89PNG")
