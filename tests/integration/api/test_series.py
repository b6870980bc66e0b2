"""Metrics, utilization, events and attempts as the API reads them back."""

from collections.abc import Callable
from math import inf, nan
from typing import Any

import pytest
from fastapi.testclient import TestClient

from jobs.db.engine import Sessions
from jobs.db.tables import Host, Slot
from jobs.lifecycle.store import add_event
from jobs.model.states import EventKind
from jobs.telemetry.ingest import HostSampleRow, store_host_samples
from jobs.telemetry.sampled_metrics import HOST_METRICS
from tests.integration.api.answers import got
from tests.integration.api.starting_rows import an_attempt, metric_points, samples, seconds

Submit = Callable[..., str]


def metrics(api: TestClient, job_id: str, **parameters: Any) -> list[dict[str, Any]]:
    series: list[dict[str, Any]] = got(api, f"/v1/jobs/{job_id}/metrics", **parameters)["series"]
    return series


def test_metrics_have_a_series_for_each_name_and_rank(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    job_id, other_id = submit_job(), submit_job()
    assert metrics(api, job_id) == []
    for each in (job_id, other_id):
        an_attempt(sessions, each)
    for rank in (0, 1):
        metric_points(sessions, job_id, [(step, step + rank) for step in range(1, 9)], rank=rank)
    metric_points(sessions, job_id, [(4, 0.5), (8, 0.75)], name="accuracy", rank=-1)
    metric_points(sessions, other_id, [(1, 100.0)])

    assert [(s["name"], s["rank"]) for s in metrics(api, job_id)] == [("accuracy", -1), ("loss", 0), ("loss", 1)]
    loss = metrics(api, job_id, name="loss")
    assert loss[1] == {"name": "loss", "rank": 1, "x": [*range(1, 9)], "y": [*range(2, 10)], "bands": []}
    assert [s["rank"] for s in metrics(api, job_id, rank=[1, -1])] == [-1, 1]
    assert metrics(api, job_id, axis="time", name="accuracy")[0]["x"] == [2.0, 4.0]
    assert metrics(api, job_id, axis="epoch") == [
        {"name": "accuracy", "rank": -1, "x": [1, 2], "y": [0.5, 0.75], "bands": []}
    ]
    assert len(metrics(api, job_id, name=["loss", "accuracy"])) == 3
    assert all(len(one["x"]) <= 5 for one in metrics(api, job_id, name="loss", max_points=5))
    assert metrics(api, job_id, name="acuracy") == []  # it may come yet
    api.post(f"/v1/jobs/{job_id}/cancel")
    assert api.get(f"/v1/jobs/{job_id}").json()["ended_at"] is not None
    (error,) = api.get(f"/v1/jobs/{job_id}/metrics?name=acuracy").json()["errors"]
    allowed = "it has: accuracy, loss; did you mean accuracy?"
    assert (error["field"], error["message"]) == ("name", f"the job has no metric of this name; {allowed}")
    assert len(metrics(api, job_id, name=["acuracy", "accuracy"])) == 1
    assert metrics(api, job_id, name=["acuracy", "los"]) == []
    assert metrics(api, job_id, name="loss", rank=7) == []


def test_points_that_a_later_attempt_ran_again_are_left_out_and_a_step_has_a_number_or_null(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    job_id = submit_job()
    an_attempt(sessions, job_id, 1, resumed_step=0)
    an_attempt(sessions, job_id, 2, resumed_step=8)
    an_attempt(sessions, job_id, 3, resumed_step=None)  # died before it reported its resume step
    an_attempt(sessions, job_id, 4, resumed_step=6)
    an_attempt(sessions, job_id, 5, resumed_step=None, started_at=None)
    metric_points(sessions, job_id, [(step, 100 + step) for step in range(1, 11)], attempt=1)
    metric_points(sessions, job_id, [(step, 200 + step) for step in range(9, 12)], attempt=2)
    metric_points(sessions, job_id, [(step, 400 + step) for step in range(7, 9)], attempt=4)

    metric_points(sessions, job_id, [(1, 1.0), (2, 1.0)], name="wer", attempt=1)
    metric_points(sessions, job_id, [(2, 2.0), (3, nan), (4, inf), (5, -inf)], name="wer", attempt=4)

    loss, wer = metrics(api, job_id)
    assert (loss["x"], loss["y"]) == ([*range(1, 9)], [101, 102, 103, 104, 105, 106, 407, 408])
    assert (wer["x"], wer["y"]) == ([1, 2, 3, 4, 5], [1, 2, None, None, None]), "no step twice, and no odd numbers"


def test_a_wrong_query_is_refused(api: TestClient, submit_job: Submit) -> None:
    wrong = {
        "metrics": ["to=nan", "bands=501", "max_points=3", "name=%00", "names=loss"],
        "utilization": ["axis=rank", "metric=noise", "metric=cpu_percent&metric=%00"],
        "logs": [f"before={2**63}", "rank=x", "search=", "search=%00"],
        "events": ["limit=0", "kind=ended"],
    }
    job_id = submit_job()
    paths = [f"/v1/jobs/{job_id}/{part}?{query}" for part, queries in wrong.items() for query in queries]
    assert [path for path in paths if api.get(path).status_code != 422] == []


def test_utilization_has_a_series_for_each_metric_and_slot(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    job_id = submit_job()
    an_attempt(sessions, job_id)
    samples(sessions, job_id, [{"cpu_percent": 90.0}, {"cpu_percent": None}, {"cpu_percent": 110.0}])
    samples(sessions, job_id, [{"cpu_percent": 50.0, "memory_bytes": 2**33}], rank=1)
    series = api.get(f"/v1/jobs/{job_id}/utilization").json()["series"]

    first = {"metric": "cpu_percent", "unit": "percent", "host": "ha", "slot": 0, "rank": 0, "attempt": 1}
    first |= {"limit": None, "bands": []}
    assert series[0] == first | {"x": [0, 1, 2], "step": [0, 1, 2], "y": [90, None, 110]}
    assert [(s["metric"], s["rank"], s["y"]) for s in series[1:]] == [
        ("cpu_percent", 1, [50]),
        ("memory_bytes", 1, [2**33]),
    ]
    only = api.get(f"/v1/jobs/{job_id}/utilization", params={"metric": "memory_bytes"}).json()["series"]
    assert [(s["metric"], s["rank"]) for s in only] == [("memory_bytes", 1)]


def test_utilization_is_read_on_every_axis(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    job_id = submit_job()
    an_attempt(sessions, job_id)
    metric_points(sessions, job_id, [(4, 0.5), (8, 0.4)], rank=-1)
    steps = [None, None, 0, 2, 4, 6, 8]
    samples(sessions, job_id, [{"cpu_percent": 10.0 * i, "step": step} for i, step in enumerate(steps)])

    def read_points(**parameters: object) -> tuple[list[float], list[float]]:
        (series,) = got(api, f"/v1/jobs/{job_id}/utilization", **parameters)["series"]
        return series["x"], series["y"]

    assert read_points() == ([*range(7)], [0, 10, 20, 30, 40, 50, 60])
    assert read_points(axis="step") == ([0, 2, 4, 6, 8], [20, 30, 40, 50, 60])
    assert read_points(axis="epoch") == ([0, 0.5, 1, 1.5, 2], [20, 30, 40, 50, 60])
    assert read_points(**{"from": 1, "to": 3.5}) == ([1, 2, 3], [10, 20, 30])
    assert read_points(axis="step", to=2) == ([0, 2], [20, 30])
    assert read_points(axis="epoch", **{"from": 1.5}) == ([1.5, 2], [50, 60])
    far = api.get(f"/v1/jobs/{job_id}/utilization", params={"from": 1e300}).json()
    assert far == {"series": [], "hosts": []}


def test_memory_is_shown_with_its_total_and_a_spike_is_kept(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    job_id = submit_job()
    an_attempt(sessions, job_id)
    with sessions.begin() as session:
        session.add(Host(name="ha", info={"memory_bytes": 2**36}))
        session.flush()
        session.add(Slot(host="ha", index=0, kind="gpu", name="gpu", memory_bytes=2**34))
    sample = {"gpu_memory_bytes": 2**30, "memory_bytes": 2**31, "gpu_throttle": 4, "gpu_processes": 2}
    samples(sessions, job_id, [sample | {"memory_bytes": 2**35} if i == 300 else sample for i in range(500)])
    series = api.get(f"/v1/jobs/{job_id}/utilization?max_points=50").json()["series"]

    assert [(one["metric"], one["unit"], one["limit"], one["y"][0]) for one in series] == [
        ("gpu_memory_bytes", "bytes", 2**34, 2**30),
        ("gpu_throttle", "bits", None, 4),
        ("gpu_processes", "processes", None, 2),
        ("memory_bytes", "bytes", 2**36, 2**31),
    ]
    memory = series[-1]
    assert len(memory["x"]) <= 50
    assert memory["y"][memory["x"].index(300)] == 2**35
    assert (memory["x"][-1], memory["step"][-1]) == (499, 499)


def test_utilization_includes_the_samples_of_the_hosts(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    job_id = submit_job()
    an_attempt(sessions, job_id)
    with sessions.begin() as session:
        session.add(Host(name="ha", info={"memory_bytes": 100}))
        rows = [
            HostSampleRow(
                "ha", seconds(i), {"cpu_percent": 10.0 * i, "memory_bytes": 2 * i, "disk_read_bytes_per_s": 5.5}
            )
            for i in range(-3, 9)
        ]
        rows.append(HostSampleRow("hb", seconds(2), dict.fromkeys(HOST_METRICS, 99)))
        store_host_samples(session, rows)
    samples(sessions, job_id, [{"cpu_percent": 1.0, "step": None if i < 2 else 10 * i} for i in range(6)])

    def hosts(**parameters: object) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = api.get(f"/v1/jobs/{job_id}/utilization", params=parameters).json()["hosts"]
        return found

    cpu = {"metric": "cpu_percent", "unit": "percent", "host": "ha", "limit": None, "bands": []}
    memory = {"metric": "memory_bytes", "unit": "bytes", "host": "ha", "limit": 100, "bands": []}
    disk = {"metric": "disk_read_bytes_per_s", "unit": "bytes per second", "host": "ha", "limit": None, "bands": []}
    assert hosts() == [
        cpu | {"x": [*range(6)], "y": [0, 10, 20, 30, 40, 50]},
        memory | {"x": [*range(6)], "y": [0, 2, 4, 6, 8, 10]},
        disk | {"x": [*range(6)], "y": [5.5] * 6},
    ]
    assert hosts(metric="memory_bytes", axis="step") == [memory | {"x": [20, 30, 40, 50], "y": [4, 6, 8, 10]}]
    assert hosts(metric="disk_read_bytes_per_s", **{"from": 4}) == [disk | {"x": [4, 5], "y": [5.5, 5.5]}]


def test_bands_hold_the_figures_of_each_stretch(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    job_id = submit_job()
    an_attempt(sessions, job_id)
    metric_points(sessions, job_id, [(step, nan if step == 7 else float(step)) for step in range(1, 2001)])
    (loss,) = metrics(api, job_id, bands=2, max_points=4, **{"from": 1, "to": 1000})
    first, second = loss["bands"]

    assert len(loss["x"]) <= 4
    assert first == {"x_from": 1, "x_to": 500, "count": 499, "min": 1, "max": 500,
                     "mean": pytest.approx((500 * 501 / 2 - 7) / 499), "p95": 476}  # fmt: skip
    assert (second["x_from"], second["x_to"], second["count"]) == (501, 1000, 500)
    samples(sessions, job_id, [{"cpu_percent": float(i)} for i in range(40)])
    utilization = api.get(f"/v1/jobs/{job_id}/utilization?bands=4").json()["series"][0]
    assert [band["max"] for band in utilization["bands"]] == [9, 19, 29, 39]


def test_events_and_attempts_come_in_pages(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    job_id, other_id = submit_job(), submit_job()
    with sessions.begin() as session:
        for epoch in range(1, 5):
            add_event(session, job_id, EventKind.EPOCH_ENDED, attempt=1, data={"epoch": epoch, "loss": nan})
    for number in (1, 2, 3):
        an_attempt(sessions, job_id, number, resumed_step=number * 10, setup={"import": 2.5})

    first = api.get(f"/v1/jobs/{job_id}/events", params={"limit": 3}).json()
    cursor = {"cursor": first["next_cursor"]}
    second = api.get(f"/v1/jobs/{job_id}/events", params=cursor).json()
    told = first["items"] + second["items"]
    assert [event["kind"] for event in told] == ["submitted"] + 4 * ["epoch_ended"]
    assert told[1]["data"] == {"epoch": 1, "loss": None}
    assert second["next_cursor"] is None
    assert api.get(f"/v1/jobs/{other_id}/events", params=cursor).status_code == 422
    assert api.get(f"/v1/jobs/{job_id}/attempts", params=cursor).status_code == 422

    page = api.get(f"/v1/jobs/{job_id}/attempts", params={"limit": 2}).json()
    rest = api.get(f"/v1/jobs/{job_id}/attempts", params={"cursor": page["next_cursor"]}).json()
    assert [attempt["number"] for attempt in page["items"] + rest["items"]] == [1, 2, 3]
    assert rest["items"][0]["resumed_step"] == 30
    assert rest["items"][0]["setup"] == {"import": 2.5}
    assert "token" not in rest["items"][0]
