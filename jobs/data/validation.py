"""Who looks at a new version, and what comes of it. Called by `worker.datasets.validator`.

A version is one host's at a time: it claims the row for a while, renews the claim while it works, and every word about
the version is written under the claim. Whoever dies is followed by another, three times.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, func, or_, select, update
from sqlalchemy.dialects.postgresql import array
from sqlalchemy.orm import Session

from jobs.db.storable import storable
from jobs.db.tables import DatasetVersion, Host, Job, Upload
from jobs.model.states import TERMINAL
from jobs.scheduling.placement_rows import is_alive

MOST_ATTEMPTS = 3


@dataclass(frozen=True)
class Archive:
    """The upload that a version is made of."""

    id: str
    filename: str
    size_bytes: int
    sha256: str | None


@dataclass(frozen=True)
class Claim:
    """The right to validate a version: its row, and the number of this attempt at it."""

    id: int
    name: str
    version: int
    source: str
    options: dict[str, Any]
    archive: Archive | None
    host: str
    attempt: int

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


def claim(session: Session, host: str, *, for_s: float) -> Claim | None:
    """Take the next version that nobody is at and that this host may have the files of; None where there is none."""
    row = session.scalar(
        select(DatasetVersion)
        .where(_OPEN, ~_unseen_by(host))
        .order_by(DatasetVersion.id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    if row is None:
        return None
    row.claimed_by, row.claimed_until = host, func.now() + timedelta(seconds=for_s)
    row.attempts += 1
    session.flush()
    upload = session.get(Upload, row.upload_id) if row.upload_id is not None else None
    archive = Archive(upload.id, upload.filename, upload.size_bytes, upload.sha256) if upload is not None else None
    return Claim(row.id, row.name, row.version, row.source, row.options, archive, host, row.attempts)


def renew(session: Session, mine: Claim, *, for_s: float) -> bool:
    """Keep a claim for longer; False where it is lost, or the version was removed."""
    return _write(session, mine, claimed_until=func.now() + timedelta(seconds=for_s))


def settle(
    session: Session,
    mine: Claim,
    *,
    error: str | None = None,
    facts: dict[str, Any] | None = None,
    fingerprint: str | None = None,
    source: str | None = None,
) -> bool:
    """Say what came of a version: ready with its facts, or invalid with why. False where the claim is lost."""
    status = "invalid" if error is not None else "ready"
    values = storable({"status": status, "error": error, "facts": facts, "fingerprint": fingerprint})
    return _write(
        session, mine, **values, source=source or mine.source, validated_at=func.now(), claimed_by=None,
        claimed_until=None,
    )  # fmt: skip


def leave(session: Session, mine: Claim, *, unseen: bool = False, counts: bool = False) -> bool:
    """Leave a version to others: this host does not see its files, or is about to stop, or failed (that `counts`)."""
    row = select(DatasetVersion).where(*_held(mine)).with_for_update()
    found = session.scalar(row, execution_options={"populate_existing": True})
    if found is None:
        return False
    found.claimed_by = found.claimed_until = None
    found.attempts -= not counts
    if unseen:
        found.unseen_by = [*found.unseen_by, mine.host]
    session.flush()
    return True


def refuse_unseen(session: Session, *, host_timeout_s: float) -> list[str]:
    """Make invalid what every living host has looked for in vain; says which."""
    alive = select(Host.name).where(is_alive(host_timeout_s))
    somebody_may = alive.where(~DatasetVersion.unseen_by.contains(array([Host.name]))).exists()
    seen_by_none = func.cardinality(DatasetVersion.unseen_by) > 0
    rows = session.scalars(select(DatasetVersion).where(_OPEN, seen_by_none, ~somebody_may).with_for_update()).all()
    for row in rows:
        hosts = ", ".join(row.unseen_by)
        row.status, row.validated_at = "invalid", func.now()
        row.error = f"{row.source!r} is on none of the hosts below their data roots ({hosts})"
        row.revision += 1
    session.flush()
    return [f"{row.name}@{row.version}" for row in rows]


def refuse_hopeless(session: Session) -> list[str]:
    """Make invalid what nobody could come to the end of; says which."""
    rows = session.execute(
        update(DatasetVersion)
        .where(_EXHAUSTED)
        .values(
            status="invalid", validated_at=func.now(), revision=DatasetVersion.revision + 1,
            error=f"looking at it ended {MOST_ATTEMPTS} times without a word: the logs of the workers may say why",
        )
        .returning(DatasetVersion.name, DatasetVersion.version),
        execution_options={"synchronize_session": False},
    )  # fmt: skip
    return [f"{name}@{version}" for name, version in rows]


def removable(session: Session, name: str, versions: list[int]) -> list[int]:
    """Those versions of a name whose unpacked files nothing needs; one that is not known is none of them."""
    over = or_(DatasetVersion.deleted_at.is_not(None), DatasetVersion.status == "invalid")
    this = func.jsonb_build_object("name", DatasetVersion.name, "version", DatasetVersion.version)
    trains = select(Job.id).where(Job.status.not_in(TERMINAL), Job.dataset_ref.contains(this)).exists()
    known = (DatasetVersion.name == name, DatasetVersion.version.in_(versions), DatasetVersion.upload_id.is_not(None))
    return list(session.scalars(select(DatasetVersion.version).where(*known, over, ~trains)))


def abandoned(session: Session, ids: list[int]) -> list[int]:
    """Those of the versions that nobody is unpacking any more; one that is not known is none of them."""
    at_work = and_(DatasetVersion.claimed_until.is_not(None), DatasetVersion.claimed_until > func.now())
    return list(session.scalars(select(DatasetVersion.id).where(DatasetVersion.id.in_(ids), ~at_work)))


def _write(session: Session, mine: Claim, **values: Any) -> bool:
    written = session.scalar(
        update(DatasetVersion)
        .where(*_held(mine))
        .values(**values, revision=DatasetVersion.revision + 1)
        .returning(DatasetVersion.id),
        execution_options={"synchronize_session": False},
    )
    return written is not None


def _held(mine: Claim) -> tuple[ColumnElement[bool], ...]:
    return (
        DatasetVersion.id == mine.id, DatasetVersion.claimed_by == mine.host, DatasetVersion.attempts == mine.attempt,
        DatasetVersion.status == "validating", DatasetVersion.deleted_at.is_(None),
    )  # fmt: skip


def _unseen_by(host: str) -> ColumnElement[bool]:
    return DatasetVersion.unseen_by.contains([host])


_OPEN = (
    (DatasetVersion.status == "validating")
    & DatasetVersion.deleted_at.is_(None)
    & or_(DatasetVersion.claimed_until.is_(None), DatasetVersion.claimed_until < func.now())
)
_EXHAUSTED = _OPEN & (DatasetVersion.attempts >= MOST_ATTEMPTS)
