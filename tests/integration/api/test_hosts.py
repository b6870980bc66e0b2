"""Hosts: their slots, their series, and how they are drained and forgotten."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Host, HostSample, JobEvent, Slot
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease
from jobs.model.states import EndReason
from jobs.scheduling import placing, registration
from jobs.scheduling.decisions import Placement, Share
from jobs.scheduling.placement_rows import PASS_LOCK
from jobs.scheduling.registration import SlotInfo
from jobs.telemetry.host_samples import OldHostSamples
from jobs.telemetry.ingest import HostSampleRow, store_host_samples
from tests.integration.api.answers import got
from tests.integration.api.polls import Poll
from tests.integration.api.starting_rows import a_host
from tests.integration.jobs import job_rows
from tests.integration.jobs.writing import change, write
from tests.waiting import until

Submit = Callable[..., str]


def place(sessions: Sessions, job_id: str, *shares: Share) -> Lease:
    with sessions.begin() as session:
        (lease,) = placing.place(session, [Placement(job_id, shares)], lease_s=60)
    return lease


def preemptions(sessions: Sessions) -> dict[str, str | None]:
    with sessions() as session:
        rows = session.execute(
            select(Attempt.job_id, Attempt.preemption).where(Attempt.preempt_requested_at.is_not(None))
        )
        return {job_id: cause and str(cause) for job_id, cause in rows}


def test_a_host_is_drained_and_undrained(api: TestClient, sessions: Sessions) -> None:
    a_host(sessions, "ha")
    a_host(sessions, "hb")
    before = api.get("/v1/hosts/ha").json()
    assert (before["drained_at"], before["kept_for"], before["address"], before["alive"]) == (None, None, None, True)
    for body, status, field in (
        ({"json": {"requeue": "yes"}}, 422, "requeue"),
        ({"json": {"force": True}}, 422, "force"),
        ({"content": b"requeue=true", "headers": {"Content-Type": "text/plain"}}, 415, None),
    ):
        refused = api.post("/v1/hosts/ha/drain", **body)
        assert refused.status_code == status, refused.text
        assert [error["field"] for error in refused.json().get("errors", [])] == ([] if field is None else [field])
    assert api.get("/v1/hosts/ha").json()["drained_at"] is None

    drained = api.post("/v1/hosts/ha/drain")
    assert drained.status_code == 200
    assert drained.json()["drained_at"] is not None
    assert drained.json()["slots"] == before["slots"]
    again = api.post("/v1/hosts/ha/drain").json()
    assert again["drained_at"] == drained.json()["drained_at"]
    assert [host["drained_at"] for host in api.get("/v1/hosts").json()["items"]] == [again["drained_at"], None]

    assert api.post("/v1/hosts/ha/undrain").json()["drained_at"] is None
    assert api.post("/v1/hosts/ha/undrain").status_code == 200
    for name in ("nowhere", "a%00b", "x" * 300):
        url = f"/v1/hosts/{name}"
        for answer in (api.get(url), api.post(f"{url}/drain"), api.post(f"{url}/undrain"), api.delete(url)):
            assert (answer.status_code, answer.json()["type"]) == (404, "urn:hora:problem:host-not-found")


def test_only_a_drain_with_requeue_moves_the_jobs_of_the_host(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    for name in ("ha", "hb", "hc"):
        a_host(sessions, name, slots=4)
    on_ha, spanning, elsewhere, ended = (submit_job() for _ in range(4))
    place(sessions, on_ha, Share("ha", (0, 1)))
    place(sessions, spanning, Share("hb", (0,)), Share("ha", (2,)))
    place(sessions, elsewhere, Share("hc", (0, 1)))
    ended = place(sessions, ended, Share("ha", (3,)), Share("hc", (2,)))
    write(sessions, leases.end, ended, EndReason.COMPLETED)

    api.post("/v1/hosts/ha/drain", json={"requeue": False})
    assert preemptions(sessions) == {}
    assert api.post("/v1/hosts/ha/drain", json={"requeue": True}).status_code == 200
    assert preemptions(sessions) == {on_ha: "host ha is drained", spanning: "host ha is drained"}
    (attempt,) = api.get(f"/v1/jobs/{spanning}/attempts").json()["items"]
    assert attempt["shares"] == [
        {"host": "hb", "slots": [0], "devices": [], "software": {}},
        {"host": "ha", "slots": [2], "devices": [], "software": {}},
    ]
    assert attempt["preempted_for"] == "host ha is drained"
    assert attempt["preemption"] == {"kind": "host_drained", "job": None, "host": "ha"}
    assert attempt["preempt_requested_at"] >= attempt["queued_at"]
    assert attempt["due_at"] is None

    api.post("/v1/hosts/ha/drain", json={"requeue": True})
    with sessions() as session:
        kinds = session.scalars(select(JobEvent.kind).where(JobEvent.job_id == on_ha)).all()
    assert kinds.count("preempt_requested") == 1


def test_a_host_shows_the_offset_of_its_clock(
    api: TestClient, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def info_of_clock_ahead(ahead_s: float) -> dict[str, Any]:
        monkeypatch.setattr(registration, "time", SimpleNamespace(time=lambda: time.time() + ahead_s))
        assert write(sessions, registration.beat, "ha")
        info: dict[str, Any] = api.get("/v1/hosts/ha").json()["info"]
        return info

    write(sessions, registration.register, "ha", {"cores": 2}, [SlotInfo(0, "cpu", "CPU share")])
    assert abs(info_of_clock_ahead(0)["clock_offset_s"]) < 60
    assert info_of_clock_ahead(900)["clock_offset_s"] == pytest.approx(900, abs=60)
    assert info_of_clock_ahead(-900) == {"cores": 2, "clock_offset_s": pytest.approx(-900, abs=60)}


def test_a_drain_sees_attempts_of_a_concurrent_pass(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    a_host(sessions, "ha")
    job_id = submit_job()
    with ThreadPoolExecutor(1) as pool:
        with sessions.begin() as session:
            session.execute(select(func.pg_advisory_xact_lock(PASS_LOCK)))
            drained = pool.submit(api.post, "/v1/hosts/ha/drain", json={"requeue": True})
            until(lambda: job_rows.waiting_for_locks(sessions) == 1, what="the drain that waits for the pass")
            placing.place(session, [Placement(job_id, (Share("ha", (0, 1)),))], lease_s=60)
        assert drained.result(120).status_code == 200
    assert preemptions(sessions) == {job_id: "host ha is drained"}


def test_only_a_lost_host_without_attempts_is_forgotten(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    a_host(sessions, "ha")
    a_host(sessions, "hb")
    lease = place(sessions, submit_job(), Share("hb", (0,)), Share("ha", (0,)))

    def refused() -> str:
        answer = api.delete("/v1/hosts/ha")
        assert (answer.status_code, answer.json()["type"]) == (409, "urn:hora:problem:host-in-use")
        detail: str = answer.json()["detail"]
        return detail

    assert "alive" in refused()
    job_rows.host_went_silent(sessions, "ha")
    assert "attempts" in refused()
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.HOST_LOST)  # its slots are still leased: no agent there releases them
    assert api.delete("/v1/hosts/ha").status_code == 204
    assert [host["name"] for host in api.get("/v1/hosts").json()["items"]] == ["hb"]
    with sessions() as session:
        assert session.scalars(select(Slot.index).where(Slot.host == "ha")).all() == []
    assert api.delete("/v1/hosts/ha").status_code == 404


def test_a_slot_says_in_which_state_it_is_and_why(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    a_host(sessions, slots=5, kind="gpu")
    a_host(sessions, "hb", slots=1)
    change(sessions, update(Host).values(kept_for="blocked"))
    lease = place(sessions, submit_job(), Share("ha", (0, 1)))
    job_rows.host_went_silent(sessions, "hb")
    reading = {"at": "2030-01-01T00:00:00+00:00", "percent": 55.0, "processes": 1, "is_lost": False}
    with sessions.begin() as session:
        session.execute(update(Slot).where(Slot.host == "ha", Slot.index == 0).values(uuid="of ha"))
        state = registration.GpuState(reading)
        registration.store_readings(session, "ha", {"of ha": state, "of another host": state})
    lost = {"unhealthy": "XID 79: it is off the bus"}
    states: list[dict[str, Any]] = [
        lost, {"quarantined_at": func.now()}, lost | {"retired_at": func.now()}, lost | {"in_use_by_others": True},
        {"in_use_by_others": True},
    ]  # fmt: skip
    with sessions.begin() as session:
        for index, values in enumerate(states):
            session.execute(update(Slot).where(Slot.host == "ha", Slot.index == index).values(values))
    ha, hb = api.get("/v1/hosts").json()["items"]
    slots = ha["slots"]
    assert [slot["reading"] for slot in slots] == [reading, None, None, None, None]
    assert [slot["state"] for slot in slots] == ["leased", "quarantined", "retired", "unhealthy", "in_use_by_others"]
    assert [slot["unhealthy"] for slot in slots] == [values.get("unhealthy") for values in states]
    assert [slot["in_use_by_others"] for slot in slots] == [False, False, False, True, True]
    held = [(slot["job_id"], slot["attempt"], slot["rank"]) for slot in slots]
    assert held == [(lease.job_id, 1, 0), (lease.job_id, 1, 1), *[(None, None, None)] * 3]
    assert (ha["alive"], hb["alive"]) == (True, False)
    assert ha["heartbeat_age_s"] < 30 < hb["heartbeat_age_s"]
    assert (hb["slots"][0]["kind"], hb["slots"][0]["state"], hb["kept_for"]) == ("cpu", "free", "blocked")
    assert ha["kept_for"] is None  # no slot is free


def host_samples(sessions: Sessions, rows: list[dict[str, Any]], *, host: str = "ha", last_ago_s: float = 1.0) -> None:
    """One row a second; the last one was so long ago."""
    first = datetime.now(UTC) - timedelta(seconds=last_ago_s + len(rows) - 1)
    samples = [HostSampleRow(host, first + timedelta(seconds=place), row) for place, row in enumerate(rows)]
    write(sessions, store_host_samples, samples)


def series_of(api: TestClient, **parameters: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = got(api, "/v1/hosts/ha/utilization", **parameters)["series"]
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


def test_utilization_of_a_host_is_sent_again_with_a_newer_sample(api: TestClient, sessions: Sessions) -> None:
    a_host(sessions, "ha")
    poll, other = (Poll(api, f"/v1/hosts/ha/utilization?minutes={minutes}") for minutes in (60, 61))
    poll.changes_with(lambda: host_samples(sessions, [{"cpu_percent": 1.0}], last_ago_s=30))
    poll.changes_with(lambda: host_samples(sessions, [{"cpu_percent": 2.0}]))
    assert poll.full().headers["etag"] != other.full().headers["etag"]
    host_samples(sessions, [{"cpu_percent": 3.0}], host="hb")
    assert poll.is_unchanged()


def test_old_host_samples_are_removed_in_batches(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.telemetry.host_samples._BATCH_ROWS", 4)
    for host in ("ha", "hb"):
        host_samples(sessions, [{}] * 10, host=host, last_ago_s=31 * 86400)
        host_samples(sessions, [{}] * 3, host=host)
    host_samples(sessions, [{}] * 3, host="hc")
    old, left, more = OldHostSamples(keep_days=30), [job_rows.count(sessions, HostSample)], True
    while more:
        more = write(sessions, old.remove_some)
        left.append(job_rows.count(sessions, HostSample))
    assert left[-1] == 9
    assert max(before - after for before, after in pairwise(left)) == 4
    assert len(left) <= 10
    with sessions.begin() as session:
        assert old.remove_some(session)  # the next pass begins with the first host
