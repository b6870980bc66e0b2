"""The schema is upgraded, compared with the code, downgraded, and upgraded again."""

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic.script import ScriptDirectory
from psycopg.sql import SQL, Identifier
from psycopg.types.json import Json, Jsonb
from sqlalchemy import select

import migrations
from api.row_views import job_view
from jobs.db.engine import engine_for, sessions_for
from jobs.db.tables import SCHEMA, MetricBlock
from jobs.lifecycle import history
from jobs.lifecycle.listing import JobFilter, ListQuery, list_jobs
from jobs.lifecycle.store import get_job
from jobs.model.states import EndReason, EventKind
from jobs.telemetry.ingest import MetricRow, store_metrics
from tests.waiting import until


def relations(url: str) -> set[str]:
    """Names of everything a migration creates: tables, indices, sequences, views, types and functions."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
            " UNION SELECT typname FROM pg_type WHERE typnamespace = 'public'::regnamespace AND typtype <> 'c'"
            " UNION SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace"
        ).fetchall()
    return {name for (name,) in rows}


def rules(url: str) -> dict[str, list[str]]:
    """The words in the definitions of all columns, constraints, indices and triggers, in any order."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT conrelid::regclass || '.' || conname, pg_get_constraintdef(oid) FROM pg_constraint"
            " WHERE connamespace = 'public'::regnamespace"
            " UNION SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"
            " UNION SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal"
            " UNION SELECT table_name || '.' || column_name, concat_ws(' ', data_type, is_nullable, column_default)"
            " FROM information_schema.columns WHERE table_schema = 'public'"
        ).fetchall()
    return {name: sorted(re.findall(r"\w+", definition)) for name, definition in rows}


def test_each_version_is_upgraded_to_the_schema_of_the_code_and_downgraded_to_what_was_before(bare_url: str) -> None:
    versions, had = [f"{number:04}" for number in range(1, int(SCHEMA) + 1)], {}
    for version in versions:
        migrations.upgrade(bare_url, version)
        had[version] = rules(bare_url)
    migrations.check(bare_url)
    full = relations(bare_url)
    for table, values in (("jobs", EndReason), ("attempts", EndReason), ("job_events", EventKind)):
        assert set(values) <= set(had[SCHEMA][f"{table}.ck_{table}_{values.__name__.lower()}"])
    for version in reversed(versions[:-1]):
        migrations.downgrade(bare_url, version)
        assert rules(bare_url) == had[version]
    migrations.downgrade(bare_url, "base")
    assert {name.lstrip("_") for name in relations(bare_url)} <= {"alembic_version", "alembic_version_pkc"}
    for _ in range(2):
        migrations.upgrade(bare_url)
        assert relations(bare_url) == full


def add(connection: psycopg.Connection, table: str, **values: Any) -> None:
    """Add a row to a table of any version."""
    columns, places = SQL(", ").join(map(Identifier, values)), SQL(", ").join([SQL("%s")] * len(values))
    query = SQL("INSERT INTO {} ({}) VALUES ({})").format(Identifier(table), columns, places)
    connection.execute(query, [*values.values()])


def add_job(connection: psycopg.Connection, job_id: str, **values: Any) -> None:
    """Add a job with what the first version needed."""
    needed = {"id": job_id, "name": "old", "owner": "me", "status": "queued", "gpus": 1, "priority": 50}
    add(connection, "jobs", **needed | {name: Jsonb({}) for name in ("spec", "plan", "labels")} | values)


def add_attempt(connection: psycopg.Connection, job_id: str, number: int = 1, **values: Any) -> None:
    """Add an attempt on one host with what the first version needed."""
    needed = {"job_id": job_id, "number": number, "host": "ha", "gpus": 1, "lease_expires_at": datetime.now(UTC)}
    add(connection, "attempts", **needed | values)


def test_a_job_of_the_first_version_survives_the_upgrade_and_the_downgrade(bare_url: str) -> None:
    migrations.upgrade(bare_url, "0001")
    old = {"dataset": {"source": "digits"}, "model": {"name": "lenet5"}, "max_restarts": 3}
    with psycopg.connect(bare_url, autocommit=True) as connection:
        add_job(connection, "old", spec=Jsonb(old))
        add_attempt(connection, "old")
    migrations.upgrade(bare_url)
    engine = engine_for(bare_url)
    with sessions_for(engine)() as session:
        job = job_view(get_job(session, "old"))
        (attempt,) = history.attempts(session, "old", limit=9).items
        found = [one.id for one in list_jobs(session, ListQuery(JobFilter(search="LeNet"))).items]
    engine.dispose()
    assert (job.dataset, job.summary, attempt.setup) == (None, None, {})
    assert found == ["old"]
    migrations.downgrade(bare_url, "0001")
    with psycopg.connect(bare_url) as connection:
        assert connection.execute("SELECT spec FROM jobs").fetchall() == [(old,)]


