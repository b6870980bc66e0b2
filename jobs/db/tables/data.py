"""Registered datasets, and uploads that become datasets."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Identity,
    Index,
    String,
    UniqueConstraint,
    false,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, mapped_column

from jobs.db.tables.base import Base


class DatasetVersion(Base):
    """One version of a registered dataset. A spec names it `name@version`; `name` is the newest ready version."""

    __tablename__ = "dataset_versions"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    name: Mapped[str] = mapped_column(String(64))
    version: Mapped[int] = mapped_column()  # from 1
    source: Mapped[str]  # a path below the data roots, or a URL; for an upload, its path in `settings.datasets_dir`
    description: Mapped[str] = mapped_column(server_default="")
    options: Mapped[dict[str, Any]]  # fields of `DatasetSpec`, as registered: format, label, text and others
    status: Mapped[str] = mapped_column(String(16), server_default="validating")
    error: Mapped[str | None]  # why it is invalid, in a sentence
    # What validation found: `jobs.views.data.DatasetFacts`.
    facts: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    fingerprint: Mapped[str | None] = mapped_column(String(64))
    upload_id: Mapped[str | None] = mapped_column(ForeignKey("uploads.id"))
    created_by: Mapped[str] = mapped_column(String(128))
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    validated_at: Mapped[datetime | None]
    claimed_by: Mapped[str | None] = mapped_column(String(255))  # the host that validates it
    claimed_until: Mapped[datetime | None]
    attempts: Mapped[int] = mapped_column(server_default="0")  # validations that began
    unseen_by: Mapped[list[str]] = mapped_column(ARRAY(String(255)), server_default="{}")  # hosts without its files
    idempotency_key: Mapped[str | None] = mapped_column(
        String(255)
    )  # of the request that registered it, by `created_by`
    request_sha256: Mapped[str | None] = mapped_column(String(64))
    deleted_at: Mapped[datetime | None]  # not in the list any more; past jobs still name it
    revision: Mapped[int] = mapped_column(BigInteger, server_default="1")

    __table_args__ = (
        UniqueConstraint(name, version),
        UniqueConstraint(created_by, idempotency_key),
        CheckConstraint("status IN ('validating', 'ready', 'invalid')", name="status"),
        Index("ix_dataset_versions_newest", name, version.desc()),
        Index("ix_dataset_versions_upload", upload_id, postgresql_where=text("upload_id IS NOT NULL")),
    )


class DatasetSample(Base):
    """A small image of a version of a dataset. Versions that were validated by earlier versions of Hora have none."""

    __tablename__ = "dataset_samples"

    version_id: Mapped[int] = mapped_column(ForeignKey("dataset_versions.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)  # from 0
    label: Mapped[str]  # its class, or the numbers to learn
    png: Mapped[bytes]


class Upload(Base):
    """An archive that arrives in pieces. Its bytes are in the store, or below `settings.datasets_dir`."""

    __tablename__ = "uploads"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    filename: Mapped[str] = mapped_column(String(255))
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    received_bytes: Mapped[int] = mapped_column(BigInteger, server_default="0")
    sha256: Mapped[str | None] = mapped_column(String(64))  # as the sender stated it
    owner: Mapped[str] = mapped_column(String(128))
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    touched_at: Mapped[datetime] = mapped_column(server_default=func.now())
    completed_at: Mapped[datetime | None]
    # It became a dataset or code, was deleted, or was not touched for too long. Bytes below the folder are removed
    # then, and pieces in the store as soon as no dataset needs them.
    removed_at: Mapped[datetime | None]
    in_store: Mapped[bool] = mapped_column(server_default=false())

    __table_args__ = (Index("ix_uploads_open", owner, created_at, postgresql_where=text("removed_at IS NULL")),)


class UploadPiece(Base):
    """A piece of an upload in the store. Hosts make a dataset from the pieces, so they stay as long as it does."""

    __tablename__ = "upload_pieces"

    upload_id: Mapped[str] = mapped_column(ForeignKey("uploads.id", ondelete="CASCADE"), primary_key=True)
    start: Mapped[int] = mapped_column(BigInteger, primary_key=True)  # its first byte in the archive
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str] = mapped_column(String(64))


class HostDataset(Base):
    """A version on the disk of a host, which fetches it from the store."""

    __tablename__ = "host_datasets"

    host: Mapped[str] = mapped_column(ForeignKey("hosts.name", ondelete="CASCADE"), primary_key=True)
    version_id: Mapped[int] = mapped_column(ForeignKey("dataset_versions.id"), primary_key=True)
    ready_at: Mapped[datetime | None]
    moved_at: Mapped[datetime] = mapped_column(server_default=func.now())  # when it last came closer to that
    failed_for: Mapped[str | None] = mapped_column(String(32))  # an `EndReason`, if the last try failed for good
    error: Mapped[str | None]  # why the last try failed, in a sentence

    __table_args__ = (Index("ix_host_datasets_version_id", version_id),)
