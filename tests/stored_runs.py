"""Jobs that ended, stored by the code that supervisors use and trained by nobody: for tests of what reads them."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jobs.db.engine import Sessions, engine_for, sessions_for
from jobs.intake.intake import Intake
from jobs.lifecycle import leases
from jobs.model.records import RankExited, RankStarted, Reported, rank_records_name
from jobs.model.states import EndReason
from tests.code import store_code
from tests.integration.jobs import job_rows
from worker.attempt.paths import paths_of

HOST = "ha"


@contextmanager
def sessions_on(database_url: str) -> Iterator[Sessions]:
    """Sessions on a database, such as that of a stack, whose connections are closed at the end."""
    engine = engine_for(database_url)
    try:
        yield sessions_for(engine)
    finally:
        engine.dispose()


def ended_script(
    sessions: Sessions, home: Path, steps: Iterable[Mapping[str, float]], *, owner: str = "admin", **fields: Any
) -> str:
    """A script of one rank that reported these metrics at the steps 1, 2 and so on. Returns the job's id.

    `home` is that of the api. The host `HOST` must have a free slot with the index 0 (`job_rows.a_host`).
    """
    script = {"code": store_code(sessions, owner=owner), "command": ["python", "train.py"], "gpus": 1}
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, owner=owner, **script, **fields), slots=(0,))
    with sessions.begin() as session:
        leases.claim(session, lease.attempt_id, lease_s=60)
    paths = paths_of(home / "runs", lease.job_id, lease.number)
    paths.create()
    records = [
        RankStarted(at=0.0, rank=0, local_rank=0, host=HOST, pid=1),
        *(Reported(at=float(step), step=step, metrics=dict(metrics)) for step, metrics in enumerate(steps, 1)),
        RankExited(at=0.0, reason=EndReason.COMPLETED),
    ]
    lines = (record.model_dump_json() + "\n" for record in records)
    (paths.records / rank_records_name(0)).write_text("".join(lines))
    Intake(sessions, lease, paths, ranks=1).drain()
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.COMPLETED)
        leases.release(session, lease.attempt_id)
    return lease.job_id