def test_jobs_of_earlier_studies_get_the_values_of_their_cells(bare_url: str) -> None:
    migrations.upgrade(bare_url, "0023")
    cells = [{"gpus": gpus, "batch_size": batch} for gpus in (2, 1) for batch in (32, 64)]
    with psycopg.connect(bare_url, autocommit=True) as connection:
        whole = {"base": Json({}), "grid": Json({}), "cells": Json(cells), "repeats": 2}
        add(connection, "studies", id="s", name="s", owner="me", **whole)
        for job_id, study, cell in (("a", "s", 0), ("b", "s", 3), ("c", "s", 3), ("d", None, None)):
            add_job(connection, job_id, study_id=study, study_cell=cell)
    migrations.upgrade(bare_url)
    with psycopg.connect(bare_url) as connection:
        found = connection.execute("SELECT study_values::text FROM jobs ORDER BY id").fetchall()
    assert [text and list(json.loads(text).items()) for (text,) in found] == [
        list(cells[0].items()), list(cells[3].items()), list(cells[3].items()), None,
    ]  # fmt: skip


def test_slot_time_of_ended_attempts_counts_as_usage_of_the_default_project(bare_url: str) -> None:
    migrations.upgrade(bare_url, "0004")
    with psycopg.connect(bare_url) as connection:
        add_job(connection, "old", gpus=4)
        spans = [("2029-12-31 22:00Z", "2030-01-01 03:00Z"), ("2030-01-15 00:00Z", "2030-01-15 01:00Z"),
                 ("2030-02-01 00:00Z", None)]  # fmt: skip
        for number, (since, until) in enumerate(spans):
            add_attempt(connection, "old", number, gpus=4, created_at=since, ended_at=until)
    migrations.upgrade(bare_url)
    with psycopg.connect(bare_url) as connection:
        found = connection.execute("SELECT project, month, slot_seconds / 3600 FROM project_usage ORDER BY month")
        assert found.fetchall() == [("default", date(2029, 12, 1), 8.0), ("default", date(2030, 1, 1), 16.0)]


def test_slot_time_of_ended_attempts_counts_in_the_fair_queue(bare_url: str) -> None:
    migrations.upgrade(bare_url, "0018")
    this_hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    hour = this_hour - timedelta(hours=5)
    jobs = {
        "waits": ("ada", "queued"), "long": ("ada", "queued"), "new": ("bob", "queued"), "lives": ("bob", "running"),
        "ended": ("eve", "succeeded"),
    }  # fmt: skip
    attempts = [  # job, GPUs, hours from `hour` at which it began and ended
        ("waits", 1, 0.5, 0.75), ("waits", 1, 0.75, 1.25), ("long", 4, 0, 0.5), ("lives", 2, 1, None),
        ("ended", 4, 2.5, 3.5), ("ended", 1, -24 * 15, -24 * 15 + 1), ("ended", 1, -24 * 20, 0.5),
    ]  # fmt: skip
    with psycopg.connect(bare_url) as connection:
        for name, (owner, status) in jobs.items():
            ended_at = this_hour if status == "succeeded" else None
            add_job(connection, name, owner=owner, project="default", status=status, gpus=4, ended_at=ended_at)
        for number, (job_id, gpus, since_h, until_h) in enumerate(attempts):
            began, ended = (None if at_h is None else hour + timedelta(hours=at_h) for at_h in (since_h, until_h))
            times = {"created_at": began, "ended_at": ended}
            add_attempt(connection, job_id, number, gpus=gpus, shares=Jsonb([]), **times)
    migrations.upgrade(bare_url)
    with psycopg.connect(bare_url) as connection:
        levels = connection.execute("SELECT id, slot_seconds, level FROM jobs ORDER BY id").fetchall()
        rows = connection.execute("SELECT user_name, hour, slot_seconds FROM usage_hours WHERE project = 'default'")
        used: dict[str, dict[float, float]] = defaultdict(dict)
        for user, at, slot_s in rows.fetchall():
            used[user] |= {(at - hour) / timedelta(hours=1): slot_s} if slot_s else {}
        assert connection.execute("SELECT share FROM projects").fetchall() == [(1,)]
    assert levels == [("ended", 0, 0), ("lives", 0, 0), ("long", 7200, 2), ("new", 0, 0), ("waits", 2700, 1)]
    assert (used["ada"], used["bob"]) == ({0: 9000, 1: 900}, {})
    assert [used["eve"].pop(at) for at in (0, 2, 3)] == [1800, 7200, 7200]
    assert len(used["eve"]) >= 24 * 13  # of the last two weeks
    assert sum(used["eve"].values()) < 24 * 14 * 3600


