"""The monkey carries out the disturbances of a round on a running stack. At the end it continues all processes."""

import math
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import psutil
import psycopg

from hora.stack.control import Stack
from jobs.runtime.processes import ProcessId
from tests.chaos.census import JobProcess, processes_of
from tests.chaos.script import BEYOND_THE_LEASE, Disturbance, Harm, Script
from tests.chaos.stage import APPLICATION, Stage, connect

_POLL_S = 0.05
_FIND_WITHIN_S = 8.0  # the limit to find a victim, because sometimes there is none
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
_KILLS = frozenset(harm for harm in Harm if harm.name.startswith("KILL"))


@dataclass(frozen=True)
class _Held:
    """Processes that stay stopped until a time."""

    until: float  # by `time.monotonic`
    processes: Sequence[ProcessId]


def picked(candidates: Sequence[JobProcess], pick: float) -> JobProcess:
    """The candidate that `pick`, 0 to 1, chooses."""
    return candidates[math.floor(pick * len(candidates))]


class Monkey:
    """Disturbs one stack, and tells `say` about each disturbance."""

    def __init__(
        self, stack: Stack, stage: Stage, script: Script, *, lease_s: float, say: Callable[[str], None]
    ) -> None:
        self._stack = stack
        self._stage = stage
        self._script = script
        self._lease_s = lease_s
        self._say = say
        self._held: list[_Held] = []
        self._home = stack.home.resolve()

    def run(self) -> None:
        """Carry out the disturbances of the script, each in its time. Returns when no process is held any more."""
        try:
            for disturbance in self._script.disturbances:
                self._pause_until(partial(self._stage.may_continue, disturbance.at))
                victim = self._disturb(disturbance)
                self._say(f"{self._stage.elapsed_s:6.1f} s at {disturbance.at:.2f}: {disturbance.harm}: {victim}")
            self._pause_until(lambda: not self._held)
        finally:
            self._continue(self._held)

    def _disturb(self, disturbance: Disturbance) -> str:
        """Carry out the disturbance. Returns its victim, for the report."""
        harm = disturbance.harm
        if harm is Harm.DROP_CONNECTIONS:
            return self._drop_connections(disturbance)
        if harm is Harm.FREEZE:
            return self._freeze(disturbance)
        if harm in _PARTS:
            return self._harm_part(disturbance, _PARTS[harm])
        victim = self._find(_ROLES[harm], disturbance.pick)
        if victim is None:
            return "there was no such process"
        if harm in _KILLS:
            victim.process_id.signal(signal.SIGKILL)
        else:
            self._hold(disturbance, [victim.process_id])
        return str(victim)

    def _harm_part(self, disturbance: Disturbance, part: str) -> str:
        process = self._stack.state.parts[part]
        if disturbance.harm in _KILLS:
            process.signal(signal.SIGKILL)
        elif part == "database":  # its backends are processes of their own
            self._hold(disturbance, [process, *_children(process)])
        else:
            self._hold(disturbance, [process])
        return f"pid {process.pid}"

    def _freeze(self, disturbance: Disturbance) -> str:
        worker = self._stack.state.parts["worker"]
        attempts = processes_of(self._home)
        self._hold(disturbance, [worker, *(process.process_id for process in attempts)])
        return f"{1 + len(attempts)} processes"

    def _drop_connections(self, disturbance: Disturbance) -> str:
        dice = random.Random(disturbance.pick)  # noqa: S311 - the same seed must give the same draws
        try:
            with connect(self._stack.database_url) as connection:
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
            processes[:] = [
                process for process in processes_of(self._home) if process.role == role and not process.is_stopped
            ]
            return bool(processes)

        self._pause_until(is_there, within_s=_FIND_WITHIN_S)
        names = {row.job_id: name for name, row in self._stage.rows.jobs.items()}
        processes.sort(
            key=lambda each: (names.get(each.job_id, ""), each.attempt, each.rank or 0, each.process_id.started)
        )
        return picked(processes, pick) if processes else None

    def _hold(self, disturbance: Disturbance, processes: Sequence[ProcessId]) -> None:
        for process in processes:
            process.signal(signal.SIGSTOP)
        lasts_s = disturbance.hold_s + (self._lease_s if disturbance.harm in BEYOND_THE_LEASE else 0.0)
        until = time.monotonic() + lasts_s
        self._held.append(_Held(until, processes))
        self._stage.expect_no_change_until(until)

    def _pause_until(self, condition: Callable[[], bool], *, within_s: float = math.inf) -> None:
        """Wait for the condition. Meanwhile continue the processes whose hold is over."""
        give_up_at = time.monotonic() + within_s
        while True:
            now = time.monotonic()
            self._continue([held for held in self._held if held.until <= now])
            if condition() or now > give_up_at:
                return
            time.sleep(_POLL_S)

    def _continue(self, over: Sequence[_Held]) -> None:
        self._held = [held for held in self._held if held not in over]
        still = {process for held in self._held for process in held.processes}
        for process in {process for held in over for process in held.processes} - still:
            process.signal(signal.SIGCONT)


def _children(process: ProcessId) -> list[ProcessId]:
    """The direct children of a process."""
    try:
        pids = [child.pid for child in psutil.Process(process.pid).children()]
    except psutil.NoSuchProcess:
        return []
    return [child for child in map(ProcessId.of, pids) if child is not None]
