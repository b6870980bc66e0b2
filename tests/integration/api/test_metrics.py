"""Prometheus figures: computed from rows alone, correct in every process, and cheap when there are many rows."""

import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import func, update

from api.metrics.cluster import ClusterCollector
from api.metrics.live_gauges import LiveGauges
from jobs.db.engine import Sessions, engine_for, sessions_for
from jobs.db.tables import Attempt, Host, Job, Slot
from jobs.lifecycle import leases, store
from jobs.lifecycle.store import Lease
from jobs.model.preemption import PreemptionCause
from jobs.model.states import EndReason
from jobs.runtime.settings import Settings
from jobs.scheduling import placing
from tests.integration.api.busy import a_busy_cluster, a_live_attempt
from tests.integration.api.sent_runs import imported
from tests.integration.api.starting_rows import a_host
from tests.integration.jobs.writing import write
from tests.runs import run_folder

Submit = Callable[..., str]
Figures = dict[str, dict[tuple[str, ...], float]]
an_attempt = partial(a_live_attempt, host="ha")


def scrape(api: TestClient) -> Figures:
    """Every sample of the page, by its name and the values of its labels."""
    scraped: Figures = {}
    for family in text_string_to_metric_families(api.get("/metrics").text):
        for sample in family.samples:
            scraped.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return scraped


def buckets(scraped: Figures, name: str) -> dict[str, float]:
    return {labels[0]: value for labels, value in scraped[f"{name}_bucket"].items()}


def change(sessions: Sessions, lease: Lease, **columns: Any) -> None:
    """Columns of an attempt, times as seconds after its job was queued."""
    changed = {
        name: Attempt.queued_at + timedelta(seconds=value) if isinstance(value, int | float) else value
        for name, value in columns.items()
    }
    with sessions.begin() as session:
        session.execute(update(Attempt).where(Attempt.id == lease.attempt_id).values(**changed))


def end(sessions: Sessions, lease: Lease, reason: EndReason) -> None:
    with sessions.begin() as session:
        leases.end(session, lease, reason)
        leases.release(session, lease.attempt_id)