def test_a_downgrade_turns_blocks_of_points_into_rows(bare_url: str) -> None:
    migrations.upgrade(bare_url)
    at = datetime(2030, 1, 1, 12, 30, 0, 123456, tzinfo=UTC)
    rows = [MetricRow("j", name, 0, step, 1, 2, at, step / 3) for name in ("a", "b") for step in (*range(1, 50), 99)]
    engine = engine_for(bare_url)
    with sessions_for(engine).begin() as session:
        store_metrics(session, rows)
        assert len(session.scalars(select(MetricBlock)).all()) == 2
    engine.dispose()
    migrations.downgrade(bare_url, "0003")
    with psycopg.connect(bare_url) as connection:
        found = connection.execute(
            "SELECT job_id, name, rank, step, attempt, epoch, at, value FROM metric_points ORDER BY name, step"
        ).fetchall()
    assert found == rows


def test_a_failed_upgrade_changes_nothing(bare_url: str) -> None:
    with psycopg.connect(bare_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE tokens (other int)")
    before = relations(bare_url)
    with pytest.raises(Exception, match="already exists"):
        migrations.upgrade(bare_url)
    assert relations(bare_url) == before


def test_two_upgrades_at_once_take_turns(bare_url: str) -> None:
    command = [sys.executable, "-m", "migrations", "upgrade"]
    environment = os.environ | {"HORA_DATABASE_URL": bare_url}
    with psycopg.connect(bare_url) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [0x686F7261])  # the lock of a running upgrade
        running = [
            subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
            for _ in range(2)
        ]
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        until(lambda: connection.execute(waiting).fetchone() == (2,), what="two that wait")
        assert "jobs" not in relations(bare_url)
    for one in running:
        _, said = one.communicate(timeout=120)
        assert one.returncode == 0, said.decode()
    migrations.check(bare_url)


def test_a_downgrade_takes_back_what_was_said_of_idle_slots_of_waits_of_changes_and_of_the_store(bare_url: str) -> None:
    migrations.upgrade(bare_url)
    with psycopg.connect(bare_url, autocommit=True) as connection:
        cancelled = {"status": "cancelled", "project": "default"}
        add_job(connection, "new", end_reason="idle", idle=Jsonb({}), **cancelled)
        add_job(connection, "behind", end_reason="dependency", **cancelled)
        add_job(connection, "nan", end_reason="diverged", project="default", status="failed")
        add_job(connection, "store", project="default", copies_behind=Jsonb({"step": 5}))
        for job_id, reason in (("new", "idle"), ("store", "no_store")):
            add_attempt(connection, job_id, shares=Jsonb([]), ended_at=datetime.now(UTC), end_reason=reason)
        for kind in ("submitted", "idle_warned", "idle_acted", "changed", "alert", "copies_behind"):
            add(connection, "job_events", job_id="new", kind=kind, data=Jsonb({}))
        hooks = {
            "both": ["job.ended", "job.idle"], "idle": ["job.idle"], "alert": ["job.alert", "job.idle"],
            "other": ["study.ended"],
        }  # fmt: skip
        for hook, events in hooks.items():
            add(connection, "webhooks", id=hook, owner="me", url="https://example.com", events=events, secret="s")
            for event in set(events) - {"study.ended"}:
                add(connection, "webhook_deliveries", webhook_id=hook, event=event, subject_id="new")
    migrations.downgrade(bare_url, "0010")
    with psycopg.connect(bare_url) as connection:
        attempts = connection.execute("SELECT job_id, end_reason FROM attempts ORDER BY job_id").fetchall()
        assert attempts == [("new", "cancelled"), ("store", "host_lost")]
        jobs = connection.execute("SELECT id, end_reason FROM jobs ORDER BY id").fetchall()
        assert jobs == [("behind", "cancelled"), ("nan", "internal_error"), ("new", "cancelled"), ("store", None)]
        left = connection.execute("SELECT id, events FROM webhooks ORDER BY id").fetchall()
        assert left == [("both", ["job.ended"]), ("other", ["study.ended"])]
        deliveries = connection.execute("SELECT webhook_id, event FROM webhook_deliveries").fetchall()
        assert deliveries == [("both", "job.ended")]
        assert connection.execute("SELECT kind FROM job_events").fetchall() == [("submitted",)]


def test_the_version_of_the_tables_is_that_of_the_newest_migration() -> None:
    assert ScriptDirectory(str(Path(migrations.__file__).parent)).get_current_head() == SCHEMA
