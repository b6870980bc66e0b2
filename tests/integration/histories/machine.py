"""Random histories of jobs, hosts, supervisors and people: a Hypothesis state machine on a real database.

A rule draws a number and uses it to choose a job, an attempt or a supervisor from the rows. If there is none, the rule
does nothing. It cannot have a precondition instead: the draws would then depend on who won a race, and a history could
not be repeated.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from jobs.lifecycle.store import JobEnded
from jobs.model.preemption import PreemptionCause
from jobs.model.spec import Spec, spec_from
from jobs.model.states import EndReason
from jobs.scheduling import placing
from tests.integration.histories.audit import Audit
from tests.integration.histories.world import Supervisor, World
from tests.integration.jobs.job_rows import submit_once

T = TypeVar("T")

_MOST_JOBS = 12

hosts = st.sampled_from(["ha", "hb", "hc"])
numbers = st.integers(0, 11)
requests = st.sampled_from(["cancel", "cancel", "pause", "resume"])
# RANK_FAILED comes more often, because it uses up a restart.
reasons = st.sampled_from([*EndReason, *[EndReason.RANK_FAILED] * 4]).filter(
    lambda reason: reason is not EndReason.CANCELLED
)
specs = st.fixed_dictionaries(
    {
        "gpus": st.integers(1, 4),
        "fewer": st.integers(0, 3),
        "priority": st.sampled_from([10, 50, 50, 90]),
        "placement": st.sampled_from(["pack", "pack", "single_host", "spread"]),
        "max_restarts": st.integers(0, 2),
        "time_limit_s": st.sampled_from([None, None, 60, 3600]),
        "gpu_model": st.sampled_from([None, None, None, None, "A100", "H100"]),
        "mixed_gpus": st.sampled_from([True, True, False]),
    }
).map(lambda drawn: spec_of(**drawn))


def spec_of(*, gpus: int, fewer: int, **fields: Any) -> Spec:
    """A spec that asks for some GPUs and accepts fewer."""
    return spec_from({"dataset": "digits", "gpus": gpus, "min_gpus": max(1, gpus - fewer), **fields})


SMALL = spec_of(gpus=1, fewer=0, max_restarts=0)


def pick(among: Sequence[T], number: int) -> list[T]:
    """A list of one of them, chosen by the number. Empty if there is none."""
    return [among[number % len(among)]] if among else []


class Histories(RuleBasedStateMachine):
    """One history of processes that work correctly, or die. The test that runs it sets `world` in a subclass.

    `tests.integration.jobs.test_leases` has the writers without a valid lease, which must be refused.
    """

    world: ClassVar[World]

    def __init__(self) -> None:
        super().__init__()
        self.world.reset()
        self.audit = Audit(self.world)

    @invariant()
    def everything_holds(self) -> None:
        """Check everything after every step."""
        self.audit.look()

    def teardown(self) -> None:
        """If no step broke a rule, let all jobs come to rest."""
        if sys.exception() is None:
            self.audit.settle()

    # Hosts

    @initialize(slots=st.lists(st.integers(1, 4), min_size=1, max_size=3), jobs=st.lists(specs, max_size=4))
    def a_stack_starts(self, slots: list[int], jobs: list[Spec]) -> None:
        for name, count in zip(("ha", "hb", "hc"), slots, strict=False):
            self.world.register(name, count)
        for spec in jobs:
            self.someone_submits(spec)

    @rule(host=hosts, slots=st.integers(1, 4))
    def a_worker_starts(self, host: str, slots: int) -> None:
        """The worker starts for the first time or again. The number of slots may have changed."""
        self.world.register(host, slots)

    @rule(host=hosts)
    def a_host_loses_contact(self, host: str) -> None:
        self.world.up.pop(host, None)

    @rule(number=numbers, what=st.sampled_from(["breaks", "is used", "is well", "is well"]))
    def a_gpu_changes(self, number: int, what: str) -> None:
        for key in pick(list(self.audit.rows.slots), number):
            self.world.change_gpu(key, what)

    @rule(host=hosts, what=st.sampled_from(["drain", "requeue", "undrain", "undrain", "forget"]))
    def an_operator_asks(self, host: str, what: str) -> None:
        if what == "forget":
            self.world.forget(host)
        else:
            self.world.drain(host, on=what != "undrain", requeue=what == "requeue")

    @rule(seconds=st.sampled_from([1, 20, 31, 61, 400, 7200]))
    def time_passes(self, seconds: int) -> None:
        """Time passes, and everybody works as they should."""
        self.world.clock.forward(seconds)
        self.everybody_works()

    @rule(seconds=st.sampled_from([20, 31, 61, 130, 7200]))
    def time_passes_without_a_word(self, seconds: int) -> None:
        """Time passes, and nobody reaches the database."""
        self.world.clock.forward(seconds)

    # People

    @rule(spec=specs)
    def someone_submits(self, spec: Spec) -> None:
        if len(self.audit.specs) < _MOST_JOBS:
            self.world.clock.forward(0.001)  # no two jobs have the same age
            with self.world.begin() as session:
                self.audit.specs[submit_once(session, spec).job.id] = spec

    @rule(number=numbers, request=requests)
    def someone_asks(self, number: int, request: str) -> None:
        for job_id in pick(list(self.audit.rows.jobs), number):
            with suppress(JobEnded):
                self.world.ask(request, job_id)

    # Dispatchers

    @rule(several=st.booleans())
    def a_dispatcher_passes(self, several: bool) -> None:
        """One passes, or two at once."""
        self.world.at_once(*[self.world.dispatch] * (1 + several))

    @rule(number=numbers, request=requests)
    def a_dispatcher_passes_while_someone_asks(self, number: int, request: str) -> None:
        self.world.at_once(lambda: self.someone_asks(number, request), self.world.dispatch)

    @rule(number=numbers)
    def an_attempt_is_asked_to_make_room(self, number: int) -> None:
        for attempt in pick(self.audit.rows.live, number):
            with self.world.begin() as session:
                placing.request_preemption(session, [attempt.id], PreemptionCause.drained("hc"))

    # Launchers and supervisors

    def _unclaimed(self, number: int) -> list[Any]:
        """An attempt that a host may claim. If there is none, a job is placed first."""
        for bring_work in (self._place_another, lambda: None):
            live = self.audit.rows.live
            waiting = [each for each in live if each.claimed_at is None and each.host in self.world.up]
            if waiting:
                return pick(waiting, number)
            bring_work()
        return []

    def supervisors(self, number: int) -> list[Supervisor]:
        """A supervisor that owns an attempt and reaches the database. If there is none, a job is started first."""
        for bring_work in (self._start_another, lambda: None):
            owners = [supervisor for supervisor in self.world.supervisors if self.owns(supervisor)]
            if owners:
                return pick(owners, number)
            bring_work()
        return []

    def _place_another(self) -> None:
        self.someone_submits(SMALL)
        self.world.keep_alive()
        self.audit.look()
        self.world.dispatch()
        self.audit.look()

    def _start_another(self) -> None:
        self._place_another()
        self.everybody_works()
        self.audit.look()

    def owns(self, supervisor: Supervisor) -> bool:
        """Whether the supervisor still owns its attempt and reaches the database."""
        return (
            supervisor.alive and supervisor.host in self.world.up
            and self.audit.rows.attempts[supervisor.lease.attempt_id].ended_at is None
        )  # fmt: skip

    @rule(number=numbers, how=st.sampled_from(["once", "again", "twice at once"]))
    def a_host_claims(self, number: int, how: str) -> None:
        for attempt in self._unclaimed(number):
            claims = [lambda attempt=attempt: self.world.claim(attempt.id, attempt.host)] * (1 if how == "once" else 2)
            supervisors = self.world.at_once(*claims) if how == "twice at once" else [claim() for claim in claims]
            assert how == "once" or None in supervisors, f"two supervisors own attempt {attempt.id}"

    @rule(number=numbers)
    def a_launcher_notes_its_supervisor(self, number: int) -> None:
        for supervisor in pick(
            [supervisor for supervisor in self.world.supervisors if not supervisor.is_recorded], number
        ):
            self.world.record_supervisor(supervisor)

    @rule(number=numbers)
    def a_first_rank_starts(self, number: int) -> None:
        for supervisor in self.supervisors(number):
            self.world.start(supervisor)

    @rule(number=numbers, reason=reasons, clean=st.booleans())
    def an_attempt_ends(self, number: int, reason: EndReason, clean: bool) -> None:
        for supervisor in self.supervisors(number):
            self.world.end(supervisor, reason, clean=clean)

    @rule(number=numbers)
    def a_supervisor_obeys(self, number: int) -> None:
        for supervisor in self.supervisors(number):
            reason = self.world.requested_end(supervisor)
            if reason is not None:
                self.world.end(supervisor, reason)

    @rule(number=numbers, reason=reasons)
    def an_attempt_ends_while_its_job_is_cancelled(self, number: int, reason: EndReason) -> None:
        for supervisor in self.supervisors(number):

            def cancel(job_id: str = supervisor.lease.job_id) -> None:
                with suppress(JobEnded):
                    self.world.ask("cancel", job_id)

            self.world.at_once(lambda supervisor=supervisor: self.world.end(supervisor, reason), cancel)

    @rule(number=numbers)
    def a_supervisor_dies(self, number: int) -> None:
        for supervisor in pick([supervisor for supervisor in self.world.supervisors if supervisor.alive], number):
            supervisor.alive = False

    @rule()
    def everybody_works(self) -> None:
        """An undisturbed second: jobs are placed, and attempts are claimed, recorded and started."""
        self.world.keep_alive()
        self.audit.look()
        self.world.dispatch()
        self.audit.look()
        for attempt in self.audit.rows.live:
            if attempt.claimed_at is None and attempt.host in self.world.up:
                supervisor = self.world.claim(attempt.id, attempt.host)
                if supervisor is not None:
                    self.world.record_supervisor(supervisor)
                    self.world.start(supervisor)

    # Agents and reapers

    @rule(host=hosts, clean=st.sampled_from([True, True, False]))
    def an_agent_passes(self, host: str, clean: bool) -> None:
        if host in self.world.up:
            self.world.run_agent(host, clean=clean)

    @rule(how=st.sampled_from(["once", "two at once", "while leases are renewed"]))
    def a_reaper_passes(self, how: str) -> None:
        if how == "once":
            self.world.reap()
        elif how == "two at once":
            abandoned = self.world.abandoned()
            self.world.at_once(lambda: self.world.reap(abandoned), lambda: self.world.reap(abandoned))
        else:
            self.world.at_once(self.world.reap, self.world.keep_alive)
