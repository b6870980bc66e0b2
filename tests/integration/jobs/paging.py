"""Reads all pages of the list of jobs, and the database's plan for a page. For the tests of the list."""

from typing import Any

from sqlalchemy import Engine, event, text

from jobs.db.engine import Sessions
from jobs.lifecycle.list_sorts import FieldOrder, Order
from jobs.lifecycle.listing import JobFilter, ListQuery, list_jobs, revisions
from tests.integration.api.starting_rows import START

METRIC = "metrics.val/iou.x"
LABEL = 'label.a,b "c"'
# Few values of each, so that ties are many. Of the succeeded ones (every fourth) four in five have an accuracy; of all,
# eight in nine have a plan. The ids are in no order.
JOBS = text("""
    INSERT INTO jobs (id, name, owner, status, spec, plan, summary, labels, gpus, priority, created_at, started_at,
        ended_at, paused_at, checkpoint_bytes, artifact_bytes, starred, metrics)
    SELECT lpad((n * 7919 % 1000000)::text, 12, '0'), 'Name-' || n % 50, 'user-' || n % 20,
        (ARRAY['succeeded', 'failed', 'cancelled', 'queued'])[1 + n % 4],
        jsonb_build_object('dataset', jsonb_build_object('source', '/data/Set_' || n % 30),
            'model', jsonb_build_object('name', 'models:net%' || n % 40),
            'params', CASE n % 7 WHEN 0 THEN '{"x": 1}' WHEN 1 THEN '{"x": "1"}' WHEN 2 THEN '{"x": true}' ELSE '{}'
            END::jsonb),
        CASE WHEN n % 9 = 0 THEN '{}' ELSE jsonb_build_object(
            'global_batch', (32 * (n % 11))::bigint << n % 30, 'learning_rate', 0.1 / (1 + n % 13)) END,
        CASE WHEN n % 4 = 0 THEN jsonb_build_object('val_accuracy', CASE WHEN n % 5 > 0 THEN n % 17 / 17.0 END,
            'val_loss', n % 19, 'train_samples_per_s', 1e3 / (1 + n % 23)) END,
        jsonb_build_object('team', 'Team-' || n % 100, 'Stage', 'x')
            || CASE WHEN n % 3 > 0 THEN jsonb_build_object('a,b "c"', 'v' || n % 2) ELSE '{}' END, 1 + n % 8, n % 7,
        CAST(:start AS timestamptz) + n / 3 * interval '1 second',
        CASE WHEN n % 4 < 3 THEN CAST(:start AS timestamptz) + (n % 977) * interval '1 minute' END,
        CASE WHEN n % 4 < 3 THEN CAST(:start AS timestamptz) + (n % 983) * interval '1 hour 0.001234 seconds' END,
        CASE WHEN n % 100 = 3 THEN now() END, CASE WHEN n % 3 > 0 THEN n % 29 * 1000000000::bigint END,
        CASE WHEN n % 5 > 0 THEN n % 31 * 500000000::bigint END, n % 5 = 0,
        CASE WHEN n % 7 < 5 THEN jsonb_build_object(:metric, jsonb_build_object('last', n,
            'best', CASE WHEN n % 6 > 0 THEN n % 37 / 32.0 - 0.5 END, 'best_epoch', 3)) ELSE '{}' END
    FROM generate_series(1, :jobs) AS n
""").bindparams(metric=METRIC.removeprefix("metrics."))


def analyzed(engine: Engine) -> None:
    """Refresh the database's statistics of its tables."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE"))


def store_jobs(sessions: Sessions, engine: Engine, count: int) -> None:
    """Store `count` jobs of all kinds; the first is created at START."""
    with sessions.begin() as session:
        session.execute(JOBS, {"jobs": count, "start": START})
    analyzed(engine)


def every_id(sessions: Sessions, job_filter: JobFilter, order: Order | FieldOrder, *, limit: int) -> list[str]:
    """The ids on all pages, read page by page."""
    job_ids: list[str] = []
    cursor = None
    with sessions() as session:
        while True:
            page = list_jobs(session, ListQuery(job_filter, order, limit, cursor))
            rows = revisions(session, ListQuery(job_filter, order, limit, cursor))
            assert [job.id for job in page.items] == [job.id for job in rows[:limit]]
            job_ids += [job.id for job in page.items]
            if (cursor := page.next_cursor) is None:
                return job_ids


def plan_of(sessions: Sessions, engine: Engine, page_query: ListQuery) -> tuple[str, int]:
    """The database's plan for a page, and how many rows it read."""
    statements: list[tuple[str, Any]] = []

    def record(*call: Any) -> None:
        statements.append((call[2], call[3]))

    event.listen(engine, "before_cursor_execute", record)
    with sessions() as session:
        revisions(session, page_query)
    event.remove(engine, "before_cursor_execute", record)
    statement, values = statements[-1]
    with engine.connect() as connection:
        cursor = connection.connection.cursor()
        cursor.execute("SET enable_seqscan = off")  # with so few rows it would not use an index
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", values)
        ((((document,),)),) = [cursor.fetchall()]
    rows = 0
    nodes, names = [document[0]["Plan"]], []
    while nodes:
        node = nodes.pop()
        nodes += node.get("Plans", [])
        names.append(f"{node['Node Type']} {node.get('Index Name', '')}")
        if not node.get("Plans"):
            rows += (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
    return ", ".join(names), round(rows)
