"""The monkey carries out the disturbances of a round on a running site. At the end it takes all of them back."""

import math
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import TypeVar

import psycopg

from jobs.runtime.processes import ProcessId
from tests.chaos import clocks, disks
from tests.chaos.census import JobProcess, processes_of
from tests.chaos.clocks import Clock
from tests.chaos.descriptors import connect_until_full, take_descriptors
from tests.chaos.library import Library
from tests.chaos.script import BEYOND_THE_LEASE, Disturbance, Harm, Script
from tests.chaos.site import Member, Site
from tests.chaos.stage import APPLICATION, Stage, connect

_POLL_S = 0.05
_FIND_WITHIN_S = 8.0  # the limit to find a victim, because sometimes there is none
_CLOCK_S = 3 * 3600  # how far a clock is set forward or back at most
_PARTS = {
    Harm.KILL_WORKER: "worker", Harm.STOP_WORKER: "worker",
    Harm.KILL_BROKER: "broker", Harm.STOP_BROKER: "broker",
    Harm.KILL_API: "api", Harm.STOP_API: "api",
    Harm.KILL_DATABASE: "database", Harm.STOP_DATABASE: "database",
}  # fmt: skip
_ROLES = {
    Harm.KILL_RANK: "rank", Harm.STOP_RANK: "rank",
    Harm.KILL_LAUNCHER: "launcher", Harm.STOP_LAUNCHER: "launcher",
    Harm.KILL_SUPERVISOR: "supervisor", Harm.STOP_SUPERVISOR: "supervisor",
    Harm.STOP_SUPERVISOR_LONG: "supervisor",
}  # fmt: skip
_PAIRS = tuple(combinations(("api", "worker", "broker", "database"), 2))
_T = TypeVar("_T")
_KILLS = frozenset(harm for harm in Harm if harm.name.startswith("KILL"))


@dataclass(frozen=True)
class _Held:
    """What lasts until a time: processes that stay stopped, or something else and its way back."""

    until: float  # by `time.monotonic`
    processes: Sequence[ProcessId] = ()
    undo: Callable[[], None] = field(default=lambda: None)


def picked(candidates: Sequence[_T], pick: float) -> _T:
    """The candidate that `pick`, 0 to 1, chooses."""
    return candidates[math.floor(pick * len(candidates))]


