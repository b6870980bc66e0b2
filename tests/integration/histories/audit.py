"""The checks after every step of a history: of the rows, and of the events that were written with them.

`Audit` makes them. At the end it checks that every job was served.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select

from jobs.db.tables import Attempt, Host, Job, JobEvent, Slot
from jobs.model.spec import Spec
from jobs.model.states import ACTIVE, NEXT, TERMINAL, EventKind, Status
from jobs.scheduling import queue
from tests.integration.histories.world import World, model_of

_JOBS = select(*Job.__table__.columns).order_by(Job.created_at)
_ATTEMPTS = select(*Attempt.__table__.columns).order_by(Attempt.id)
_SLOTS = select(*Slot.__table__.columns).order_by(Slot.host, Slot.index)
_HOSTS = select(*Host.__table__.columns).order_by(Host.name)
_EVENTS = (
    select(JobEvent.id, JobEvent.job_id, JobEvent.kind, JobEvent.attempt, JobEvent.data)
    .where(JobEvent.id > bindparam("after"))
    .order_by(JobEvent.id)
)


@dataclass(frozen=True)
class Rows:
    """All rows except the events, each by its key."""

    now: datetime
    jobs: Mapping[str, Row[Any]]
    attempts: Mapping[int, Row[Any]]
    slots: Mapping[tuple[str, int], Row[Any]]
    hosts: Mapping[str, Row[Any]]

    @property
    def live(self) -> Sequence[Row[Any]]:
        """The attempts that have not ended."""
        return [attempt for attempt in self.attempts.values() if attempt.ended_at is None]

    def attempts_of(self, job_id: str) -> Sequence[Row[Any]]:
        """A job's attempts, first to newest."""
        return [attempt for attempt in self.attempts.values() if attempt.job_id == job_id]

    def held_by(self, attempt_id: int) -> dict[tuple[str, int], int | None]:
        """The slots that an attempt holds, and the rank that each is for."""
        return {key: slot.rank for key, slot in self.slots.items() if slot.attempt_id == attempt_id}

    def is_free(self, key: tuple[str, int]) -> bool:
        """Whether a slot may be leased."""
        slot = self.slots[key]
        taken = slot.attempt_id, slot.quarantined_at, slot.retired_at, slot.unhealthy, self.hosts[slot.host].drained_at
        return set(taken) == {None} and not slot.in_use_by_others


def read_rows(connection: Connection, now: datetime, *, events_after: int) -> tuple[Rows, Sequence[Row[Any]]]:
    """All rows, and the events after the one with this id. The connection must be in autocommit mode."""
    rows = Rows(
        now,
        {row.id: row for row in connection.execute(_JOBS)},
        {row.id: row for row in connection.execute(_ATTEMPTS)},
        {(row.host, row.index): row for row in connection.execute(_SLOTS)},
        {row.name: row for row in connection.execute(_HOSTS)},
    )
    return rows, connection.execute(_EVENTS, {"after": events_after}).all()


def planned_slots(attempt: Row[Any]) -> dict[tuple[str, int], int]:
    """The slots that an attempt was placed on, and the rank of each, by its own row."""
    slots = [(share["host"], index) for share in attempt.shares for index in share["slots"]]
    return {slot: rank for rank, slot in enumerate(slots)}


_ROUNDS = 60  # the limit in which a history of a dozen jobs must come to rest on one slot
_ROUND_S = 400.0  # longer than every back-off and every time-out


