"""The validation of new dataset versions: which host does it, and the result. Called by `worker.datasets.validator`.

One host at a time works on a version. It claims the row for some time, renews the claim while it works, and writes to
the version only while the claim is valid. If the host dies, another one tries. From the third try on, a
failure is the last one. There are rests between tries, because what made one fail may be over soon. A try whose worker
died says less about the data: it ends nothing before the tenth.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, exists, func, or_, select, update
from sqlalchemy.dialects.postgresql import array
from sqlalchemy.orm import Session

from jobs.db.storable import storable
from jobs.db.tables import DatasetVersion, Host, Job, Upload
from jobs.lifecycle.dataset_refs import trains_on_version
from jobs.model.states import TERMINAL
from jobs.scheduling.placement_rows import is_alive

MOST_ATTEMPTS = 3
_MOST_CLAIMS = 10  # with those whose worker died
CLAIM_S = 60.0  # a claim lasts so long, unless it is renewed
_WITHOUT_RESULT = " tries to validate it ended without a result: see the logs of the workers"
_REST_S = 5.0  # after the first failed try; twice as long after the second. Less than a claim lasts


@dataclass(frozen=True)
class Archive:
    """The upload from which a version is made."""

    id: str
    filename: str
    size_bytes: int
    sha256: str | None
    in_store: bool


def archive_of(upload: Upload) -> Archive:
    """What is needed to unpack an upload."""
    return Archive(upload.id, upload.filename, upload.size_bytes, upload.sha256, upload.in_store)


@dataclass(frozen=True)
class Claim:
    """The right to validate a version: its row, and the number of this try."""

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


def some_are_open() -> ColumnElement[bool]:
    """Whether there are versions that some host may claim or refuse, as SQL."""
    return exists().where(_OPEN)


def claim(session: Session, host: str, *, for_s: float, left_ids: Collection[int] = ()) -> Claim | None:
    """Claim the next version that no host works on and whose files this host may have. None if there is none.

    The versions of `left_ids` are left to others.
    """
    row = session.scalar(
        select(DatasetVersion)
        .where(_OPEN, ~_unseen_by(host), DatasetVersion.id.not_in(left_ids))
        .order_by(DatasetVersion.id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    if row is None:
        return None
    row.claimed_by, row.claimed_until = host, func.now() + timedelta(seconds=for_s)
    row.attempts += 1
    row.error = None
    session.flush()
    upload = session.get(Upload, row.upload_id) if row.upload_id is not None else None
    archive = archive_of(upload) if upload is not None else None
    return Claim(row.id, row.name, row.version, row.source, row.options, archive, host, row.attempts)


def renew(session: Session, held: Claim, *, for_s: float) -> bool:
    """Extend a claim. Returns False if it is lost, or if the version was removed."""
    return _write(session, held, claimed_until=func.now() + timedelta(seconds=for_s))


def settle(
    session: Session,
    claim: Claim,
    *,
    error: str | None = None,
    facts: dict[str, Any] | None = None,
    fingerprint: str | None = None,
    source: str | None = None,
) -> bool:
    """Store the result: ready with its facts, or invalid with an error. Returns False if the claim is lost."""
    status = "invalid" if error is not None else "ready"
    values = storable({"status": status, "error": error, "facts": facts, "fingerprint": fingerprint})
    return _write(
        session, claim, **values, source=source or claim.source, validated_at=func.now(), claimed_by=None,
        claimed_until=None,
    )  # fmt: skip


def release(
    session: Session, claim: Claim, *, unseen: bool = False, counts: bool = False, error: str | None = None
) -> bool:
    """Release a claim without a result: this host has no such files, shuts down, or failed (a failure `counts`).

    `error` says why the version waits. From the third try on, a failure makes it invalid. Returns False if the claim
    is lost.
    """
    query = select(DatasetVersion).where(*_is_claimed(claim)).with_for_update()
    row = session.scalar(query, execution_options={"populate_existing": True})
    if row is None:
        return False
    row.claimed_by = row.claimed_until = None
    row.error = error
    if not counts:
        row.attempts -= 1
    elif row.attempts < MOST_ATTEMPTS:
        row.claimed_until = func.now() + timedelta(seconds=_REST_S * row.attempts)
    else:
        row.status, row.validated_at, row.error = "invalid", func.now(), f"{row.attempts}{_WITHOUT_RESULT}"
    row.revision += row.error is not None
    if unseen:
        row.unseen_by = [*row.unseen_by, claim.host]
    session.flush()
    return True


def wait(session: Session, host: str, why: str) -> None:
    """Say of the versions that this host could claim why they wait, where nothing is said yet."""
    session.execute(
        update(DatasetVersion)
        .where(_OPEN, ~_unseen_by(host), DatasetVersion.error.is_(None))
        .values(error=why, revision=DatasetVersion.revision + 1),
        execution_options={"synchronize_session": False},
    )


def refuse_unseen(session: Session, *, host_timeout_s: float) -> list[str]:
    """Make versions invalid if no live host has found their files. Returns their names."""
    alive = select(Host.name).where(is_alive(host_timeout_s))
    host_left = alive.where(~DatasetVersion.unseen_by.contains(array([Host.name]))).exists()
    seen_by_none = func.cardinality(DatasetVersion.unseen_by) > 0
    rows = session.scalars(select(DatasetVersion).where(_OPEN, seen_by_none, ~host_left).with_for_update()).all()
    for row in rows:
        hosts = ", ".join(row.unseen_by)
        row.status, row.validated_at = "invalid", func.now()
        upload = session.get(Upload, row.upload_id) if row.upload_id is not None else None
        if upload is not None and upload.in_store:
            row.error = f"its files are in the store, and no host has HORA_STORE ({hosts})"
        elif upload is not None:
            row.error = f"no host has its files below HORA_DATASETS_DIR: do the api and the hosts share it? ({hosts})"
        else:
            row.error = f"no host has {row.source!r} below its data roots ({hosts})"
        row.revision += 1
    session.flush()
    return [f"{row.name}@{row.version}" for row in rows]


def refuse_hopeless(session: Session) -> list[str]:
    """Make versions invalid whose claims were lost too often. Returns their names."""
    rows = session.execute(
        update(DatasetVersion)
        .where(_EXHAUSTED)
        .values(
            status="invalid", validated_at=func.now(), revision=DatasetVersion.revision + 1,
            error=func.concat(DatasetVersion.attempts, _WITHOUT_RESULT),
        )
        .returning(DatasetVersion.name, DatasetVersion.version),
        execution_options={"synchronize_session": False},
    )  # fmt: skip
    return [f"{name}@{version}" for name, version in rows]


def removable(session: Session, name: str, versions: list[int]) -> list[int]:
    """Those versions of a name whose unpacked files no job needs. Unknown versions are left out."""
    over = or_(DatasetVersion.deleted_at.is_not(None), DatasetVersion.status == "invalid")
    trains = select(Job.id).where(Job.status.not_in(TERMINAL), trains_on_version()).exists()
    among = (DatasetVersion.name == name, DatasetVersion.version.in_(versions), DatasetVersion.upload_id.is_not(None))
    return list(session.scalars(select(DatasetVersion.version).where(*among, over, ~trains)))


def abandoned(session: Session, ids: list[int]) -> list[int]:
    """Those of the versions that no host is unpacking any more. Unknown ids are left out."""
    return list(session.scalars(select(DatasetVersion.id).where(DatasetVersion.id.in_(ids), _IS_FREE)))


def _write(session: Session, claim: Claim, **values: Any) -> bool:
    version_id = session.scalar(
        update(DatasetVersion)
        .where(*_is_claimed(claim))
        .values(**values, revision=DatasetVersion.revision + 1)
        .returning(DatasetVersion.id),
        execution_options={"synchronize_session": False},
    )
    return version_id is not None


def _is_claimed(held: Claim) -> tuple[ColumnElement[bool], ...]:
    return (
        DatasetVersion.id == held.id, DatasetVersion.claimed_by == held.host, DatasetVersion.attempts == held.attempt,
        DatasetVersion.status == "validating", DatasetVersion.deleted_at.is_(None),
    )  # fmt: skip


def _unseen_by(host: str) -> ColumnElement[bool]:
    return DatasetVersion.unseen_by.contains([host])


# No claim and no rest reaches so far into the future, unless the clock was set back after it.
_IS_FREE = or_(
    DatasetVersion.claimed_until.is_(None),
    DatasetVersion.claimed_until <= func.now(),
    DatasetVersion.claimed_until > func.now() + timedelta(seconds=2 * CLAIM_S),
)
_OPEN = (DatasetVersion.status == "validating") & DatasetVersion.deleted_at.is_(None) & _IS_FREE
_EXHAUSTED = _OPEN & (DatasetVersion.attempts >= _MOST_CLAIMS)