class Monkey:
    """Disturbs one site, and tells `say` about each disturbance."""

    def __init__(
        self, site: Site, stage: Stage, script: Script, library: Library, *, lease_s: float, say: Callable[[str], None]
    ) -> None:
        self._site = site
        self._stage = stage
        self._script = script
        self._library = library
        self._lease_s = lease_s
        self._say = say
        self._held: list[_Held] = []
        self._others: dict[Harm, Callable[[Disturbance], str]] = {
            Harm.DROP_CONNECTIONS: self._drop_connections,
            Harm.FREEZE: self._freeze,
            Harm.SWITCH_OVER: lambda _: site.databases.switch_over(),
            Harm.KILL_TWO: self._harm_two,
            Harm.STOP_TWO: self._harm_two,
            Harm.FILL_DISK: partial(self._fill, inodes=False),
            Harm.TAKE_INODES: partial(self._fill, inodes=True),
            Harm.SET_API_CLOCK: lambda it: self._set_clock(it, self._member("api", it).clock),
            Harm.SET_HOST_CLOCK: lambda it: self._set_clock(it, self._member("worker", it).clock),
            Harm.SET_DATABASE_CLOCK: lambda it: self._set_clock(it, site.databases.primary.clock),
            Harm.TAKE_API_DESCRIPTORS: self._take_descriptors,
            Harm.TAKE_WORKER_DESCRIPTORS: self._take_descriptors,
            Harm.ADD_FIFO: lambda _: f"{library.add(has_fifo=True)}, and {library.add()} beside it",
        }

    def run(self) -> None:
        """Carry out the disturbances of the script, each in its time. Returns when all of them are taken back."""
        try:
            for disturbance in self._script.disturbances:
                self._pause_until(partial(self._stage.may_continue, disturbance.at))
                victim = self._disturb(disturbance)
                self._say(f"{self._stage.elapsed_s:6.1f} s at {disturbance.at:.2f}: {disturbance.harm}: {victim}")
            self._pause_until(lambda: not self._held)
        finally:
            self._take_back(self._held)

    def _disturb(self, disturbance: Disturbance) -> str:
        """Carry out the disturbance. Returns its victim, for the report."""
        harm = disturbance.harm
        if harm in self._others:
            return self._others[harm](disturbance)
        if harm in _PARTS:
            return self._harm_parts(disturbance, [_PARTS[harm]])
        victim = self._find(_ROLES[harm], disturbance.pick)
        if victim is None:
            return "there was no such process"
        if harm in _KILLS:
            victim.process_id.signal(signal.SIGKILL)
        else:
            self._hold(disturbance, [victim.process_id])
        return str(victim)

    def _harm_two(self, disturbance: Disturbance) -> str:
        return self._harm_parts(disturbance, picked(_PAIRS, disturbance.pick))

    def _harm_parts(self, disturbance: Disturbance, parts: Sequence[str]) -> str:
        victims = {part: self._processes_of_part(part, disturbance) for part in parts}
        if disturbance.harm in _KILLS:
            for processes in victims.values():
                processes[0].signal(signal.SIGKILL)
        else:
            self._hold(disturbance, [process for processes in victims.values() for process in processes])
        return ", ".join(f"{part} with pid {processes[0].pid}" for part, processes in victims.items())

    def _processes_of_part(self, part: str, disturbance: Disturbance) -> Sequence[ProcessId]:
        """The part's process; of the database also the backends, which are processes of their own."""
        if part == "database":
            return self._site.databases.primary.processes
        return [self._site.broker.state.parts[part] if part == "broker" else self._member(part, disturbance).process]

    def _member(self, part: str, disturbance: Disturbance) -> Member:
        """One of the apis or workers. Not `pick` itself: that already chose the pair of parts."""
        members = self._site.apis if part == "api" else self._site.hosts
        return picked(members, random.Random(disturbance.pick).random())  # noqa: S311 - the same seed, the same draws

    def _freeze(self, disturbance: Disturbance) -> str:
        host = self._member("worker", disturbance)
        processes = [host.process, *(process.process_id for process in processes_of(host.home))]
        self._hold(disturbance, processes)
        return f"{len(processes)} processes of {host.name}"

    def _fill(self, disturbance: Disturbance, *, inodes: bool) -> str:
        if reason := disks.reason_to_skip():
            return reason
        host = self._member("worker", disturbance)
        host.disk.fill(inodes=inodes)
        self._hold(disturbance, undo=host.disk.empty)
        return f"{host.name}, and {self._library.add()} is registered"

    def _set_clock(self, disturbance: Disturbance, clock: Clock) -> str:
        if reason := clocks.reason_to_skip():
            return reason
        dice = random.Random(disturbance.pick)  # noqa: S311 - the same seed must give the same draws
        dice.random()  # chose the member
        ahead_s = dice.choice([-1, 1]) * dice.randint(120, _CLOCK_S)
        self._stage.clock_was_set(right=False)
        clock.set(ahead_s)

        def set_right() -> None:
            clock.set(0)
            self._stage.clock_was_set(right=True)

        self._hold(disturbance, undo=set_right)
        return f"that of {clock.folder.parent.name}/{clock.folder.name} by {ahead_s} s"

    def _take_descriptors(self, disturbance: Disturbance) -> str:
        member = self._member("api" if disturbance.harm is Harm.TAKE_API_DESCRIPTORS else "worker", disturbance)
        try:
            if member.part == "api":
                undo = connect_until_full(member.process, member.stack.url)
            else:
                undo = take_descriptors(member.process)
        except (ProcessLookupError, FileNotFoundError):
            return f"{member.name} was about to start"
        self._hold(disturbance, undo=undo)
        return f"{member.name}, and {self._library.add()} is registered"

    def _drop_connections(self, disturbance: Disturbance) -> str:
        dice = random.Random(disturbance.pick)  # noqa: S311 - the same seed must give the same draws
        try:
            with connect(self._site.database_url) as connection:
                rows = connection.execute(
                    "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'"
                    " AND application_name <> %s ORDER BY backend_start, pid",
                    (APPLICATION,),
                ).fetchall()
                victims = [pid for (pid,) in rows if dice.random() < 0.5]
                connection.execute("SELECT pg_terminate_backend(pid) FROM unnest(%s::int[]) AS pid", (victims,))
        except psycopg.OperationalError:
            return "the database did not answer"
        return f"{len(victims)} of {len(rows)}"

    def _find(self, role: str, pick: float) -> JobProcess | None:
        """Wait for processes of a role, and choose one by `pick`. They are sorted, so a seed repeats its choice."""
        processes: list[JobProcess] = []

        def is_there() -> bool:
            found = processes_of(*self._site.homes)
            processes[:] = [process for process in found if process.role == role and not process.is_stopped]
            return bool(processes)

        self._pause_until(is_there, within_s=_FIND_WITHIN_S)
        names = {row.job_id: name for name, row in self._stage.rows.jobs.items()}
        processes.sort(key=lambda it: (names.get(it.job_id, ""), it.attempt, it.rank or 0, it.process_id.started))
        return picked(processes, pick) if processes else None

    def _hold(
        self, disturbance: Disturbance, processes: Sequence[ProcessId] = (), *, undo: Callable[[], None] = lambda: None
    ) -> None:
        """Stop the processes. Continue them, and call `undo`, when the disturbance is over."""
        for process in processes:
            process.signal(signal.SIGSTOP)
        lasts_s = disturbance.hold_s + (self._lease_s if disturbance.harm in BEYOND_THE_LEASE else 0.0)
        until = time.monotonic() + lasts_s
        self._held.append(_Held(until, processes, undo))
        self._stage.expect_no_change_until(until)

    def _pause_until(self, condition: Callable[[], bool], *, within_s: float = math.inf) -> None:
        """Wait for the condition. Meanwhile take back what is over."""
        give_up_at = time.monotonic() + within_s
        while True:
            now = time.monotonic()
            self._take_back([held for held in self._held if held.until <= now])
            if condition() or now > give_up_at:
                return
            time.sleep(_POLL_S)

    def _take_back(self, over: Sequence[_Held]) -> None:
        self._held = [held for held in self._held if held not in over]
        still = {process for held in self._held for process in held.processes}
        for process in {process for held in over for process in held.processes} - still:
            process.signal(signal.SIGCONT)
        for held in over:
            held.undo()
