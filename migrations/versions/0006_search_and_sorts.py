"""texts to search jobs by, and more to sort them by"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_SORTED_BY = {
    "gpus": "gpus",
    "duration": "coalesce((extract(epoch FROM ended_at - started_at) * 1000000)::bigint, 9223372036854775807)",
    "batch_size": "((plan ->> 'global_batch')::bigint)",
    "learning_rate": "((plan ->> 'learning_rate')::double precision)",
}
_RESULTS = {
    "val_accuracy": "((summary ->> 'val_accuracy')::double precision)",
    "val_loss": "((summary ->> 'val_loss')::double precision)",
    "train_samples_per_s": "((summary ->> 'train_samples_per_s')::double precision)",
}
# Lines, so that no text is found across two of them. None of this ever changes.
_TEXTS = """
    INSERT INTO job_texts (job_id, text)
    SELECT id, lower(concat_ws(E'\\n', id, name, owner, spec #>> '{dataset,source}', spec #>> '{model,name}',
        (SELECT string_agg(key || E'\\n' || value, E'\\n') FROM jsonb_each_text(labels))))
    FROM
"""


def upgrade() -> None:
    op.create_table(
        "job_texts",
        sa.Column("job_id", sa.String(32), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_job_texts")),
    )
    op.execute(f"{_TEXTS} jobs")
    op.create_foreign_key(op.f("fk_job_texts_job_id"), "job_texts", "jobs", ["job_id"], ["id"], ondelete="CASCADE")
    # In the database, so that no job is without its text, whichever version writes it.
    op.execute(f"""
        CREATE FUNCTION write_job_texts() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            {_TEXTS} added;
            RETURN NULL;
        END $$
    """)
    op.execute("""
        CREATE TRIGGER write_job_texts AFTER INSERT ON jobs REFERENCING NEW TABLE AS added
        FOR EACH STATEMENT EXECUTE FUNCTION write_job_texts()
    """)
    for name, expression in (_SORTED_BY | _RESULTS).items():
        columns: list[sa.ColumnElement[str]] = [sa.literal_column(expression), sa.column("created_at"), sa.column("id")]
        if name in _RESULTS:
            columns.append(sa.column("status"))
        op.create_index(f"ix_jobs_{name}", "jobs", columns, unique=False)


def downgrade() -> None:
    for name in _SORTED_BY | _RESULTS:
        op.drop_index(f"ix_jobs_{name}", table_name="jobs")
    op.execute("DROP TRIGGER write_job_texts ON jobs")
    op.execute("DROP FUNCTION write_job_texts()")
    op.drop_table("job_texts")
