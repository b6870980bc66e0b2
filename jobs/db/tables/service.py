"""What the service keeps about itself."""

from sqlalchemy import Boolean, CheckConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from jobs.db.tables.base import Base


class SigningKey(Base):
    """The secret that signs cursors and ids of events: one row. See `jobs.db.signing`."""

    __tablename__ = "signing_key"

    is_only: Mapped[bool] = mapped_column(Boolean, primary_key=True, server_default=text("true"))
    key: Mapped[bytes]

    __table_args__ = (CheckConstraint("is_only", name="is_only"),)
