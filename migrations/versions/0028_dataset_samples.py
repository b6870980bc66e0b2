"""samples of the images of datasets"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0028"
down_revision: str | None = "0027"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "dataset_samples",
        sa.Column("version_id", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("png", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["version_id"], ["dataset_versions.id"], ondelete="CASCADE",
            name=op.f("fk_dataset_samples_version_id_dataset_versions"),
        ),
        sa.PrimaryKeyConstraint("version_id", "number", name=op.f("pk_dataset_samples")),
    )  # fmt: skip


def downgrade() -> None:
    op.drop_table("dataset_samples")
