"""The checks after every step of a history: of the rows, and of the events that were written with them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import Row

from jobs.model.spec import Spec
from jobs.model.states import ACTIVE, LOST, NEXT, TERMINAL, EndReason, EventKind, Status
from tests.integration.histories.rows import Rows, planned_slots
from tests.integration.histories.world import model_of


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


def placements_are_right(before: Rows, after: Rows, specs: Mapping[str, Spec], *, host_timeout_s: float) -> None:
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


def can_hold(rows: Rows, spec: Spec, *, again: bool) -> bool:
    """Whether the hosts that take jobs could hold one if they were empty: one host, or several with equal shares."""
    taking = [name for name, host in rows.hosts.items() if host.drained_at is None]
    usable = [key for key, slot in rows.slots.items() if slot.retired_at is None]
    fewest = spec.min_gpus or spec.gpus if again else spec.gpus
    models = models_for(spec)
    sizes = [
        [sum(key[0] == name and model_of(key[1]) in choice for key in usable) for name in taking]
        for choice in ([models] if spec.mixed_gpus else [{model} for model in models])
    ]
    return any(
        sum(size * number >= gpus for size in hosts) >= number
        for hosts in sizes
        for gpus in range(fewest, spec.gpus + 1)
        for number in range(1, gpus + 1)
        if gpus % number == 0 and (number == 1 or spec.placement != "single_host")
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
    priority: int | None = None  # since its first change
    is_to_stop: bool = False  # nobody used its slots
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
        elif kind is EventKind.CHANGED:
            assert self.status not in TERMINAL, wrong
            assert self.priority in {None, event.data["before"]["priority"]}, wrong
            self.priority = event.data["after"]["priority"]
        elif kind in {EventKind.IDLE_WARNED, EventKind.IDLE_ACTED}:
            assert (self.attempt_ended, event.attempt) == (False, self.attempt), wrong
            self.is_to_stop = self.is_to_stop or (kind is EventKind.IDLE_ACTED and event.data["action"] == "stop")
        elif kind in {EventKind.REQUEUED, EventKind.ENDED}:
            assert self.attempt_ended, wrong
            assert kind is EventKind.ENDED or not self.is_to_stop, wrong
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
        """The row must have the same state, and the priority of its spec until that changes."""
        row = (job.status, job.attempt, job.cancel_requested_at is not None, job.paused_at is not None)
        story = (self.status, self.attempt, self.cancelled, self.paused)
        assert row == story, f"job {job.id} is {row} by its row and {story} by its events"
        priority = spec.priority if self.priority is None else self.priority
        assert job.priority == priority, f"job {job.id} has the priority {job.priority}, not {priority}"

    def checks_restarts(self, job: Row[Any], rows: Rows, spec: Spec) -> None:
        """Each restart must have a reason that allows it. The job must count them and keep to its limit."""
        restarted_for = [
            EndReason(attempt.end_reason)
            for attempt in rows.attempts_of(job.id)
            if self.event_counts[EventKind.REQUEUED, attempt.number]
        ]
        assert all(reason.outcome.retried for reason in restarted_for), f"job {job.id} restarted after {restarted_for}"
        assert job.restarts == sum(reason.outcome.counts for reason in restarted_for), f"restarts of {job}"
        assert job.losses == sum(reason in LOST for reason in restarted_for), f"losses of {job}"
        assert job.restarts <= spec.max_restarts, f"job {job.id} was restarted too often"