def slots_belong_to_one(rows: Rows) -> None:
    """Each leased slot belongs to one attempt that was placed on it. A live attempt holds all of its slots."""
    for key, slot in rows.slots.items():
        if slot.attempt_id is None:
            assert slot.rank is None, f"{key} is free and has a rank"
            assert slot.quarantined_at is None, f"{key} is quarantined without an attempt"
            continue
        attempt = rows.attempts[slot.attempt_id]
        assert planned_slots(attempt).get(key) == slot.rank, f"{key} is leased to {attempt}, which is not placed on it"
        assert slot.quarantined_at is None or attempt.ended_at is not None, f"{key} is quarantined, its attempt is live"
    for attempt in rows.live:
        held = rows.held_by(attempt.id)
        assert held == planned_slots(attempt), f"attempt {attempt.id} holds {held}, was placed on {attempt.shares}"
        assert sorted(held.values()) == list(range(attempt.gpus)), f"attempt {attempt.id} has the ranks {held}"
        assert attempt.host == attempt.shares[0]["host"], f"attempt {attempt.id} has another lead host"


def jobs_agree_with_attempts(rows: Rows) -> None:
    """A launching or running job has one live attempt, its newest. Other jobs have no live attempt."""
    for job in rows.jobs.values():
        attempts = rows.attempts_of(job.id)
        live = [attempt for attempt in attempts if attempt.ended_at is None]
        assert len(live) == (job.status in ACTIVE), f"job {job.id} is {job.status} with {len(live)} live attempts"
        assert [one.number for one in attempts] == list(range(1, job.attempt + 1)), f"job {job.id}: {attempts}"
        assert live == attempts[-1:] or not live, f"job {job.id}: the live attempt is not the newest"


def ends_are_complete(rows: Rows) -> None:
    """A job has an end exactly when it is over. A job with a requested cancel ends as cancelled."""
    for job in rows.jobs.values():
        over = job.status in TERMINAL
        assert (job.ended_at is not None) == (job.end_reason is not None) == over, f"job {job.id} has ended in part"
        if job.cancel_requested_at is not None:
            assert job.status in {*ACTIVE, Status.CANCELLED}, f"job {job.id} is {job.status} after a cancel"
        if over:
            assert job.end_reason.outcome.status is job.status, f"job {job.id} {job.status} for {job.end_reason}"
            attempts = rows.attempts_of(job.id)
            last = attempts[-1].end_reason if attempts and job.cancel_requested_at is None else job.end_reason
            assert job.end_reason is last, f"job {job.id} ended for {job.end_reason}, its attempt for {last}"


def changes_are_legal(before: Rows, after: Rows) -> None:
    """Ended jobs and attempts do not change; every change of a job has a new revision; no row disappears."""
    for job_id, old in before.jobs.items():
        new = after.jobs[job_id]
        if old.status in TERMINAL:
            assert new == old, f"a job that was over changed: {old} to {new}"
        assert new == old or new.revision > old.revision, f"a change without a new revision: {old} to {new}"
        assert (new.created_at, new.gpus) == (old.created_at, old.gpus), f"{old} to {new}"
        assert old.cancel_requested_at in {None, new.cancel_requested_at}, f"a cancel was taken back: {new}"
        assert old.started_at in {None, new.started_at}, f"the first start changed: {new}"
    for attempt_id, old in before.attempts.items():
        new = after.attempts[attempt_id]
        assert new == old or old.ended_at is None, f"an ended attempt changed: {old} to {new}"
        fixed = [(one.token, one.job_id, one.number, one.host, one.shares, one.created_at) for one in (old, new)]
        assert fixed[0] == fixed[1], f"the identity of an attempt changed: {old} to {new}"
        assert old.claimed_at in {None, new.claimed_at}, f"attempt {attempt_id} was claimed twice"


