"""What hosts did, as the API reads it back and retention removes it."""

from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from api.routes.hosts import HostMetric
from jobs.db.engine import Sessions
from jobs.db.tables import HostSample
from jobs.telemetry.host_samples import OldHostSamples
from jobs.telemetry.ingest import HostSampleRow, store_host_samples
from jobs.telemetry.sampled_metrics import HOST_METRICS
from tests.integration.api.polls import Poll
from tests.integration.jobs.job_rows import a_host


def host_samples(sessions: Sessions, rows: list[dict[str, Any]], *, host: str = "ha", last_ago_s: float = 1.0) -> None:
    """One row a second; the last one was so long ago."""
    last = datetime.now(UTC) - timedelta(seconds=last_ago_s)
    with sessions.begin() as session:
        store_host_samples(
            session,
            [
                HostSampleRow(host, last - timedelta(seconds=len(rows) - 1 - place), row)
                for place, row in enumerate(rows)
            ],
        )


def series_of(api: TestClient, **parameters: Any) -> list[dict[str, Any]]:
    answer = api.get("/v1/hosts/ha/utilization", params=parameters)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["series"]
    return found


def test_a_host_has_a_series_of_the_requested_minutes_for_each_metric(api: TestClient, sessions: Sessions) -> None:
    a_host(sessions, "ha")
    assert series_of(api) == []
    host_samples(sessions, [{"cpu_percent": 5.0}, {"memory_bytes": 2**40}, {"cpu_percent": 7.0, "memory_bytes": 3}])
    host_samples(sessions, [{"cpu_percent": 99.0}], host="hb")
    answer = api.get("/v1/hosts/ha/utilization").json()
    cpu, memory = answer["series"]
    assert (cpu["metric"], cpu["unit"], cpu["y"]) == ("cpu_percent", "percent", [5.0, None, 7.0])
    assert (memory["metric"], memory["unit"], memory["y"]) == ("memory_bytes", "bytes", [None, 2**40, 3])
    assert [round(b - a, 3) for a, b in zip(cpu["x"], cpu["x"][1:], strict=False)] == [1, 1]
    newest = datetime.fromisoformat(answer["start"]) + timedelta(seconds=cpu["x"][-1])
    assert abs(datetime.now(UTC) - newest) < timedelta(seconds=60)
    assert [one["metric"] for one in series_of(api, metric=["memory_bytes"])] == ["memory_bytes"]

    for number, last_ago_s in enumerate((7200, 1800, 600), start=1):
        host_samples(sessions, [{"disk_read_bytes_per_s": number}], last_ago_s=last_ago_s)

    def values_of(minutes: int) -> list[float]:
        series = series_of(api, metric="disk_read_bytes_per_s", minutes=minutes)
        return [value for one in series for value in one["y"] if value is not None]

    assert [values_of(minutes) for minutes in (2, 20, 60, 1440)] == [[], [3.0], [2.0, 3.0], [1.0, 2.0, 3.0]]
    for wrong in ("metric=gpu_percent", "minutes=0", "minutes=nan", "minutes=10081", "max_points=3"):
        assert api.get(f"/v1/hosts/ha/utilization?{wrong}").status_code == 422, wrong
    for known in ({}, {"If-None-Match": "*"}):
        answer = api.get("/v1/hosts/nowhere/utilization", headers=known)
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:hora:problem:host-not-found")


def test_a_spike_of_a_host_survives_thinning(api: TestClient, sessions: Sessions) -> None:
    a_host(sessions, "ha")
    host_samples(sessions, [{"cpu_percent": 100.0 if place == 1234 else 1.0 + place % 2} for place in range(3000)])
    [cpu] = series_of(api, metric="cpu_percent", max_points=20)
    assert len(cpu["y"]) <= 20
    assert max(cpu["y"]) == 100.0
    assert cpu["x"][cpu["y"].index(100.0)] - cpu["x"][-1] == pytest.approx(1234 - 2999)


def test_utilization_of_a_host_is_sent_again_with_a_newer_sample(api: TestClient, sessions: Sessions) -> None:
    a_host(sessions, "ha")
    poll, other = (Poll(api, f"/v1/hosts/ha/utilization?minutes={minutes}") for minutes in (60, 61))
    poll.changes_with(lambda: host_samples(sessions, [{"cpu_percent": 1.0}], last_ago_s=30))
    poll.changes_with(lambda: host_samples(sessions, [{"cpu_percent": 2.0}]))
    assert poll.full().headers["etag"] != other.full().headers["etag"]
    host_samples(sessions, [{"cpu_percent": 3.0}], host="hb")
    assert poll.is_unchanged()


def test_the_api_and_the_table_have_the_same_host_metrics() -> None:
    assert list(get_args(HostMetric)) == list(HOST_METRICS) == list(HostSample.__table__.columns.keys()[2:])


def test_old_host_samples_are_removed_in_batches(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.telemetry.host_samples._BATCH_ROWS", 4)
    for host in ("ha", "hb"):
        host_samples(sessions, [{}] * 10, host=host, last_ago_s=31 * 86400)
        host_samples(sessions, [{}] * 3, host=host)
    host_samples(sessions, [{}] * 3, host="hc")
    old, batches, most = OldHostSamples(keep_days=30), 1, 0
    before = samples_left(sessions)
    while True:
        with sessions.begin() as session:
            more = old.remove_some(session)
        most, before = max(most, before - samples_left(sessions)), samples_left(sessions)
        if not more:
            break
        batches += 1
    assert (samples_left(sessions), most) == (9, 4)
    assert batches <= 9
    with sessions.begin() as session:
        assert old.remove_some(session)  # the next pass begins with the first host


def samples_left(sessions: Sessions) -> int:
    with sessions() as session:
        return session.scalar(select(func.count()).select_from(HostSample)) or 0
