"""uploads in the store, and which hosts have the datasets that are made from them"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0012"
down_revision: str | None = "0011"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_KINDS = [
    "submitted", "placed", "launched", "rank_started", "first_step", "epoch_ended", "checkpoint_saved", "attempt_ended",
    "requeued", "cancel_requested", "pause_requested", "resumed", "preempt_requested", "ended", "checkpoint_skipped",
    "out_of_space", "checkpoint_copied", "checkpoint_fetched", "copies_behind",
]  # fmt: skip
_NEW_KIND = "waits_for_files"


def upgrade() -> None:
    op.add_column("uploads", sa.Column("in_store", sa.Boolean(), server_default=sa.text("false"), nullable=False))
    op.create_table(
        "upload_pieces",
        sa.Column("upload_id", sa.String(length=32), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["upload_id"], ["uploads.id"], name=op.f("fk_upload_pieces_upload_id_uploads"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("upload_id", "start", name=op.f("pk_upload_pieces")),
    )
    op.create_table(
        "host_datasets",
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("version_id", sa.BigInteger(), nullable=False),
        sa.Column("ready_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("moved_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("failed_for", sa.String(length=32), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["host"], ["hosts.name"], name=op.f("fk_host_datasets_host_hosts"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["version_id"], ["dataset_versions.id"], name=op.f("fk_host_datasets_version_id_dataset_versions")
        ),
        sa.PrimaryKeyConstraint("host", "version_id", name=op.f("pk_host_datasets")),
    )
    op.create_index("ix_host_datasets_version_id", "host_datasets", ["version_id"])
    _check_kinds([*_KINDS, _NEW_KIND])


def downgrade() -> None:
    kind = sa.column("kind", sa.Text())
    op.execute(sa.delete(sa.table("job_events", kind)).where(kind == _NEW_KIND))
    _check_kinds(_KINDS)
    op.drop_table("host_datasets")
    op.drop_table("upload_pieces")
    op.drop_column("uploads", "in_store")


def _check_kinds(kinds: list[str]) -> None:
    """Allow these kinds of events, and no others."""
    op.drop_constraint(op.f("ck_job_events_eventkind"), "job_events", type_="check")
    allowed = ", ".join(f"'{kind}'" for kind in kinds)
    op.create_check_constraint(op.f("ck_job_events_eventkind"), "job_events", f"kind IN ({allowed})")
