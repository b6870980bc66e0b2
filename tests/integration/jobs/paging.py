"""Reads all pages of the list of jobs, and the database's plan for a page. For the tests of the list."""

from typing import Any

from sqlalchemy import Engine, TextClause, event, text

from jobs.db.engine import Sessions
from jobs.lifecycle.list_sorts import FieldOrder, Order
from jobs.lifecycle.listing import JobFilter, ListQuery, list_jobs, revisions
from tests.integration.api.starting_rows import START


def analyzed(engine: Engine) -> None:
    """Refresh the database's statistics of its tables."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE"))


def store_all(sessions: Sessions, engine: Engine, jobs: TextClause, count: int) -> None:
    """Store `count` jobs with one statement; the first is created at START."""
    with sessions.begin() as session:
        session.execute(jobs, {"jobs": count, "start": START})
    analyzed(engine)


def in_one_sort(
    sessions: Sessions, condition: str, order: Order | FieldOrder, *, key: str | None = None, is_nullable: bool = False
) -> list[str]:
    """The ids in one sort of all rows, by `key` or by the column itself.

    If the key is nullable, jobs without a value are last in both directions. Else they are where the greatest would be.
    """
    column, direction = order.removeprefix("-"), "DESC" if order.startswith("-") else "ASC"
    nulls = "NULLS FIRST" if direction == "DESC" and not is_nullable else "NULLS LAST"
    query = f"""SELECT id FROM jobs WHERE {condition}
        ORDER BY {key or column} {direction} {nulls}, created_at {direction}, id {direction}"""  # noqa: S608
    with sessions() as session:
        return list(session.scalars(text(query)))


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
