"""Draining, undraining and forgetting hosts."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, text, update

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Host, JobEvent, Slot
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease
from jobs.model.states import EndReason
from jobs.scheduling import placing, registration
from jobs.scheduling.decisions import Placement, Share
from jobs.scheduling.placement_rows import PASS_LOCK
from jobs.scheduling.registration import SlotInfo
from tests.integration.api.starting_rows import a_host, seconds
from tests.waiting import until

Submit = Callable[..., str]


def place(sessions: Sessions, job_id: str, *shares: Share) -> Lease:
    with sessions.begin() as session:
        (lease,) = placing.place(session, [Placement(job_id, shares)], lease_s=60)
    return lease


def lose_host(sessions: Sessions, name: str) -> None:
    """Let the host's last heartbeat be a long time ago."""
    with sessions.begin() as session:
        session.execute(update(Host).where(Host.name == name).values(heartbeat_at=seconds(-(10**9))))


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
        ({"json": [True]}, 422, ""),
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
    with sessions.begin() as session:
        leases.end(session, ended, EndReason.COMPLETED)

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
        with sessions.begin() as session:
            assert registration.beat(session, "ha")
        info: dict[str, Any] = api.get("/v1/hosts/ha").json()["info"]
        return info

    with sessions.begin() as session:
        registration.register(session, "ha", {"cores": 2}, [SlotInfo(0, "cpu", "CPU share")])
    assert abs(info_of_clock_ahead(0)["clock_offset_s"]) < 60
    assert info_of_clock_ahead(900)["clock_offset_s"] == pytest.approx(900, abs=60)
    assert info_of_clock_ahead(-900) == {"cores": 2, "clock_offset_s": pytest.approx(-900, abs=60)}


def test_a_drain_sees_attempts_of_a_concurrent_pass(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    a_host(sessions, "ha")
    job_id = submit_job()
    with ThreadPoolExecutor(1) as pool:
        with sessions.begin() as session:
            session.execute(select(func.pg_advisory_xact_lock(PASS_LOCK)))
            placing.place(session, [Placement(job_id, (Share("ha", (0, 1)),))], lease_s=60)
            drained = pool.submit(api.post, "/v1/hosts/ha/drain", json={"requeue": True})
            until(lambda: _waits_for_a_lock(sessions), what="the drain that waits for the pass")
        assert drained.result(120).status_code == 200
    assert preemptions(sessions) == {job_id: "host ha is drained"}


def _waits_for_a_lock(sessions: Sessions) -> bool:
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'"
    )
    with sessions() as session:
        return bool(session.scalar(waiting))


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
    lose_host(sessions, "ha")
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
    with sessions.begin() as session:
        session.execute(update(Host).values(kept_for="blocked"))
    lease = place(sessions, submit_job(), Share("ha", (0, 1)))
    lose_host(sessions, "hb")
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
