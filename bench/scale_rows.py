"""Fills a database with a long queue and a large cluster, for `bench.scale`. The rows are those that the service has.

Triggers and foreign keys are off while it writes: they do not matter to a pass, and a million jobs are written sooner.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from jobs.model.plan import resolve_plan
from jobs.model.spec import spec_from

_SPEC = {"dataset": "digits", "batch_size": 64, "learning_rate": 0.001}
_PROJECTS = """
    INSERT INTO projects (name) SELECT 'p' || n FROM generate_series(0, %(projects)s - 1) AS n ON CONFLICT DO NOTHING
"""
_HOSTS = """
    INSERT INTO hosts (name, info, address)
    SELECT 'h' || lpad(n::text, 5, '0'), '{"peers": "all"}', '10.0.0.1' FROM generate_series(0, %(hosts)s - 1) AS n
"""
_SLOTS = """
    INSERT INTO slots (host, index, kind, name, uuid, memory_bytes)
    SELECT name, slot, 'gpu', 'NVIDIA A100-SXM4-80GB', name || '-' || slot, 85899345920
    FROM hosts, generate_series(0, %(slots)s - 1) AS slot
"""
_QUEUED = """
    INSERT INTO jobs (id, name, owner, project, status, spec, plan, labels, gpus, priority, created_at, queued_at,
        level, slot_seconds, attempt)
    SELECT 'q' || lpad(n::text, 11, '0'), 'job-' || n, 'u' || n %% %(users)s,
        'p' || n %% %(users)s %% %(projects)s, 'queued',
        %(spec)s::jsonb || jsonb_build_object('gpus', gpus) || CASE WHEN %(varied)s THEN
            jsonb_build_object('time_limit_s', 600 + n * 7919 %% 86400, 'gpu_memory_gb', 8 + n %% 40) ELSE '{}' END,
        %(plan)s::jsonb, '{}', gpus, 50, waits_since, waits_since, level, level * 3600, 0
    FROM generate_series(1::bigint, %(jobs)s) AS n,
        LATERAL (SELECT
            CASE WHEN %(varied)s THEN 1 + n * 31 %% 64
                ELSE (ARRAY[1, 1, 1, 2, 4, 8, 16])[1 + n * 7907 %% 7] END AS gpus,
            CASE WHEN %(same_age)s THEN now() - interval '1 hour'
                ELSE now() - n * (interval '7 days' / %(jobs)s) END AS waits_since,
            n * 7901 %% 3 AS level) AS of_job
"""
# The attempts of one slot each hold all slots but every `free_every`th.
_RUNNING = """
    INSERT INTO jobs (id, name, owner, project, status, spec, plan, labels, gpus, priority, created_at, queued_at,
        started_at, attempt, level, slot_seconds)
    SELECT 'r' || lpad(n::text, 11, '0'), 'job-' || n, 'u' || n %% %(users)s,
        'p' || n %% %(users)s %% %(projects)s, 'running', %(spec)s::jsonb, %(plan)s::jsonb, '{}', 1, 50,
        began, began, began, 1, n * 7901 %% 3, n * 7901 %% 3 * 3600
    FROM (SELECT row_number() OVER (ORDER BY host, index) AS n FROM slots) AS slots,
        LATERAL (SELECT now() - n * 7919 %% 86400 * interval '1 second' AS began) AS of_job
    WHERE %(free_every)s = 0 OR n %% %(free_every)s <> 0
"""
_ATTEMPTS = """
    INSERT INTO attempts (job_id, number, host, shares, gpus, queued_at, lease_expires_at, created_at, claimed_at,
        started_at, setup)
    SELECT 'r' || lpad(n::text, 11, '0'), 1, host,
        jsonb_build_array(jsonb_build_object('host', host, 'slots', jsonb_build_array(index))), 1,
        began - interval '10 minutes', now() + interval '1 hour', began, began, began + interval '20 seconds',
        '{"imports": 5.0, "data": 3.0}'
    FROM (SELECT row_number() OVER (ORDER BY host, index) AS n, host, index FROM slots) AS slots,
        LATERAL (SELECT now() - n * 7919 %% 86400 * interval '1 second' AS began) AS of_job
    WHERE %(free_every)s = 0 OR n %% %(free_every)s <> 0
"""
_LEASES = """
    UPDATE slots SET attempt_id = attempts.id, rank = 0
    FROM attempts WHERE attempts.host = slots.host AND (attempts.shares -> 0 -> 'slots' ->> 0)::int = slots.index
"""
_USAGE = """
    INSERT INTO usage_hours (project, user_name, hour, slot_seconds)
    SELECT 'p' || n %% %(projects)s, 'u' || n, date_trunc('hour', now()) - ago * interval '1 hour',
        3600 * (1 + n * 7919 %% 9)
    FROM generate_series(0, %(users)s - 1) AS n, generate_series(1, 240) AS ago
