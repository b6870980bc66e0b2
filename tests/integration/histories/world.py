"""Hosts, agents and supervisors without processes. They make the calls of the real ones, in the same sequence.

`worker.dispatcher.Dispatcher` is the real one. `worker.attempt.launcher`, `worker.attempt.supervision` and
`worker.agent` need processes. So this module repeats in a few lines what each of them does to the rows.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

from sqlalchemy import Connection, Engine, delete, select, update
from sqlalchemy.orm import Session

from jobs.db.engine import Sessions, sessions_for
from jobs.db.tables import Attempt, Host, IdempotencyKey, Job, JobEvent, RunTime, Slot
from jobs.lifecycle import leases, store
from jobs.lifecycle.leases import AbandonedAttempt, StaleLease
from jobs.lifecycle.store import Lease, StaleTransition
from jobs.model.states import EndReason, EventKind
from jobs.runtime.hints import Hints
from jobs.runtime.processes import ProcessId
from jobs.runtime.settings import Settings
from jobs.scheduling import draining, registration
from jobs.scheduling.hosts import HostNotFound
from jobs.scheduling.registration import SlotInfo
from jobs.telemetry import ingest
from tests.integration.histories.clock import START, Clock
from worker.attempt.ending import requested_ending
from worker.dispatcher import Dispatcher

_MODELS = ("A100", "A100", "A100", "H100")  # of the slots by index
_TABLES = (Slot, Host, JobEvent, IdempotencyKey, Attempt, RunTime, Job)


def model_of(index: int) -> str:
    """The model of the GPU with this index, on every host."""
    return _MODELS[index]


class _Hints:
    """Records the hints that hosts would get."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self.launches: list[tuple[int, str]] = []

    def dispatch(self) -> None:
        """Do nothing: the history decides when a pass comes."""

    def launch(self, attempt_id: int, *, host: str) -> None:
        """Record the hint. It comes after the commit: others see the attempt."""
        with self._sessions() as session:
            assert session.get(Attempt, attempt_id), f"attempt {attempt_id} was announced before its commit"
        self.launches.append((attempt_id, host))


@dataclass(eq=False)
class Supervisor:
    """A process that believes it owns an attempt. `is_recorded`: its host's agent knows its pid."""

    lease: Lease
    host: str
    alive: bool = True
    is_recorded: bool = False


