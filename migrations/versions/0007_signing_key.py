"""the key that signs cursors"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "signing_key",
        sa.Column("is_only", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("is_only", name=op.f("ck_signing_key_is_only")),
        sa.PrimaryKeyConstraint("is_only", name=op.f("pk_signing_key")),
    )
    # The database makes it, so that it is in no statement and in no log. Two random UUIDs have 244 random bits.
    op.execute(
        "INSERT INTO signing_key (key) SELECT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))"
    )


def downgrade() -> None:
    op.drop_table("signing_key")
