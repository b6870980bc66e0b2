"""webhooks: in which format the messages are"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0026"
down_revision: str | None = "0025"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("webhooks", sa.Column("format", sa.String(length=16), server_default="hora", nullable=False))


def downgrade() -> None:
    # Code before this would send them Hora's own JSON, which their receivers refuse, or cannot read their address.
    op.execute("UPDATE webhooks SET disabled_at = now() WHERE format <> 'hora' AND disabled_at IS NULL")
    op.drop_column("webhooks", "format")
