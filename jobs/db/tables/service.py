"""What the service keeps about itself."""

from datetime import datetime

from sqlalchemy import Boolean, CheckConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column

from jobs.db.tables.base import Base


class SigningKey(Base):
    """The secret that signs cursors and ids of events: one row. See `jobs.db.signing`."""

    __tablename__ = "signing_key"

    is_only: Mapped[bool] = mapped_column(Boolean, primary_key=True, server_default=text("true"))
    key: Mapped[bytes]

    __table_args__ = (CheckConstraint("is_only", name="is_only"),)


class MarkedStore(Base):
    """A store that was used: it must have its mark from then on. See `jobs.copies.marks`."""

    __tablename__ = "marked_stores"

    url: Mapped[str] = mapped_column(primary_key=True)
    marked_at: Mapped[datetime] = mapped_column(server_default=func.now())
    tidied_at: Mapped[datetime | None]  # when a host last began to look for what is kept there no more
