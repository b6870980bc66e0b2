"""notes and stars of jobs, and the values of their cells"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0024"
down_revision: str | None = "0023"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# The texts of the trigger `write_job_texts`, which runs for new jobs. They have no notes.
_REWRITE = """
    CREATE OR REPLACE FUNCTION rewrite_job_texts() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE job_texts SET text = lower(concat_ws(E'\\n', NEW.id, NEW.name, NEW.owner,
            NEW.spec #>> '{{dataset,source}}', NEW.spec #>> '{{model,name}}',
            (SELECT string_agg(key || E'\\n' || value, E'\\n') FROM jsonb_each_text(NEW.labels)){more}))
        WHERE job_id = NEW.id;
        RETURN NULL;
    END $$
"""
_TRIGGER = "CREATE TRIGGER rewrite_job_texts AFTER UPDATE OF {columns} ON jobs FOR EACH ROW EXECUTE FUNCTION {function}"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("notes", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("notes_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("jobs", sa.Column("starred", sa.Boolean(), server_default=sa.text("false"), nullable=False))
    op.add_column("jobs", sa.Column("study_values", postgresql.JSON(), nullable=True))
    op.execute("""
        UPDATE jobs SET study_values = cell.value
        FROM studies, json_array_elements(cells) WITH ORDINALITY AS cell (value, number)
        WHERE studies.id = jobs.study_id AND cell.number = study_cell + 1
    """)
    op.create_index(
        "ix_jobs_starred",
        "jobs",
        [sa.literal_column("created_at DESC"), sa.literal_column("id DESC")],
        postgresql_where=sa.text("starred"),
    )
    _search(", NEW.notes", "name, labels, notes")


def downgrade() -> None:
    _search("", "name, labels")
    op.drop_index("ix_jobs_starred", table_name="jobs")
    for column in ("study_values", "starred", "notes_at", "notes"):
        op.drop_column("jobs", column)


def _search(more: str, columns: str) -> None:
    """Search these further texts too, which change with these columns."""
    op.execute("DROP TRIGGER rewrite_job_texts ON jobs")
    op.execute(_REWRITE.format(more=more))
    op.execute(_TRIGGER.format(columns=columns, function="rewrite_job_texts()"))
