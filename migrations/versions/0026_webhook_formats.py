"""webhooks: in which format the messages are, and how many are mail"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0026"
down_revision: str | None = "0025"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("webhooks", sa.Column("format", sa.String(length=16), server_default="hora", nullable=False))
    op.create_table(
        "mail_hours",
        sa.Column("owner", sa.String(length=128), nullable=False),
        sa.Column("hour", sa.DateTime(timezone=True), nullable=False),
        sa.Column("mails", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "hour", name=op.f("pk_mail_hours")),
    )


def downgrade() -> None:
    # Code before this would send them Hora's own JSON, which their receivers refuse, or cannot read their address.
    op.execute("UPDATE webhooks SET disabled_at = now() WHERE format <> 'hora' AND disabled_at IS NULL")
    op.drop_table("mail_hours")
    op.drop_column("webhooks", "format")