@dataclass
class World:
    """One database, and the processes and people around it."""

    engine: Engine
    onlooker: Connection  # in autocommit mode
    settings: Settings
    pool: ThreadPoolExecutor
    clock: Clock = field(init=False)
    sessions: Sessions = field(init=False)
    hints: _Hints = field(init=False)
    supervisors: list[Supervisor] = field(init=False)
    up: dict[str, int] = field(init=False)  # hosts in contact with the database, and how many slots each has
    touched: bool = field(init=False)  # something may have been written since the last look

    def __post_init__(self) -> None:
        self.sessions = sessions_for(self.engine)
        self.clock = Clock(self.engine)
        self.reset()

    def reset(self) -> None:
        """Empty the database, and set the clock to its start."""
        with self.sessions.begin() as session:
            for table in _TABLES:
                session.execute(delete(table))
        self.clock.set(START)
        self.hints, self.supervisors, self.up, self.touched = _Hints(self.sessions), [], {}, True

    @contextmanager
    def begin(self) -> Iterator[Session]:
        """A transaction."""
        self.touched = True
        with self.sessions.begin() as session:
            yield session

    def at_once(self, *actions: Callable[[], object]) -> list[Any]:
        """Run the actions at the same time, each in a thread and a connection of its own."""
        return [future.result(120) for future in [self.pool.submit(action) for action in actions]]

    def register(self, name: str, slots: int) -> None:
        """A host's worker starts or comes back. Its slots are GPUs of two models."""
        free = [SlotInfo(index, "gpu", model_of(index), f"{name}-{index}") for index in range(slots)]
        with self.begin() as session:
            # Hosts that have an address and the same peers hold jobs together.
            registration.register(session, name, {"peers": "all"}, free)
            session.execute(update(Host).where(Host.name == name).values(address=name))
        self.up[name] = slots

    def change_gpu(self, key: tuple[str, int], what: str) -> None:
        """A sampler finds that a GPU is broken, that others compute on it while it is free, or that it is well."""
        values = {"unhealthy": "it is off the bus" if what == "breaks" else None, "in_use_by_others": what == "is used"}
        is_slot = (Slot.host == key[0], Slot.index == key[1])
        free_only = (Slot.attempt_id.is_(None),) if what == "is used" else ()
        with self.begin() as session:
            session.execute(update(Slot).where(*is_slot, *free_only).values(values))

    def keep_alive(self) -> None:
        """Every host in contact sends its heartbeat, every supervisor there renews its lease."""
        with self.begin() as session:
            for name in self.up:
                registration.beat(session, name)
            for supervisor in self.supervisors:
                if supervisor.alive and supervisor.host in self.up:
                    with suppress(StaleLease):
                        leases.renew(session, supervisor.lease, lease_s=self.settings.lease_s)

    def drain(self, name: str, *, on: bool, requeue: bool = False) -> None:
        """An operator drains a host, or undrains it."""
        with suppress(HostNotFound), self.begin() as session:
            if on:
                draining.drain(session, name, requeue=requeue)
            else:
                draining.undrain(session, name)

    def forget(self, name: str) -> None:
        """An operator removes a host."""
        with suppress(draining.HostInUse, HostNotFound), self.begin() as session:
            draining.forget(session, name, host_timeout_s=self.settings.host_timeout_s)

    def ask(self, request: str, job_id: str) -> None:
        """A person asks something of a job. Raises `JobEnded`."""
        ask = {"cancel": store.request_cancel, "pause": store.pause, "resume": store.resume}[request]
        with self.begin() as session:
            ask(session, job_id)

    def dispatch(self) -> None:
        """One pass of a new dispatcher."""
        self.touched = True
        Dispatcher(self.sessions, cast("Hints", self.hints), self.settings).run()

    def claim(self, attempt_id: int, host: str) -> Supervisor | None:
        """Claim an attempt as `Launcher.launch` does. `record_supervisor` stores the supervisor's pid later."""
        with self.begin() as session:
            lease = leases.claim(session, attempt_id, lease_s=self.settings.lease_s)
            if lease is None:
                return None
            if store.get_job(session, lease.job_id).cancel_requested_at is not None:
                self.end_in(session, lease, EndReason.CANCELLED)
                leases.release(session, attempt_id)
                return None
        self.supervisors.append(Supervisor(lease, host))
        return self.supervisors[-1]

    def record_supervisor(self, supervisor: Supervisor) -> None:
        """The launcher stores the id of the process that it started."""
        with self.begin() as session:
            leases.record_supervisor(session, supervisor.lease, ProcessId(supervisor.lease.attempt_id, 1))
        supervisor.is_recorded = True

    def start(self, supervisor: Supervisor) -> None:
        """The first rank is up, as `Intake` stores it. Raises `StaleLease`."""
        event = ingest.event_row(
            supervisor.lease.job_id,
            EventKind.RANK_STARTED,
            at=self.clock.at,
            attempt=supervisor.lease.number,
            data={"rank": 0},
        )
        with self.begin() as session:
            leases.fence(session, supervisor.lease)
            if session.get_one(Attempt, supervisor.lease.attempt_id).started_at is None:
                leases.first_rank_started(session, supervisor.lease, self.clock.at)
                ingest.store_events(session, [event])

    def end(self, supervisor: Supervisor, reason: EndReason, *, clean: bool = True) -> None:
        """End the attempt as `Supervision` does, and give back the slots of its own host. Raises `StaleLease`."""
        supervisor.alive = False
        with self.begin() as session:
            self.end_in(session, supervisor.lease, reason)
            self._give_back(session, supervisor.lease.attempt_id, supervisor.host, clean=clean)

    def requested_end(self, supervisor: Supervisor) -> EndReason | None:
        """The end that a cancel, a pause or a preemption asks of a supervisor. Raises `StaleLease`."""
        with self.sessions() as session:
            ending = requested_ending(leases.stop_requests(session, supervisor.lease))
        return None if ending is None else ending.reason

    def complete(self, supervisor: Supervisor) -> None:
        """Run to the end, or stop if a stop was requested. Raises `StaleLease`."""
        self.start(supervisor)
        self.end(supervisor, self.requested_end(supervisor) or EndReason.COMPLETED)

    def end_in(self, session: Session, lease: Lease, reason: EndReason) -> None:
        """End an attempt. If its lease is valid, the job must accept the end. Raises `StaleLease`."""
        try:
            leases.end(
                session, lease, reason,
                backoff_s=self.settings.restart_backoff_s,
                backoff_limit_s=self.settings.restart_backoff_limit_s,
            )  # fmt: skip
        except StaleTransition as error:
            raise AssertionError(f"the lease is valid, but the job did not change: {error}") from error

    def _give_back(self, session: Session, attempt_id: int, host: str, *, clean: bool) -> None:
        if clean:
            leases.release(session, attempt_id, host=host)
        else:
            leases.quarantine(session, attempt_id, host=host)

    def run_agent(self, host: str, *, clean: bool = True) -> None:
        """One pass of a host's agent over its attempts. `clean`: their processes can be killed."""
        gone = {
            supervisor.lease.attempt_id
            for supervisor in self.supervisors
            if supervisor.is_recorded and not supervisor.alive
        }
        holding = select(Slot.attempt_id).where(Slot.host == host, Slot.attempt_id.is_not(None))
        with self.begin() as session:
            registration.beat(session, host)
            led = select(Attempt).where(Attempt.host == host, Attempt.ended_at.is_(None), Attempt.id.in_(gone))
            unsupervised = session.scalars(led).all()
        for attempt in unsupervised:
            lease = Lease(attempt.id, str(attempt.token), attempt.job_id, attempt.number)
            reason = EndReason.LEASE_EXPIRED if attempt.started_at else EndReason.LAUNCH_FAILED
            with suppress(StaleLease), self.begin() as session:
                self.end_in(session, lease, reason)
        with self.begin() as session:
            ended = session.scalars(select(Attempt.id).where(Attempt.ended_at.is_not(None), Attempt.id.in_(holding)))
            for attempt_id in ended.all():
                self._give_back(session, attempt_id, host, clean=clean)

    def abandoned(self) -> list[AbandonedAttempt]:
        """The attempts that a reaper finds."""
        with self.sessions() as session:
            return leases.abandoned(
                session, host_timeout_s=self.settings.host_timeout_s, claim_timeout_s=self.settings.claim_timeout_s
            )

    def reap(self, abandoned: list[AbandonedAttempt] | None = None) -> None:
        """End abandoned attempts, as every agent does."""
        for attempt in self.abandoned() if abandoned is None else abandoned:
            with suppress(StaleLease), self.begin() as session:
                leases.fence_expired(session, attempt.lease)
                self.end_in(session, attempt.lease, attempt.reason)
