"""Archives of code as rows: which are removed, and that none is removed under a job."""

import os
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from sqlalchemy import func, select, text, update

from jobs.data import code
from jobs.db.engine import Sessions
from jobs.db.tables import CodeArchive, CodePiece, CodeSender
from jobs.lifecycle import retention
from jobs.lifecycle.submission import write_job
from jobs.model.plan import resolve_plan
from jobs.model.spec import spec_from
from tests.code import archive_of, store_code
from tests.integration.jobs import job_rows
from tests.integration.jobs.code_rows import an_archive
from tests.integration.jobs.writing import change, write
from tests.waiting import until


def unused_for(sessions: Sessions, days: float, name: str = "a") -> str:
    """An archive that was last used so many days ago; its digest."""
    digest = store_code(sessions, {f"{name}.py": ""})
    with sessions.begin() as session:
        at = func.now() - timedelta(days=days)
        session.execute(update(CodeArchive).where(CodeArchive.digest == digest).values(used_at=at))
    return digest


def submit(sessions: Sessions, digest: str) -> None:
    """A job with this code."""
    spec = spec_from({"code": digest, "command": ["python", "a.py"]})
    with sessions.begin() as session:
        code.mark_used(session, [digest])
        write_job(session, spec=spec, plan=resolve_plan(spec, None), owner="alice")


def remove_unused(sessions: Sessions) -> bool:
    with sessions.begin() as session:
        assert retention.take_lock(session)
        return code.remove_unused(session, keep_days=30)


def left(sessions: Sessions) -> set[str]:
    with sessions() as session:
        return set(session.scalars(select(CodeArchive.digest)))


def test_archives_that_no_job_names_are_removed_some_days_after_their_last_use(sessions: Sessions) -> None:
    named, old, recent = (unused_for(sessions, days, name) for days, name in ((31, "a"), (31, "b"), (29, "c")))
    submit(sessions, named)
    change(sessions, update(CodeArchive).where(CodeArchive.digest == named).values(used_at=text("'2020-01-01'")))
    assert not remove_unused(sessions)
    assert left(sessions) == {named, recent}
    with sessions() as session:
        for table in (CodePiece, CodeSender):
            assert session.scalar(select(func.count()).where(table.digest == old)) == 0


def test_archives_are_removed_in_batches(sessions: Sessions) -> None:
    for number in range(21):
        unused_for(sessions, 40, str(number))
    assert [remove_unused(sessions) for _ in range(2)] == [True, False]
    assert left(sessions) == set()


def test_archive_stays_whole_while_a_job_is_submitted_with_it_and_when_it_is_sent_again(sessions: Sessions) -> None:
    digest = unused_for(sessions, 31)
    with sessions.begin() as session:
        assert code.may_use(session, digest, user="admin", is_admin=False)
        assert not remove_unused(sessions)
    assert left(sessions) == {digest}
    assert store_code(sessions, {"a.py": ""}) == digest
    assert not remove_unused(sessions)
    assert left(sessions) == {digest}
    with sessions() as session:
        pieces = b"".join(code.pieces_of(session, digest))
        assert pieces == archive_of({"a.py": ""}) == code.piece_of(session, digest, 0)


def test_pieces_of_an_archive_come_in_their_sequence(sessions: Sessions) -> None:
    content = os.urandom(250_000)
    digest = an_archive(sessions, content)
    with sessions() as session:
        pieces = list(code.pieces_of(session, digest))
    assert (len(pieces), b"".join(pieces)) == (3, content)


def test_job_that_comes_while_its_archive_is_removed_finds_none(sessions: Sessions) -> None:
    digest = unused_for(sessions, 31)

    def may_use() -> bool:
        return write(sessions, code.may_use, digest, user="admin", is_admin=False)

    with ThreadPoolExecutor(1) as pool:
        with sessions.begin() as session:
            code.remove_unused(session, keep_days=30)
            answer = pool.submit(may_use)
            until(lambda: job_rows.waiting_for_locks(sessions), what="a submission that waits")
        assert answer.result() is False
