"""Checks the rows after every step, and at the end that every job was served."""

from dataclasses import dataclass, field

from jobs.model.spec import Spec
from jobs.model.states import TERMINAL, Status
from jobs.scheduling import queue
from tests.integration.histories import checks
from tests.integration.histories.checks import Story
from tests.integration.histories.rows import Rows, read_rows
from tests.integration.histories.world import World

_ROUNDS = 60  # the limit in which a history of a dozen jobs must come to rest on one slot
_ROUND_S = 400.0  # longer than every back-off and every time-out


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

    def look(self, *, nothing_happened: bool = False) -> None:
        """Read the rows and new events, and check them. With `nothing_happened` nothing may have changed."""
        if not self.world.touched:
            return
        self.world.touched = False
        before = self.rows
        self.rows, events = read_rows(self.world.onlooker, self.world.clock.at, events_after=self.last_event_id)
        if nothing_happened:
            assert self.rows.is_same_as(before), f"something was written: {before} to {self.rows}"
            assert not events, f"events were added: {events}"
        assert set(self.rows.jobs) == set(self.specs), "a submission was lost, or an unconfirmed job was stored"
        checks.slots_belong_to_one(self.rows)
        checks.jobs_agree_with_attempts(self.rows)
        checks.ends_are_complete(self.rows)
        checks.changes_are_legal(before, self.rows)
        checks.placements_are_right(
            before, self.rows, self.specs, host_timeout_s=self.world.settings.host_timeout_s
        )  # fmt: skip
        for event in events:
            self.stories.setdefault(event.job_id, Story()).add(event)
            self.last_event_id = event.id
        for job in self.rows.jobs.values():
            self.stories[job.id].agrees_with(job, self.specs[job.id])
            self.stories[job.id].checks_restarts(job, self.rows, self.specs[job.id])
        for attempt_id, host in self.world.hints.launches:
            assert self.rows.attempts[attempt_id].host == host, f"attempt {attempt_id} was announced to {host}"
        self.world.hints.launches.clear()

    def settle(self) -> None:
        """Repair hosts and GPUs and let the jobs run: each must end, or wait for a visible reason. No slot may be lost.

        Paused jobs stay paused and drained hosts stay drained until everything else has come to rest.
        """
        for name, slots in self._hosts().items():
            self.world.register(name, slots)
        for key in self.rows.slots:
            self.world.change_gpu(key, "is well")
        self._run_to_rest()
        self._check_all_are_served()
        if self._resume_all():
            self._run_to_rest()
            self._check_all_are_served()
        assert not any(job.paused_at and job.status not in TERMINAL for job in self.rows.jobs.values())
        for key, slot in self.rows.slots.items():
            assert slot.attempt_id is None, f"slot {key} is lost: {slot}"

    def _check_all_are_served(self) -> None:
        """An unfinished job must be paused, or too large for the hosts. Its standing must say so."""
        waiting = [job for job in self.rows.jobs.values() if job.status not in TERMINAL]
        with self.world.sessions() as session:
            standings = queue.standings(
                session, [job.id for job in waiting], host_timeout_s=self.world.settings.host_timeout_s
            )
        for job in waiting:
            reason = standings[job.id].reason
            assert job.status is Status.QUEUED, f"{job} is not queued"
            assert reason.startswith("paused") == (job.paused_at is not None), f"{job} waits because {reason}"
            if job.paused_at is None:
                assert not checks.can_hold(self.rows, self.specs[job.id], again=job.attempt > 0), f"{job}: {reason}"
                assert reason.startswith(("needs", "no host is alive")), f"{job} waits because {reason}"

    def _hosts(self) -> dict[str, int]:
        """Every known host, with the number of its slots that are not retired."""
        slots = self.rows.slots.values()
        return {
            name: sum(slot.host == name and slot.retired_at is None for slot in slots) for name in self.rows.hosts
        }  # fmt: skip

    def _resume_all(self) -> bool:
        """Resume paused jobs and undrain hosts. False if there were none."""
        drained = [name for name, host in self.rows.hosts.items() if host.drained_at is not None]
        paused = [job.id for job in self.rows.jobs.values() if job.paused_at is not None and job.status not in TERMINAL]
        for name in drained:
            self.world.drain(name, on=False)
        for job_id in paused:
            self.world.ask("resume", job_id)
        self.look()
        return bool(drained or paused)

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