"""
_URGENT = """
    INSERT INTO jobs (id, name, owner, project, status, spec, plan, labels, gpus, priority, created_at, queued_at)
    SELECT 'w' || lpad(n::text, 11, '0'), 'urgent-' || n, 'u' || n %% %(users)s, 'p' || n %% %(users)s %% %(projects)s,
        'queued', %(spec)s::jsonb || jsonb_build_object('gpus', %(gpus)s::int), %(plan)s::jsonb, '{}', %(gpus)s, 90,
        now() - interval '1 minute', now() - interval '1 minute'
    FROM generate_series(1, %(urgent)s) AS n
"""
_LIMIT_READS = """
    SELECT slots.host, slots.index, attempts.id, attempts.gpus, attempts.created_at, attempts.setup, jobs.id,
        jobs.priority, jobs.owner, jobs.level
    FROM slots LEFT JOIN attempts ON attempts.id = slots.attempt_id LEFT JOIN jobs ON jobs.id = attempts.job_id
"""
_LIMIT_WRITES = """
    WITH placed AS (
        SELECT id, row_number() OVER () AS n FROM jobs WHERE status = 'queued' LIMIT %(placed)s
    ), moved AS (
        UPDATE jobs SET status = 'launching', attempt = 1 FROM placed WHERE jobs.id = placed.id
    ), leased AS (
        INSERT INTO attempts (job_id, number, host, shares, gpus, lease_expires_at)
        SELECT id, 1, 'h00000', '[{"host": "h00000", "slots": [0], "devices": ["NVIDIA A100-SXM4-80GB"]}]', 1, now()
        FROM placed RETURNING id, job_id
    ), told AS (
        INSERT INTO job_events (job_id, kind, attempt, data)
        SELECT id, 'placed', 1, '{"shares": [{"host": "h00000", "slots": [0]}]}' FROM placed
    ), numbered AS (SELECT id, row_number() OVER () AS n FROM leased)
    UPDATE slots SET attempt_id = numbered.id, rank = 0
    FROM numbered JOIN (SELECT host, index, row_number() OVER () AS n FROM slots) AS free USING (n)
    WHERE slots.host = free.host AND slots.index = free.index
"""


@dataclass(frozen=True)
class Size:
    """How much a database holds. User number n is in project n modulo `projects`. `slots` are those of each host."""

    jobs: int
    hosts: int
    slots: int
    users: int
    projects: int
    varied: bool = False  # hundreds of different requests in the queue
    same_age: bool = False

    @property
    def values(self) -> dict[str, object]:
        """For the statements of this module."""
        spec = spec_from(_SPEC)
        return {
            **vars(self), "projects": min(self.projects, self.users), "spec": spec.model_dump_json(),
            "plan": resolve_plan(spec, None).model_dump_json(),
        }  # fmt: skip


def fill(url: str, size: Size) -> None:
    """Write the projects, what their users used before, the hosts with their slots, and the queued jobs."""
    with _unchecked(url) as connection:
        for statement in (_PROJECTS, _HOSTS, _SLOTS, _USAGE, _QUEUED):
            connection.execute(statement, size.values)


def occupy(url: str, size: Size, *, free_every: int = 0) -> None:
    """Lease the slots to attempts of one slot each, which began within the last day.

    Every slot that `free_every` divides stays free; 0: none.
    """
    with _unchecked(url) as connection:
        for statement in (_RUNNING, _ATTEMPTS, _LEASES):
            connection.execute(statement, {**size.values, "free_every": free_every})


def add_urgent(url: str, size: Size, *, jobs: int, gpus: int) -> None:
    """Add jobs of high priority."""
    with _unchecked(url) as connection:
        connection.execute(_URGENT, {**size.values, "urgent": jobs, "gpus": gpus})


def empty_queue(url: str, size: Size) -> None:
    """Lease all slots, and remove the queued jobs."""
    occupy(url, size)
    with _unchecked(url) as connection:
        connection.execute("DELETE FROM jobs WHERE status = 'queued'")


def limit_s(url: str, placed: int) -> float:
    """What plain SQL needs to read what holds slots, and to write so many placements: the least for a pass."""
    with psycopg.connect(url) as connection:
        begun_s = time.perf_counter()
        connection.execute(_LIMIT_READS).fetchall()
        if placed:
            connection.execute(_LIMIT_WRITES, {"placed": placed})
    return time.perf_counter() - begun_s


@contextmanager
def _unchecked(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url) as connection:
        connection.execute("SET session_replication_role = replica")
        yield connection
