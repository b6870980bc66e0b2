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
from jobs.db.engine import Sessions, engine_for, sessions_for
from jobs.db.tables import Attempt, Job, JobEvent, Slot
from jobs.scheduling.registration import SlotInfo, register
from tests.waiting import until

SPEC = {"dataset": "digits", "batch_size": 64, "learning_rate": 0.001, "gpus": 1, "device": "gpu"}
CLIENTS, JOBS = 8, 200


class Broker:
    """A broker that the test starts and kills."""

    def __init__(self, socket: Path) -> None:
        self.url = f"redis+socket://{socket}"
        self._part = broker(socket)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._part.argv, env=dict(self._part.environment), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until(self._part.is_ready, what="the broker")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def own_broker(short_folder: Path) -> Iterator[Broker]:
    """A broker outside the stack, running."""
    own = Broker(short_folder / "broker.sock")
    own.start()
    yield own
    own.kill()


@pytest.fixture
def busy(short_folder: Path, own_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    """A stack on that broker."""
    monkeypatch.setenv("HORA_BROKER_URL", own_broker.url)
    monkeypatch.setenv("HORA_HOST_TIMEOUT_S", "3600")  # nobody sends heartbeats for the host that is only rows
    monkeypatch.setenv("HORA_LEASE_S", "3600")  # and nobody claims its attempts
    with Stack(short_folder / "home", port=0, slots=1, embedded=False, parts=_ALL_BUT_BROKER) as stack:
        yield stack


_ALL_BUT_BROKER = ("database", "migrations", "api", "worker")


@pytest.fixture
def sessions(busy: Stack) -> Iterator[Sessions]:
    """The stack's database, with two hundred slots in it."""
    engine = engine_for(busy.database_url)
    sessions = sessions_for(engine)
    with sessions.begin() as session:
        register(session, "rows", {}, [SlotInfo(index, "gpu", "row", f"GPU-{index}") for index in range(JOBS)])
    yield sessions
    engine.dispose()


def test_two_hundred_submissions_from_eight_clients_are_each_dispatched_once(
    busy: Stack, own_broker: Broker, sessions: Sessions
) -> None:
    with Service(busy.url, busy.token) as client, ThreadPoolExecutor(CLIENTS) as clients:

        def submit(number: int) -> str:
            return str(client.submit({**SPEC, "name": f"n{number}"})["id"])

        job_ids = list(clients.map(submit, range(JOBS // 2)))
        own_broker.kill()
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
