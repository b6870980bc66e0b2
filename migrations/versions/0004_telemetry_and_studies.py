"""fuller samples, roll-ups, analyses, studies and batch probes"""

import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    now = sa.text("now()")
    timestamp = sa.DateTime(timezone=True)
    jsonb = postgresql.JSONB(astext_type=sa.Text())
    json = postgresql.JSON(astext_type=sa.Text())  # keeps the order of the fields
    op.create_table(
        "studies",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("owner", sa.String(128), nullable=False),
        sa.Column("base", json, nullable=False),
        sa.Column("grid", json, nullable=False),
        sa.Column("cells", json, nullable=False),
        sa.Column("repeats", sa.Integer(), nullable=False),
        sa.Column("target", sa.Float(53), nullable=True),
        sa.Column("cancel_requested_at", timestamp, nullable=True),
        sa.Column("created_at", timestamp, server_default=now, nullable=False),
        sa.Column("revision", sa.BigInteger(), server_default="1", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_studies")),
    )
    op.create_index(
        "ix_studies_newest", "studies", [sa.literal_column("created_at DESC"), sa.literal_column("id DESC")]
    )
    op.create_table(
        "study_notes",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("study_id", sa.String(32), nullable=False),
        sa.Column("at", timestamp, server_default=now, nullable=False),
        sa.Column("author", sa.String(128), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_study_notes_study_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_study_notes")),
    )
    op.create_index("ix_study_notes_study", "study_notes", ["study_id", "id"])

    op.add_column("jobs", sa.Column("work_key", sa.String(64), nullable=True))
    op.add_column("jobs", sa.Column("study_id", sa.String(32), nullable=True))
    op.add_column("jobs", sa.Column("study_cell", sa.Integer(), nullable=True))
    op.add_column("jobs", sa.Column("study_repeat", sa.Integer(), nullable=True))
    op.add_column("jobs", sa.Column("probe", jsonb, nullable=True))
    op.create_foreign_key(op.f("fk_jobs_study_id"), "jobs", "studies", ["study_id"], ["id"])
    op.create_index(
        "ix_jobs_work",
        "jobs",
        ["work_key", sa.literal_column("created_at DESC")],
        postgresql_where=sa.text("status = 'succeeded'"),
    )
    op.create_index(
        "ix_jobs_study",
        "jobs",
        ["study_id", "study_cell", "study_repeat"],
        postgresql_where=sa.text("study_id IS NOT NULL"),
    )
    op.alter_column("idempotency_keys", "job_id", existing_type=sa.String(32), nullable=True)
    op.add_column("idempotency_keys", sa.Column("study_id", sa.String(32), nullable=True))
    op.create_foreign_key(
        op.f("fk_idempotency_keys_study_id"), "idempotency_keys", "studies", ["study_id"], ["id"], ondelete="CASCADE"
    )

    op.add_column("slots", sa.Column("reading", jsonb, nullable=True))
    op.add_column("samples", sa.Column("epoch", sa.Integer(), nullable=True))
    op.add_column("samples", sa.Column("gpu_throttle", sa.BigInteger(), nullable=True))
    op.add_column("samples", sa.Column("gpu_processes", sa.Integer(), nullable=True))
    op.create_table(
        "host_samples",
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("at", timestamp, nullable=False),
        sa.Column("cpu_percent", sa.Float(53), nullable=True),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("network_received_bytes_per_s", sa.Float(53), nullable=True),
        sa.Column("network_sent_bytes_per_s", sa.Float(53), nullable=True),
        sa.Column("disk_read_bytes_per_s", sa.Float(53), nullable=True),
        sa.Column("disk_written_bytes_per_s", sa.Float(53), nullable=True),
        sa.PrimaryKeyConstraint("host", "at", name=op.f("pk_host_samples")),
    )
    op.create_table(
        "metric_blocks",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("job_id", sa.String(32), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("first_step", sa.BigInteger(), nullable=False),
        sa.Column("last_step", sa.BigInteger(), nullable=False),
        sa.Column("steps", sa.LargeBinary(), nullable=True),
        sa.Column("epochs", sa.LargeBinary(), nullable=False),
        sa.Column("times", sa.LargeBinary(), nullable=False),
        sa.Column("numbers", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_metric_blocks")),
    )
    op.create_index("ix_metric_blocks_series", "metric_blocks", ["job_id", "name", "rank", "attempt", "first_step"])
    for column in ("times", "numbers"):  # they hardly shrink, and unpacking takes time
        op.execute(f"ALTER TABLE metric_blocks ALTER COLUMN {column} SET STORAGE EXTERNAL")
    op.create_table(
        "rollups",
        sa.Column("job_id", sa.String(32), nullable=False),
        sa.Column("source", sa.String(8), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("bin", sa.Integer(), nullable=False),
        sa.Column("first_step", sa.BigInteger(), nullable=True),
        sa.Column("last_step", sa.BigInteger(), nullable=True),
        sa.Column("first_epoch", sa.Integer(), nullable=True),
        sa.Column("last_epoch", sa.Integer(), nullable=True),
        sa.Column("first_at", timestamp, nullable=False),
        sa.Column("last_at", timestamp, nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("least", sa.Float(53), nullable=True),
        sa.Column("greatest", sa.Float(53), nullable=True),
        sa.Column("mean", sa.Float(53), nullable=True),
        sa.Column("p95", sa.Float(53), nullable=True),
        sa.CheckConstraint("source IN ('metric', 'sample')", name=op.f("ck_rollups_source")),
        sa.PrimaryKeyConstraint("job_id", "source", "name", "rank", "attempt", "bin", name=op.f("pk_rollups")),
    )
    op.create_table(
        "job_analyses",
        sa.Column("job_id", sa.String(32), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("made_at", timestamp, server_default=now, nullable=False),
        sa.Column("data", jsonb, nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_analyses_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_job_analyses")),
    )


def downgrade() -> None:
    op.drop_table("job_analyses")
    op.drop_table("rollups")
    _unpack_points()
    op.drop_table("metric_blocks")
    op.drop_table("host_samples")
    for column in ("gpu_processes", "gpu_throttle", "epoch"):
        op.drop_column("samples", column)
    op.drop_column("slots", "reading")
    op.execute("DELETE FROM idempotency_keys WHERE job_id IS NULL")
    op.drop_column("idempotency_keys", "study_id")
    op.alter_column("idempotency_keys", "job_id", existing_type=sa.String(32), nullable=False)
    op.drop_index("ix_jobs_study", table_name="jobs")
    op.drop_index("ix_jobs_work", table_name="jobs")
    for column in ("probe", "study_repeat", "study_cell", "study_id", "work_key"):
        op.drop_column("jobs", column)
    op.drop_table("study_notes")
    op.drop_table("studies")


def _unpack_points() -> None:
    """Make a row of each point again: older versions know no others."""
    connection, start = op.get_bind(), datetime(2000, 1, 1, tzinfo=UTC)
    insert = sa.text(
        "INSERT INTO metric_points (job_id, name, rank, step, attempt, epoch, at, value)"
        " VALUES (:job_id, :name, :rank, :step, :attempt, :epoch, :at, :value) ON CONFLICT DO NOTHING"
    )
    for block in connection.execute(sa.text("SELECT * FROM metric_blocks ORDER BY id"), execution_options=_FEW_AT_ONCE):
        count = len(block.numbers) // 8
        steps = range(block.first_step, block.last_step + 1)
        columns = zip(
            steps if block.steps is None else struct.unpack(f">{count}q", block.steps),
            struct.unpack(f">{count}i", block.epochs),
            struct.unpack(f">{count}q", block.times),
            struct.unpack(f">{count}d", block.numbers),
            strict=True,
        )
        of = {"job_id": block.job_id, "name": block.name, "rank": block.rank, "attempt": block.attempt}
        rows = [
            {**of, "step": step, "epoch": epoch, "at": start + timedelta(microseconds=ticks), "value": value}
            for step, epoch, ticks, value in columns
        ]
        connection.execute(insert, rows)


_FEW_AT_ONCE = {"yield_per": 64}
