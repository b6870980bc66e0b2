"""Looks at the rows after every step, and says at the end whether everybody was served."""

from dataclasses import dataclass, field

from jobs.model.spec import Spec
from jobs.model.states import TERMINAL, Status
from jobs.scheduling import queue
from tests.integration.histories import checks
from tests.integration.histories.checks import Story
from tests.integration.histories.rows import Rows, read_rows
from tests.integration.histories.world import World

_ROUNDS = 60  # that a history of a dozen jobs may take to come to rest on one slot
_ROUND_S = 400.0  # longer than every back-off and every patience


@dataclass
class Audit:
    """The rows at the last look, and what was promised by then."""

    world: World
    specs: dict[str, Spec] = field(default_factory=dict)  # of the jobs whose submission was answered
    stories: dict[str, Story] = field(default_factory=dict)
    last_event_id: int = 0
    rows: Rows = field(init=False)

    def __post_init__(self) -> None:
        self.rows, _ = read_rows(self.world.onlooker, self.world.clock.at, events_after=0)

    def look(self, *, nothing_happened: bool = False) -> None:
        """Everything that must hold, holds."""
        if not self.world.touched:
            return
        self.world.touched = False
        before = self.rows
        self.rows, events = read_rows(self.world.onlooker, self.world.clock.at, events_after=self.last_event_id)
        if nothing_happened:
            assert self.rows.is_same_as(before), f"something was written: {before} to {self.rows}"
            assert not events, f"something was told: {events}"
        assert set(self.rows.jobs) == set(self.specs), "a submission was lost, or one came to be that was not answered"
        checks.slots_belong_to_one(self.rows)
        checks.jobs_agree_with_attempts(self.rows)
        checks.ends_are_complete(self.rows)
        checks.changes_are_legal(before, self.rows)
        checks.placements_are_right(
            before, self.rows, self.specs, host_timeout_s=self.world.settings.host_timeout_s
        )  # fmt: skip
        checks.room_is_made_for_others(before, self.rows)
        for event in events:
            self.stories.setdefault(event.job_id, Story()).add(event)
            self.last_event_id = event.id
        for job in self.rows.jobs.values():
            self.stories[job.id].agrees_with(job)
            self.stories[job.id].checks_restarts(job, self.rows, self.specs[job.id])
        for attempt_id, host in self.world.hints.launches:
            assert self.rows.attempts[attempt_id].host == host, f"attempt {attempt_id} was announced to {host}"
        self.world.hints.launches.clear()

    def settle(self) -> None:
        """All machines are repaired and people wait: each job ends or waits for a visible reason; no slot is lost.

        What people asked for stays (paused jobs, drained hosts) until all else has come to rest.
        """
        for name, slots in self._hosts().items():
            self.world.register(name, slots)
        self._run_to_rest()
        self._everybody_is_served()
        if self._let_all_go_on():
            self._run_to_rest()
            self._everybody_is_served()
        assert not any(job.paused_at and job.status not in TERMINAL for job in self.rows.jobs.values())
        for key, slot in self.rows.slots.items():
            assert slot.attempt_id is None, f"slot {key} is lost: {slot}"

    def _everybody_is_served(self) -> None:
        """An unfinished job is paused, or larger than all hosts together can hold. Its standing says so."""
        waiting = [job for job in self.rows.jobs.values() if job.status not in TERMINAL]
        with self.world.sessions() as session:
            standings = queue.standings(
                session, [job.id for job in waiting], host_timeout_s=self.world.settings.host_timeout_s
            )
        for job in waiting:
            reason = standings[job.id].reason
            assert job.status is Status.QUEUED, f"{job} stands still"
            assert (reason == "paused") == (job.paused_at is not None), f"{job} waits because {reason}"
            if job.paused_at is None:
                assert not checks.can_hold(self.rows, self.specs[job.id], again=job.attempt > 0), f"{job}: {reason}"
                assert reason.startswith(("needs", "no host is alive")), f"{job} waits because {reason}"

    def _hosts(self) -> dict[str, int]:
        """Every host that is known, with the slots that it has not lost."""
        slots = self.rows.slots.values()
        return {
            name: sum(slot.host == name and slot.retired_at is None for slot in slots) for name in self.rows.hosts
        }  # fmt: skip

    def _let_all_go_on(self) -> bool:
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
        for _ in range(_ROUNDS):
            jobs = self.rows.jobs
            self.world.clock.forward(_ROUND_S)
            self.world.live_on()
            self.world.reap()
            for name in self.world.up:
                self.world.tend(name)
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
