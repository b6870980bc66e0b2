"""Archives of the code that people send. Their bytes are in the database, so that every host can get them."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, LargeBinary, String, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from jobs.db.tables.base import Base


class CodeArchive(Base):
    """An archive, stored once however often it is sent. Jobs name it by its digest."""

    __tablename__ = "code_archives"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)  # SHA-256 of its bytes, in hex
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    unpacked_bytes: Mapped[int] = mapped_column(BigInteger)
    # [{"path", "size_bytes", "sha256"}], sorted by path
    files: Mapped[list[Any]] = mapped_column(JSONB, deferred=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    used_at: Mapped[datetime] = mapped_column(server_default=func.now())  # when it was last sent or named by a job

    __table_args__ = (Index("ix_code_archives_used", used_at),)


class CodeSender(Base):
    """Who sent an archive: they may read it and submit jobs with it, beside everybody who may see a job with it."""

    __tablename__ = "code_senders"

    digest: Mapped[str] = mapped_column(ForeignKey("code_archives.digest", ondelete="CASCADE"), primary_key=True)
    owner: Mapped[str] = mapped_column(String(128), primary_key=True)
    sent_at: Mapped[datetime] = mapped_column(server_default=func.now())


class CodePiece(Base):
    """A piece of an archive's bytes. The pieces are numbered from 0."""

    __tablename__ = "code_pieces"

    digest: Mapped[str] = mapped_column(ForeignKey("code_archives.digest", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    content: Mapped[bytes] = mapped_column(LargeBinary)
