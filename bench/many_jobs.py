"""Stores the rows of thousands of jobs that never ran. Used by measurements of lists, and by browser tests."""

import psycopg

from jobs.model.plan import resolve_plan
from jobs.model.spec import spec_from

_SPEC = {"dataset": "digits", "batch_size": 64, "learning_rate": 0.001, "gpus": 2}
_JOBS = """
    INSERT INTO jobs (id, name, owner, status, spec, plan, summary, labels, gpus, priority,
        created_at, started_at, ended_at)
    SELECT %(prefix)s || lpad(n::text, 10, '0'), 'name-' || n %% 1000, 'user-' || n %% 100, %(status)s,
        %(spec)s::jsonb, %(plan)s::jsonb,
        CASE WHEN %(ended)s THEN jsonb_build_object('val_accuracy', n * 7919 %% 1000 / 1000.0,
            'val_loss', n * 7907 %% 1000 / 500.0, 'train_samples_per_s', 1000 + n * 7901 %% 9000) END,
        jsonb_build_object('team', 'team-' || n %% 50), 2, n %% 101,
        submitted, CASE WHEN %(begun)s THEN submitted END,
        CASE WHEN %(ended)s THEN submitted + n %% 997 * interval '1 second' END
    FROM generate_series(1::bigint, %(count)s) AS n,
        LATERAL (SELECT now() - (1000 + n) * interval '1 second') AS of_job (submitted)
"""


def store_jobs(url: str, *, prefix: str, status: str, count: int) -> None:
    """Add so many jobs in one status. `{prefix}0000000001` is the newest; each further job is a second older."""
    spec = spec_from(_SPEC)
    values = {
        "prefix": prefix, "status": status, "count": count,
        "begun": status != "queued", "ended": status not in ("queued", "running"),
        "spec": spec.model_dump_json(), "plan": resolve_plan(spec, None).model_dump_json(),
    }  # fmt: skip
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_JOBS, values)