def placements_are_right(before: Rows, after: Rows, specs: Mapping[str, Spec], host_timeout_s: float) -> None:
    """New attempts are of jobs that may be placed, on free slots of hosts that take jobs."""
    new = [attempt for attempt in after.attempts.values() if attempt.id not in before.attempts]
    for attempt in new:
        job, spec = before.jobs[attempt.job_id], specs[attempt.job_id]
        assert may_be_placed(job, before), f"{job} was placed"
        fewest = spec.min_gpus or spec.gpus if job.attempt else spec.gpus
        assert fewest <= attempt.gpus <= spec.gpus, f"job {job.id} got {attempt.gpus} slots"
        if spec.placement == "single_host":
            assert len(attempt.shares) == 1, f"job {job.id} was spread over {attempt.shares}"
        hosts = [share["host"] for share in attempt.shares]
        assert len({len(share["slots"]) for share in attempt.shares}) == 1, f"uneven shares: {attempt.shares}"
        assert len(hosts) == len(set(hosts)), f"two shares on one host: {attempt.shares}"
        for host, index in planned_slots(attempt):
            assert before.is_free((host, index)), f"{job.id} got {before.slots[host, index]}"
            silent = before.now - before.hosts[host].heartbeat_at
            assert silent <= timedelta(seconds=host_timeout_s), f"job {job.id} was placed on a lost host"
        models = {model_of(index) for _, index in planned_slots(attempt)}
        assert len(models) == 1 or spec.mixed_gpus, f"job {job.id} got {models}"
        assert models <= models_for(spec), f"job {job.id} got {models}"


def may_be_placed(job: Row[Any], rows: Rows) -> bool:
    """Whether a job waits only for slots."""
    return (
        job.status is Status.QUEUED
        and job.paused_at is None
        and job.cancel_requested_at is None
        and (job.not_before is None or job.not_before <= rows.now)
    )


def models_for(spec: Spec) -> set[str]:
    """The models of GPUs that a job may take."""
    return {model for model in ("A100", "H100") if spec.gpu_model is None or spec.gpu_model in model}


@dataclass
class Story:
    """The state of a job by its events."""

    status: Status | None = None
    attempt: int = 0
    cancelled: bool = False
    paused: bool = False
    event_counts: Counter[tuple[EventKind, int | None]] = field(default_factory=Counter)
    attempt_ended: bool = True

    def add(self, event: Row[Any]) -> None:
        """Add the next event. The event must be possible in this state."""
        kind: EventKind = event.kind
        wrong = f"{kind} {event.attempt} in the history of a job that is {self}"
        self.event_counts[kind, event.attempt] += 1
        if kind is EventKind.SUBMITTED:
            assert self.status is None, wrong
            self.status = Status.QUEUED
        elif kind is EventKind.PLACED:
            assert self.status is Status.QUEUED, wrong
            assert {self.paused, self.cancelled} == {False}, wrong
            assert event.attempt == self.attempt + 1, wrong
            self.status, self.attempt, self.attempt_ended = Status.LAUNCHING, event.attempt, False
        elif kind is EventKind.CANCEL_REQUESTED:
            assert self.status not in TERMINAL, wrong
            assert not self.cancelled, wrong
            self.cancelled = True
        elif kind in {EventKind.PAUSE_REQUESTED, EventKind.RESUMED}:
            assert self.status not in TERMINAL, wrong
            assert self.paused == (kind is EventKind.RESUMED), wrong
            self.paused = not self.paused
        elif kind in {EventKind.REQUEUED, EventKind.ENDED}:
            assert self.attempt_ended, wrong
            assert self.status not in TERMINAL, wrong
            to = Status.QUEUED if kind is EventKind.REQUEUED else Status(event.data["status"])
            assert self.event_counts[EventKind.REQUEUED, self.attempt] <= 1, wrong
            assert to in NEXT[self.status or Status.QUEUED] or to is Status.SUCCEEDED, wrong
            self.status = to
        else:  # an event of an attempt, which must be the live one
            assert (self.attempt_ended, event.attempt) == (False, self.attempt), wrong
            assert self.event_counts[kind, event.attempt] == 1, wrong
            self.attempt_ended = kind is EventKind.ATTEMPT_ENDED
            if kind is EventKind.RANK_STARTED:
                self.status = Status.RUNNING

    def agrees_with(self, job: Row[Any], spec: Spec) -> None:
        """The row must have the same state, and the priority of its spec."""
        row = (job.status, job.attempt, job.cancel_requested_at is not None, job.paused_at is not None)
        story = (self.status, self.attempt, self.cancelled, self.paused)
        assert row == story, f"job {job.id} is {row} by its row and {story} by its events"
        assert job.priority == spec.priority, f"job {job.id} has the priority {job.priority}"
        assert job.restarts <= spec.max_restarts, f"job {job.id} was restarted too often"


