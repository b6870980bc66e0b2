"""Many clients submit at once while the broker dies: no submission is lost and none is dispatched twice.

The host exists only as rows: two hundred GPU slots. The real dispatcher can place two hundred jobs there, and nothing
trains them.
"""

import subprocess
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import func, select

from hora.service import Service
from hora.stack.control import Stack
from hora.stack.parts import broker
from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Job, JobEvent, Slot
from jobs.scheduling.registration import SlotInfo, register
from tests.integration.jobs.writing import write
from tests.stored_runs import sessions_on
from tests.waiting import until

SPEC = {"dataset": "digits", "batch_size": 64, "learning_rate": 0.001, "gpus": 1, "device": "gpu"}
CLIENTS, JOBS = 8, 200


@pytest.fixture
def own_broker(short_folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A broker outside the stack, which nobody starts again: its address and its process."""
    socket = short_folder / "broker.sock"
    part, quiet = broker(socket), subprocess.DEVNULL
    with subprocess.Popen(part.argv, env=dict(part.environment), stdout=quiet, stderr=quiet) as process:
        until(part.is_ready, what="the broker")
        yield f"redis+socket://{socket}", process
        process.kill()


@pytest.fixture
def busy(
    short_folder: Path, own_broker: tuple[str, subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stack]:
    """A stack on that broker."""
    monkeypatch.setenv("HORA_BROKER_URL", own_broker[0])
    monkeypatch.setenv("HORA_HOST_TIMEOUT_S", "3600")  # nobody sends heartbeats for the host that is only rows
    monkeypatch.setenv("HORA_LEASE_S", "3600")  # and nobody claims its attempts
    parts = ("database", "migrations", "api", "worker")
    with Stack(short_folder / "home", port=0, slots=1, embedded=False, parts=parts) as stack:
        yield stack


@pytest.fixture
def sessions(busy: Stack) -> Iterator[Sessions]:
    """The stack's database, with two hundred slots in it."""
    with sessions_on(busy.database_url) as sessions:
        write(sessions, register, "rows", {}, [SlotInfo(at, "gpu", "row", f"GPU-{at}") for at in range(JOBS)])
        yield sessions


def test_two_hundred_submissions_from_eight_clients_are_each_dispatched_once(
    busy: Stack, own_broker: tuple[str, subprocess.Popen[bytes]], sessions: Sessions
) -> None:
    with Service(busy.url, busy.token) as client, ThreadPoolExecutor(CLIENTS) as clients:

        def submit(number: int) -> str:
            return str(client.submit({**SPEC, "name": f"n{number}"})["id"])

        job_ids = list(clients.map(submit, range(JOBS // 2)))
        own_broker[1].kill()
        own_broker[1].wait()
        job_ids += clients.map(submit, range(JOBS // 2, JOBS))

    assert len(set(job_ids)) == JOBS

    def placed() -> bool:
        with sessions() as session:
            return session.scalar(select(func.count()).select_from(Job).where(Job.attempt > 0)) == JOBS

    until(placed, what="the placement of all jobs with the broker away")
    with sessions() as session:
        jobs = session.scalars(select(Job)).all()
        attempts = Counter(session.scalars(select(Attempt.job_id)))
        placements = Counter(session.scalars(select(JobEvent.job_id).where(JobEvent.kind == "placed")))
        slots = session.scalars(select(Slot.attempt_id).where(Slot.host == "rows")).all()
    assert {job.id for job in jobs} == set(job_ids)
    assert attempts == placements == dict.fromkeys(job_ids, 1)
    assert len(set(slots)) == JOBS, "a slot is free or leased twice"
