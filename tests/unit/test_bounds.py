"""Everything that a user can create in number has a bound, in the table "Shares" of docs/access.md."""

import re
from pathlib import Path

from api.document import document
from jobs.db.tables import Base
from tests.unit.api.operations import operations

_PAGE = Path(__file__).parents[2] / "docs" / "access.md"
_SAFE = {"GET", "HEAD"}

# The tables to which a request adds rows. A change also adds to `audit_entries`, and one of a job to `job_events`.
ROWS_OF = {
    "submit_job": "jobs job_waits job_events idempotency_keys",
    "clone_job": "jobs job_waits job_events idempotency_keys",
    "submit_study": "studies study_notes jobs job_waits job_events idempotency_keys",
    "resume_study": "jobs job_waits job_events",
    **dict.fromkeys(("delete_job", "delete_study"), "deleted_jobs deleted_attempts"),
    **dict.fromkeys(
        ("cancel_job", "change_job", "pause_job", "resume_job", "cancel_study", "change_study", "pause_study"),
        "job_events",
    ),
    "add_note": "study_notes",
    "create_token": "tokens users",
    "create_login_link": "tokens",
    "create_project": "projects",
    "add_project_member": "project_members",
    "create_view": "views",
    "create_webhook": "webhooks",
    "test_webhook": "webhook_deliveries",
    "create_article": "articles article_versions",
    "change_article": "article_versions",
    "import_run": "jobs job_events attempts metric_points metric_blocks log_lines",
    "start_upload": "uploads",
    "send_code": "code_archives code_senders code_pieces",
    "register_dataset": "dataset_versions",
    **dict.fromkeys(
        (
            "change_project", "change_user", "change_view", "change_webhook", "delete_article", "delete_view",
            "delete_webhook", "drain_host", "forget_host", "put_upload_content", "redeliver_delivery",
            "remove_artifacts", "remove_dataset_version", "remove_project_member",
            "remove_upload", "revoke_token", "undrain_host",
        ),
        "",
    ),
}  # fmt: skip


def bounded_tables() -> dict[str, str]:
    """The bound of each table, as the page says it."""
    section = _PAGE.read_text().partition("\n## Shares\n")[2].partition("\n## ")[0]
    bounds = {}
    for line in section.splitlines():
        if line.startswith("| ") and line.count(" |") == 3:
            _, tables, bound = (cell.strip() for cell in line.strip("| ").split("|"))
            bounds |= dict.fromkeys(re.findall(r"`(\w+)`", tables), bound)
    return bounds


def test_every_table_has_a_bound() -> None:
    bounds = bounded_tables()
    unbounded = set(Base.metadata.tables) - set(bounds)
    assert not unbounded, f"say in docs/access.md, under Shares, what bounds the rows of {sorted(unbounded)}"
    assert set(bounds) <= set(Base.metadata.tables)
    assert all(bounds.values())


def test_every_route_that_adds_rows_says_to_which_tables() -> None:
    changing = {each["operationId"] for method, _, each in operations(document()) if method not in _SAFE}
    undeclared = changing - set(ROWS_OF)
    assert not undeclared, f"say in ROWS_OF to which tables these routes add rows: {sorted(undeclared)}"
    assert set(ROWS_OF) <= changing
    assert {table for tables in ROWS_OF.values() for table in tables.split()} <= set(bounded_tables())
