"""The other half of the machine: writers without the right to write are refused and change nothing."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import rule
from sqlalchemy.orm import Session

from jobs.lifecycle import leases, store
from jobs.lifecycle.leases import StaleLease
from jobs.lifecycle.store import Lease, StaleTransition
from jobs.model.states import NEXT, EndReason, Status
from jobs.scheduling import placing
from jobs.scheduling.decisions import Placement, Share
from tests.integration.histories.machine import SMALL, Lives, numbers, pick
from tests.integration.histories.world import Supervisor

_NOT_A_TOKEN = str(UUID(int=0))
_FORBIDDEN = sorted((source, to) for source in Status for to in Status if to not in NEXT[source])


class Histories(Lives):
    """One history with all rules. It also has writers that must be refused."""

    @rule(number=numbers, slot=numbers)
    def a_late_placement_is_refused(self, number: int, slot: int) -> None:
        """A dispatcher was stopped between its decision and its write. Another dispatcher went on."""
        self.supervisors(number)  # so that some slots are taken
        self.someone_submits(SMALL, None, crashes=False)
        self.audit.look()
        rows = self.audit.rows
        for job in [*pick(list(rows.jobs.values()), number), *list(rows.jobs.values())[-1:]]:
            waits = job.status is Status.QUEUED and job.paused_at is None
            for host, index in pick([key for key in rows.slots if not (waits and rows.is_free(key))], slot):
                with self.world.begin() as session:
                    assert not placing.place(session, [Placement(job.id, (Share(host, (index,)),))], lease_s=60)
                self.audit.look(nothing_happened=True)

    @rule(number=numbers)
    def a_stale_writer_is_refused(self, number: int) -> None:
        """The writer's attempt has ended, because the writer was cut off, stopped, or slow."""
        rows = self.audit.rows.attempts
        stale = [
            supervisor.lease
            for supervisor in self.world.supervisors
            if rows[supervisor.lease.attempt_id].ended_at is not None
        ]
        self._check_refused(pick(stale, number))

    @rule(number=numbers)
    def a_stranger_is_refused(self, number: int) -> None:
        """The writer has the wrong token, or writes for another job."""
        for supervisor in self.supervisors(number):
            self._check_refused(
                [replace(supervisor.lease, token=_NOT_A_TOKEN), replace(supervisor.lease, job_id="another")]
            )

    @rule(number=numbers, seconds=st.sampled_from([61, 130]))
    def a_slow_reaper_is_refused(self, number: int, seconds: int) -> None:
        """After an outage a reaper finds abandoned attempts, but supervisors renew their leases before it ends them."""
        if not self.supervisors(number):
            return
        self.world.clock.forward(seconds)
        abandoned = self.world.abandoned()
        assert abandoned
        self.world.keep_alive()
        self.audit.look()
        owned = {supervisor.lease.attempt_id for supervisor in self.world.supervisors if self.owns(supervisor)}
        self.world.reap([attempt for attempt in abandoned if attempt.lease.attempt_id in owned])
        self.audit.look(nothing_happened=True)

    def _check_refused(self, strangers: Sequence[Lease]) -> None:
        self.audit.look()
        for lease in strangers:
            for write in self._writes(lease):
                with suppress(StaleLease, StaleTransition), self.world.begin() as session:
                    write(session)
                    raise AssertionError(f"a stale write was accepted: {lease}")
            self.world.record_supervisor(Supervisor(lease, "ha"))  # it may raise nothing, but must write nothing
        self.audit.look(nothing_happened=True)

    def _writes(self, lease: Lease) -> list[Callable[[Session], object]]:
        """Every write of a supervisor."""
        supervisor = Supervisor(lease, "ha")
        return [
            lambda session: leases.renew(session, lease, lease_s=60),
            lambda session: leases.stop_requests(session, lease),
            lambda session: leases.fence(session, lease),
            lambda session: leases.fence_expired(session, lease),
            lambda session: leases.end(session, lease, EndReason.COMPLETED),
            lambda session: leases.end(session, lease, EndReason.RANK_FAILED),
            lambda session: store.transition(session, lease.job_id, Status.RUNNING, lease=lease),
            lambda session: store.transition(session, lease.job_id, Status.QUEUED, lease=lease),
            lambda _: self.world.start(supervisor),
            lambda _: self.world.progress(supervisor, 0),
        ]

    @rule(number=numbers, change=st.sampled_from(_FORBIDDEN))
    def a_forbidden_transition_is_refused(self, number: int, change: tuple[Status, Status]) -> None:
        source, to = change
        self.audit.look()
        for job in pick([job for job in self.audit.rows.jobs.values() if job.status is source], number):
            with suppress(StaleTransition), self.world.begin() as session:
                store.transition(session, job.id, to)
                raise AssertionError(f"{source} became {to}")
            self.audit.look(nothing_happened=True)
