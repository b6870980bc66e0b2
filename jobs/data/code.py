"""The archives of code that people send: stored in pieces, so that every host of the stack can get them.

`jobs.data.code_archives` looks into them. Everybody who may see a job may see its code. An archive that no job names is
for those who sent it.

Every function works in the caller's transaction; the caller commits.

    CodeNotFound     there is no archive with this digest, or the caller may not see it
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, exists, func, insert, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm import InstrumentedAttribute, Session, undefer

from jobs.data.code_archives import CodeFile
from jobs.db.tables import CodeArchive, CodePiece, CodeSender, Job

PIECE_BYTES = 1024 * 1024
MOST_UNUSED = 50  # archives of a user that no job names
_BATCH = 20  # archives that are removed at once


class CodeNotFound(LookupError):
    """There is no archive with this digest, or the caller may not see it."""


@dataclass(frozen=True)
class NewCode:
    """An archive to store, and what is in it."""

    digest: str  # SHA-256 of its bytes, in hex
    size_bytes: int
    files: Sequence[CodeFile]


def store(session: Session, new: NewCode, pieces: Iterable[bytes], *, owner: str) -> bool:
    """Store an archive with its sender. False if it was stored before: then only the sender is new.

    `pieces` are its bytes, in `PIECE_BYTES` each. Of the archives that their sender has not used, the one that was not
    sent for the longest time goes when there are more than `MOST_UNUSED`.
    """
    values = {
        "digest": new.digest,
        "size_bytes": new.size_bytes,
        "unpacked_bytes": sum(file.size_bytes for file in new.files),
        "files": [file._asdict() for file in new.files],
    }
    # One statement decides which of two senders stores the bytes, and keeps retention from an archive that exists.
    sent = upsert(CodeArchive).values(values)
    sent = sent.on_conflict_do_update(index_elements=[CodeArchive.digest], set_={"used_at": func.now()})
    is_new = session.execute(sent.returning(text("(xmax = 0)"))).scalar_one()
    if is_new:
        for number, piece in enumerate(pieces):
            session.execute(insert(CodePiece).values(digest=new.digest, number=number, content=piece))
    sender = upsert(CodeSender).values(digest=new.digest, owner=owner)
    key = [CodeSender.digest, CodeSender.owner]
    session.execute(sender.on_conflict_do_update(index_elements=key, set_={"sent_at": func.now()}))
    _forget_unused(session, owner)
    return bool(is_new)


def _forget_unused(session: Session, owner: str) -> None:
    """Keep the newest of the archives that a user sent and that no job names."""
    of_owner = select(CodeSender.digest).where(CodeSender.owner == owner, ~_is_named(CodeSender.digest))
    # `sent_at` is equal for all that one transaction sent, which are at most one.
    old_ones = of_owner.order_by(CodeSender.sent_at.desc(), CodeSender.digest).offset(MOST_UNUSED)
    digests = session.scalars(old_ones).all()
    session.execute(delete(CodeSender).where(CodeSender.owner == owner, CodeSender.digest.in_(digests)))
    of_nobody = ~exists().where(CodeSender.digest == CodeArchive.digest)
    forgotten = select(CodeArchive.digest).where(
        CodeArchive.digest.in_(digests), of_nobody, ~_is_named(CodeArchive.digest)
    )  # fmt: skip
    _remove(session, forgotten.with_for_update(skip_locked=True))


def get_code(session: Session, digest: str, *, user: str, is_admin: bool, with_files: bool = True) -> CodeArchive:
    """An archive that the user may see. Raises `CodeNotFound`."""
    query = select(CodeArchive).where(CodeArchive.digest == digest, *_seen_by(user, is_admin=is_admin))
    archive = session.scalar(query.options(undefer(CodeArchive.files)) if with_files else query)
    if archive is None:
        raise CodeNotFound(digest)
    return archive


def may_use(session: Session, digest: str, *, user: str, is_admin: bool) -> bool:
    """Whether there is an archive that the user may see. If so it stays until the commit."""
    query = select(CodeArchive.digest).where(CodeArchive.digest == digest, *_seen_by(user, is_admin=is_admin))
    return session.scalar(query.with_for_update(read=True, key_share=True)) is not None


def mark_used(session: Session, digests: Iterable[str]) -> None:
    """Store that jobs were submitted with these archives. Retention looks at the time, so it does not miss the jobs."""
    for digest in sorted(digests):  # two submissions lock their archives in one sequence
        session.execute(update(CodeArchive).where(CodeArchive.digest == digest).values(used_at=func.now()))


def pieces_of(session: Session, digest: str) -> Iterator[bytes]:
    """The bytes of an archive, piece by piece. Raises `CodeNotFound`."""
    if session.get(CodeArchive, digest) is None:
        raise CodeNotFound(digest)
    query = select(CodePiece.content).where(CodePiece.digest == digest).order_by(CodePiece.number)
    yield from session.scalars(query.execution_options(yield_per=1))


def piece_of(session: Session, digest: str, number: int) -> bytes:
    """One piece of an archive, counted from 0. Raises `CodeNotFound`."""
    piece = session.scalar(select(CodePiece.content).where(CodePiece.digest == digest, CodePiece.number == number))
    if piece is None:
        raise CodeNotFound(digest)
    return piece


def runs_code(session: Session, subject_id: str) -> bool:
    """Whether a job, or a job of a study, is a script."""
    of_subject = or_(Job.id == subject_id, Job.study_id == subject_id)
    return bool(session.scalar(select(exists().where(of_subject, Job.code.is_not(None)))))


def remove_unused(session: Session, *, keep_days: float) -> bool:
    """Remove archives that no job names and that were not used for `keep_days`. Returns False if none is left."""
    long_ago = CodeArchive.used_at < func.now() - timedelta(days=keep_days)
    # Whoever submits a job holds a lock on its archive, and marks it as used. So an archive is safe that is locked, or
    # was marked since this statement began: the lock looks at its time again.
    due = select(CodeArchive.digest).where(long_ago, ~_is_named(CodeArchive.digest)).order_by(CodeArchive.used_at)
    return _remove(session, due.limit(_BATCH).with_for_update(skip_locked=True)) == _BATCH


def _remove(session: Session, digests: Select[Any]) -> int:
    """Remove these archives with their pieces and senders. Returns how many there were."""
    due = list(session.scalars(digests))
    session.execute(delete(CodeArchive).where(CodeArchive.digest.in_(due)))
    return len(due)


def _seen_by(user: str, *, is_admin: bool) -> list[ColumnElement[bool]]:
    """The condition for archives that a user may see."""
    is_sender = exists().where(CodeSender.digest == CodeArchive.digest, CodeSender.owner == user)
    return [] if is_admin else [or_(is_sender, _is_named(CodeArchive.digest))]


def _is_named(digest: InstrumentedAttribute[str]) -> ColumnElement[bool]:
    """Whether a job names the archive."""
    return exists().where(Job.code == digest)