def test_the_documentation_lists_every_figure(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    job_id = a_busy_cluster(sessions, submit_job).job_id
    write(sessions, store.touch, job_id, metrics={"val_mae": {"last": 0.5, "best": 0.5, "best_epoch": 1}})
    _, _, below = (Path(__file__).parents[3] / "docs/operations.md").read_text().partition("\n## Metrics\n")
    table, _, _ = below.partition("What to alert on")
    api.get("/v1/jobs")
    ours = {name for name in scrape(api) if name.startswith("hora_")}
    names = {re.sub("_(bucket|count|sum|created)$", "", name) for name in ours}
    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == names


def test_requests_are_timed_by_route(api: TestClient, submit_job: Submit) -> None:
    api.post(f"/v1/jobs/{submit_job()}/cancel")
    submit_job()
    del api.headers["Authorization"]
    counts = scrape(api)["hora_http_request_duration_seconds_count"]
    assert counts["POST", "/v1/jobs", "201"] == 2
    assert counts["POST", "/v1/jobs/{job_id}/cancel", "202"] == 1


def test_queued_jobs_are_counted_by_what_they_wait_for(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    empty = scrape(api)
    assert empty["hora_queue_oldest_wait_seconds"] == {(): 0}
    assert empty["hora_database_up"] == {(): 1}
    assert empty["hora_attempts_ended_total"]["completed",] == 0  # every series is there from the start
    assert buckets(empty, "hora_queue_wait_seconds")["+Inf"] == 0
    waiting, paused, backing_off, ready, cancelled = (submit_job() for _ in range(5))
    ages_s = {waiting: 50, paused: 900, backing_off: 800, ready: 70, cancelled: 1000}
    with sessions.begin() as session:
        store.pause(session, paused)
        store.request_cancel(session, cancelled)
        for job_id, age_s in ages_s.items():
            ago = func.now() - timedelta(seconds=age_s)
            session.execute(update(Job).where(Job.id == job_id).values(queued_at=ago))
        for job_id, pause_s in ((backing_off, 600), (paused, 600), (ready, -1)):
            until = func.now() + timedelta(seconds=pause_s)
            session.execute(update(Job).where(Job.id == job_id).values(not_before=until))
    scraped = scrape(api)

    assert scraped["hora_queue_jobs"] == {("waiting",): 2, ("paused",): 1, ("backing_off",): 1}
    assert 70 <= scraped["hora_queue_oldest_wait_seconds"][()] < 130
    assert scraped["hora_jobs"]["queued",] == 4
    assert scraped["hora_jobs"]["cancelled",] == 1


def test_slots_and_hosts_are_counted_by_state(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    for name, kind in (("ha", "cpu"), ("hb", "gpu"), ("hc", "gpu"), ("hd", "gpu")):
        a_host(sessions, name, slots=4, kind=kind)
    an_attempt(sessions, submit_job(), slots=(0, 1))
    with sessions.begin() as session:
        session.execute(update(Slot).where(Slot.host == "ha", Slot.index == 1).values(quarantined_at=func.now()))
        session.execute(update(Slot).where(Slot.index == 3).values(retired_at=func.now(), unhealthy="it is lost"))
        session.execute(update(Slot).where(Slot.host == "hb", Slot.index == 0).values(unhealthy="it is lost"))
        session.execute(update(Slot).where(Slot.host == "hb", Slot.index <= 1).values(in_use_by_others=True))
        session.execute(update(Host).where(Host.name == "hc").values(drained_at=func.now()))
        long_ago = func.now() - timedelta(hours=1)
        session.execute(update(Host).where(Host.name == "hd").values(drained_at=func.now(), heartbeat_at=long_ago))
    figures = scrape(api)

    assert figures["hora_slots"] == {
        ("cpu", "free"): 1, ("cpu", "leased"): 1, ("cpu", "quarantined"): 1, ("cpu", "retired"): 1,
        ("cpu", "out_of_service"): 0, ("cpu", "unhealthy"): 0, ("cpu", "in_use_by_others"): 0,
        ("gpu", "free"): 1, ("gpu", "leased"): 0, ("gpu", "quarantined"): 0, ("gpu", "retired"): 3,
        ("gpu", "out_of_service"): 6, ("gpu", "unhealthy"): 1, ("gpu", "in_use_by_others"): 1,
    }  # fmt: skip
    assert figures["hora_hosts"] == {("alive",): 2, ("drained",): 1, ("no_space",): 0, ("lost",): 1}


def test_jobs_whose_copies_wait_are_counted_while_their_host_is_known(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    assert scrape(api)["hora_jobs_copies_behind"] == {(): 0}
    a_host(sessions, "ha")
    submit_job()
    with sessions.begin() as session:
        for host in ("ha", "ha", "forgotten"):
            behind = {"since": "2030-01-31T09:00:00Z", "host": host, "step": 5, "bytes": 7, "why": None}
            session.execute(update(Job).where(Job.id == submit_job()).values(copies_behind=behind))
    assert scrape(api)["hora_jobs_copies_behind"] == {(): 2}


def test_attempts_are_counted_by_their_end_reason(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    a_host(sessions, slots=4)
    job_id = submit_job()
    end(sessions, an_attempt(sessions, job_id), EndReason.RANK_FAILED)
    preempted = an_attempt(sessions, job_id)
    write(sessions, placing.request_preemption, [preempted.attempt_id], PreemptionCause.for_job("x"))
    end(sessions, preempted, EndReason.PREEMPTED)
    an_attempt(sessions, job_id)
    end(sessions, an_attempt(sessions, submit_job(), slots=(2,)), EndReason.BAD_DATA)
    figures = scrape(api)

    ended = {labels[0]: value for labels, value in figures["hora_attempts_ended_total"].items() if value}
    assert ended == {"rank_failed": 1, "preempted": 1, "bad_data": 1}
    assert figures["hora_attempts_live"] == {(): 1}
    assert figures["hora_restarts_total"] == {(): 2}
    assert figures["hora_preemptions_total"] == {(): 1}
    assert figures["hora_jobs"]["launching",] == 1
    assert figures["hora_jobs"]["failed",] == 1


def test_imported_runs_say_nothing_of_this_service(api: TestClient, tmp_path: Path) -> None:
    imported(api, run_folder(tmp_path / "run"))
    scraped = scrape(api)
    names = ("jobs", "attempts_ended_total", "restarts_total", "queue_wait_seconds_count", "launch_latency_seconds_sum")
    assert [name for name in names if any(scraped[f"hora_{name}"].values())] == []


def test_waits_and_latencies_are_counted_in_buckets(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    a_host(sessions, slots=4)
    times = [
        {"created_at": 0.5, "claimed_at": 0.5625, "started_at": 5.5625},  # exactly on the edge of a bucket
        {"created_at": 100_000, "claimed_at": 100_001, "started_at": 100_000},  # written by a clock that is behind
        {"created_at": 2, "claimed_at": 2.25},
        {"created_at": 60},
    ]
    for slot, columns in enumerate(times):
        lease = an_attempt(sessions, submit_job(), slots=(slot,))
        change(sessions, lease, **columns)
        if slot < 2:
            end(sessions, lease, EndReason.INTERNAL_ERROR)
    figures = scrape(api)

    waits = buckets(figures, "hora_queue_wait_seconds")
    assert waits["0.1"] == 0
    assert waits["0.5"] == waits["1.0"] == 1
    assert waits["5.0"] == waits["15.0"] == 2
    assert waits["60.0"] == waits["86400.0"] == 3
    assert waits["+Inf"] == figures["hora_queue_wait_seconds_count"][()] == 4
    assert figures["hora_queue_wait_seconds_sum"][()] == pytest.approx(100_062.5)
    dispatches = buckets(figures, "hora_dispatch_latency_seconds")
    assert (dispatches["0.05"], dispatches["0.1"], dispatches["0.25"], dispatches["1.0"]) == (0, 1, 2, 3)
    assert figures["hora_dispatch_latency_seconds_count"][()] == 3
    launches = buckets(figures, "hora_launch_latency_seconds")
    assert (launches["0.01"], launches["2.5"], launches["5.0"], launches["+Inf"]) == (1, 1, 2, 2)
    assert figures["hora_launch_latency_seconds_sum"][()] == pytest.approx(5)


def test_settled_attempts_are_counted_exactly_once(
    app: FastAPI, api: TestClient, submit_job: Submit, sessions: Sessions, configuration: Settings
) -> None:
    """A process that answered before and a new process give the same totals."""
    a_host(sessions, slots=4)
    old, late, live = (an_attempt(sessions, submit_job(), slots=(slot,)) for slot in range(3))
    for lease, minutes in ((old, 90), (late, 5)):
        end(sessions, lease, EndReason.COMPLETED)
        with sessions.begin() as session:
            at = func.now() - timedelta(minutes=minutes)
            for table, row in ((Attempt, Attempt.id == lease.attempt_id), (Job, Job.id == lease.job_id)):
                session.execute(update(table).where(row).values(ended_at=at))

    def totals(client: TestClient) -> tuple[float, ...]:
        scraped = scrape(client)
        ended, jobs = scraped["hora_attempts_ended_total"], scraped["hora_jobs"]
        waits = scraped["hora_queue_wait_seconds_count"][()]
        return ended["completed",], scraped["hora_attempts_live"][()], jobs["succeeded",], waits

    assert [totals(api) for _ in range(2)] == [(2, 1, 2, 3)] * 2
    with sessions.begin() as session:
        session.execute(update(Attempt).where(Attempt.id == old.attempt_id).values(end_reason=EndReason.STALLED))
    end(sessions, live, EndReason.COMPLETED)
    assert totals(api) == (3, 0, 3, 3)  # settled rows are not read again, as they never change
    with sessions.begin() as session:
        session.execute(update(Attempt).where(Attempt.id == old.attempt_id).values(end_reason=EndReason.COMPLETED))
    anew = CollectorRegistry()
    anew.register(ClusterCollector(sessions, configuration))
    app.state.registry = anew
    assert totals(api) == (3, 0, 3, 3)


def test_an_unreachable_database_is_reported_by_a_figure(
    api: TestClient, app: FastAPI, configuration: Settings
) -> None:
    registry = CollectorRegistry()
    nowhere = engine_for("postgresql://hora@/hora?host=/nowhere")
    registry.register(ClusterCollector(sessions_for(nowhere), configuration))
    app.state.registry = registry
    app.state.live_gauges = LiveGauges(sessions_for(nowhere), configuration)
    assert scrape(api) == {"hora_database_up": {(): 0}}
