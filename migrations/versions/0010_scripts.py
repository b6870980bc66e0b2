"""people's own code, every metric of a job, and the scope for code"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0010"
down_revision: str | None = "0009"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_REASONS = [
    "completed", "early_stopped", "cancelled", "rank_failed", "out_of_memory", "stalled", "time_limit", "launch_failed",
    "host_lost", "lease_expired", "preempted", "paused", "bad_data", "internal_error", "no_space", "no_device",
]  # fmt: skip
_TABLES_WITH_REASON = ("jobs", "attempts")


def upgrade() -> None:
    _make_code_tables()
    op.add_column("jobs", sa.Column("code", sa.String(64), sa.ForeignKey("code_archives.digest"), nullable=True))
    op.create_index("ix_jobs_code", "jobs", ["code"], postgresql_where=sa.text("code IS NOT NULL"))
    metrics = postgresql.JSONB(astext_type=sa.Text())
    op.add_column("jobs", sa.Column("metrics", metrics, server_default=sa.text("'{}'"), nullable=False))
    for table in _TABLES_WITH_REASON:
        _check_values(table, "end_reason", f"ck_{table}_endreason", [*_REASONS, "script_failed"])
    _check_values("tokens", "scope", "ck_tokens_scope", ["read", "submit", "code", "admin"])


def downgrade() -> None:
    tokens = sa.table("tokens", sa.column("scope", sa.Text()))
    op.execute(sa.update(tokens).where(tokens.c.scope == "code").values(scope="submit"))
    _check_values("tokens", "scope", "ck_tokens_scope", ["read", "submit", "admin"])
    for table in _TABLES_WITH_REASON:
        reason = sa.column("end_reason", sa.Text())
        failed = sa.update(sa.table(table, reason)).where(reason == "script_failed")
        op.execute(failed.values(end_reason="internal_error"))
        _check_values(table, "end_reason", f"ck_{table}_endreason", _REASONS)
    # Without their code these jobs are no jobs of the version before.
    jobs = sa.table("jobs", sa.column("code", sa.Text()))
    op.execute(sa.delete(jobs).where(jobs.c.code.is_not(None)))
    op.drop_column("jobs", "metrics")
    op.drop_index("ix_jobs_code", "jobs")
    op.drop_column("jobs", "code")
    for table in ("code_pieces", "code_senders", "code_archives"):
        op.drop_table(table)


def _make_code_tables() -> None:
    op.create_table(
        "code_archives",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("unpacked_bytes", sa.BigInteger(), nullable=False),
        sa.Column("files", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_code_archives")),
    )
    op.create_index("ix_code_archives_used", "code_archives", ["used_at"])
    op.create_table(
        "code_senders",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(128), nullable=False),
        sa.Column("sent_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["digest"], ["code_archives.digest"], op.f("fk_code_senders_digest_code_archives"),
                                ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("digest", "owner", name=op.f("pk_code_senders")),
    )  # fmt: skip
    op.create_table(
        "code_pieces",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["digest"], ["code_archives.digest"], op.f("fk_code_pieces_digest_code_archives"),
                                ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("digest", "number", name=op.f("pk_code_pieces")),
    )  # fmt: skip


def _check_values(table: str, column: str, constraint: str, values: list[str]) -> None:
    """Allow these values of a column, and no others."""
    op.drop_constraint(op.f(constraint), table, type_="check")
    allowed = ", ".join(f"'{value}'" for value in values)
    op.create_check_constraint(op.f(constraint), table, f"{column} IN ({allowed})")
