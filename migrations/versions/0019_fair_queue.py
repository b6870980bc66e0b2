"""fair queue"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0019"
down_revision: str | None = "0018"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# What attempts held before counts too. So the first pass knows who used much.
_JOBS = """
    UPDATE jobs SET slot_seconds = held.slot_s, level = (held.slot_s >= 1800)::int + (held.slot_s >= 7200)::int
    FROM (
        SELECT job_id, sum(gpus * greatest(extract(epoch FROM ended_at - created_at), 0)) AS slot_s
        FROM attempts WHERE ended_at IS NOT NULL GROUP BY job_id
    ) AS held
    WHERE jobs.id = held.job_id AND jobs.ended_at IS NULL
"""
_HOURS = """
    INSERT INTO usage_hours (project, user_name, hour, slot_seconds)
    SELECT project, owner, hour,
        sum(gpus * greatest(extract(epoch FROM least(until, hour + interval '1 hour') - greatest(since, hour)), 0))
    FROM (
        SELECT jobs.project, jobs.owner, attempts.gpus,
            greatest(attempts.created_at, now() - interval '14 days') AS since, attempts.ended_at AS until
        FROM attempts JOIN jobs ON jobs.id = attempts.job_id WHERE attempts.ended_at > now() - interval '14 days'
    ) AS held, generate_series(date_trunc('hour', since, 'UTC'), until, interval '1 hour') AS hour
    GROUP BY project, owner, hour
"""


def upgrade() -> None:
    op.add_column("projects", sa.Column("share", sa.Float(), server_default=sa.text("1"), nullable=False))
    op.add_column("jobs", sa.Column("slot_seconds", sa.Float(), server_default="0", nullable=False))
    op.add_column("jobs", sa.Column("level", sa.SmallInteger(), server_default="0", nullable=False))
    op.create_table(
        "usage_hours",
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("user_name", sa.String(length=128), nullable=False),
        sa.Column("hour", sa.DateTime(timezone=True), nullable=False),
        sa.Column("slot_seconds", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"], ["projects.name"], name=op.f("fk_usage_hours_project_projects"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("project", "user_name", "hour", name=op.f("pk_usage_hours")),
    )
    op.create_index("ix_usage_hours_hour", "usage_hours", ["hour"])
    op.create_table(
        "account_standings",
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("user_name", sa.String(length=128), nullable=False),
        sa.Column("used_slot_s", sa.Float(), nullable=False),
        sa.Column("used_part", sa.Float(), nullable=False),
        sa.Column("entitled_part", sa.Float(), nullable=False),
        sa.Column("is_over", sa.Boolean(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"], ["projects.name"], name=op.f("fk_account_standings_project_projects"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("project", "user_name", name=op.f("pk_account_standings")),
    )
    op.execute(_JOBS)
    op.execute(_HOURS)
    op.create_index(
        "ix_jobs_lanes",
        "jobs",
        ["project", "owner", sa.text("priority DESC"), "level", "created_at", "id"],
        postgresql_where=sa.text(
            "status = 'queued' AND cancel_requested_at IS NULL AND paused_at IS NULL AND NOT waits_for_jobs"
        ),
    )


def downgrade() -> None:
    op.drop_index("ix_jobs_lanes", table_name="jobs")
    op.drop_table("account_standings")
    op.drop_index("ix_usage_hours_hour", table_name="usage_hours")
    op.drop_table("usage_hours")
    op.drop_column("jobs", "level")
    op.drop_column("jobs", "slot_seconds")
    op.drop_column("projects", "share")