@dataclass
class Audit:
    """The rows at the last look, the specs of the jobs that must exist, and the state of each job by its events."""

    world: World
    specs: dict[str, Spec] = field(default_factory=dict)  # of the jobs whose submission was confirmed
    stories: dict[str, Story] = field(default_factory=dict)
    last_event_id: int = 0
    rows: Rows = field(init=False)

    def __post_init__(self) -> None:
        self.rows, _ = read_rows(self.world.onlooker, self.world.clock.at, events_after=0)

    def look(self) -> None:
        """Read the rows and new events, and check them."""
        if not self.world.touched:
            return
        self.world.touched = False
        before = self.rows
        self.rows, events = read_rows(self.world.onlooker, self.world.clock.at, events_after=self.last_event_id)
        assert set(self.rows.jobs) == set(self.specs), "a submission was lost, or an unconfirmed job was stored"
        slots_belong_to_one(self.rows)
        jobs_agree_with_attempts(self.rows)
        ends_are_complete(self.rows)
        changes_are_legal(before, self.rows)
        placements_are_right(before, self.rows, self.specs, self.world.settings.host_timeout_s)
        for event in events:
            self.stories.setdefault(event.job_id, Story()).add(event)
            self.last_event_id = event.id
        for job in self.rows.jobs.values():
            self.stories[job.id].agrees_with(job, self.specs[job.id])
        for attempt_id, host in self.world.hints.launches:
            assert self.rows.attempts[attempt_id].host == host, f"attempt {attempt_id} was announced to {host}"
        self.world.hints.launches.clear()

    def settle(self) -> None:
        """Repair all and let the jobs run: each must end, or wait for a visible reason. No slot may be lost."""
        slots = self.rows.slots
        for name in self.rows.hosts:
            of_host = [slot for key, slot in slots.items() if key[0] == name and slot.retired_at is None]
            self.world.register(name, len(of_host))
            self.world.drain(name, on=False)
        for key in slots:
            self.world.change_gpu(key, "is well")
        for job in self.rows.jobs.values():
            if job.paused_at is not None and job.status not in TERMINAL:
                self.world.ask("resume", job.id)
        self._run_to_rest()
        waiting = [job.id for job in self.rows.jobs.values() if job.status not in TERMINAL]
        with self.world.sessions() as session:
            standings = queue.standings(session, waiting, host_timeout_s=self.world.settings.host_timeout_s)
        for job_id in waiting:
            reason = standings[job_id].reason
            assert reason.startswith(("needs", "no host is alive")), f"job {job_id} waits because {reason}"
        for key, slot in self.rows.slots.items():
            assert slot.attempt_id is None, f"slot {key} is lost: {slot}"

    def _run_to_rest(self) -> None:
        """Let everybody work, round by round, until no job changes and no attempt is live."""
        for _ in range(_ROUNDS):
            jobs = self.rows.jobs
            self.world.clock.forward(_ROUND_S)
            self.world.keep_alive()
            self.world.reap()
            for name in self.world.up:
                self.world.run_agent(name)
            self.look()
            self.world.dispatch()
            self.look()
            if self.rows.jobs == jobs and not self.rows.live:
                return
            for attempt in self.rows.live:
                if attempt.claimed_at is None:
                    self.world.claim(attempt.id, attempt.host)
            for supervisor in self.world.supervisors:
                attempt = self.rows.attempts[supervisor.lease.attempt_id]
                if supervisor.alive and attempt.ended_at is None:
                    self.world.complete(supervisor)
            self.look()
        raise AssertionError(f"no rest after {_ROUNDS} rounds: {self.rows}")
