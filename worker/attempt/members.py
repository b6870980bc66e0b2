"""The other hosts of an attempt, as its supervisor on the lead host sees them. Empty for a job on one host.

On each of them a member (`worker.member`) is started, over ssh or with Slurm's srun. What the ranks there write comes
through its connection and is appended to the lead's own files, as if they had run here. So readers of these files need
not know about hosts.
"""

import select
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.model.os_errors import in_words
from worker.attempt import lease_file
from worker.attempt.code_transfer import send_code
from worker.attempt.forwarded_lines import ForwardedLines
from worker.attempt.member_connection import NOT_STORED, MemberConnection, MemberFailed, is_fault_of_node
from worker.attempt.member_protocol import HERE_PERIOD_S, MemberTask
from worker.attempt.wire import Message, as_bytes

_TICK_S = 0.2
_LEAST_SILENCE_S = 4 * HERE_PERIOD_S  # a shorter silence means nothing
_MOST_SAMPLES = 6000  # that nobody took: those of a hundred nodes in a minute
_GOODBYE_S = 3.0  # for a member to end its processes, before its connection is cut


@dataclass(frozen=True)
class MembersLaunch:
    """The input for starting members: plain values, because they come as JSON."""

    commands: Sequence[Sequence[str]] = ()  # the command line that starts each
    members: Sequence[dict[str, Any]] = ()  # their `MemberTask`s, in the same sequence
    environment: dict[str, str] | None = None  # of these commands; None: that of the supervisor, which ssh keeps here
    records: str = ""  # the lead's folder for their lines
    logs: str = ""
    lease_file: str = ""  # of the lead: until when the ranks on all hosts may run
    ready_within_s: float = 30.0
    code_archive: str = ""  # of a script, to be sent to all members

    def connect(self, command: Sequence[str], member: dict[str, Any]) -> MemberConnection:
        """Start one member."""
        task, logs = MemberTask(**member), Path(self.logs)
        error_log = logs.parent / f"member-{task.host}.log"
        lines = ForwardedLines(records=Path(self.records), logs=logs)
        return MemberConnection.open(command, task, environment=self.environment, error_log=error_log, lines=lines)


@dataclass(frozen=True)
class NodeSample:
    """What a member on a node of Slurm read of its ranks at one moment, by the node's clock in seconds."""

    node: str
    at: float
    values_by_rank: Mapping[int, Mapping[str, Any]]  # by the names of `jobs.telemetry.sampled_metrics`


class Members:
    """One member process on every host but the lead, each at the end of an ssh connection.

    `failure` is why the start was given up. If no member came up on a host, that host is lost.
    """

    def __init__(
        self,
        connections: Sequence[MemberConnection] = (),
        *,
        silent_s: float = 0.0,
        failure: MemberFailed | None = None,
    ) -> None:
        self._connections = connections
        self._failure = failure
        self._lock = threading.Lock()  # protects what is sent and what was received
        self._news = threading.Condition(self._lock)
        self._silent_s = silent_s
        self._looks = 0  # how many there were so far
        self._looks_before_signal = 0  # only looks after this one count
        self._closing = False
        self._notes: dict[int, bytes] = {}
        self._samples: deque[NodeSample] = deque(maxlen=_MOST_SAMPLES)
        self._reader = threading.Thread(target=self._read, name="members", daemon=True)

    @classmethod
    def start(cls, launch: MembersLaunch) -> "Members":
        """Start all members and wait until each has made its host ready. Raises `MemberFailed`."""
        connections = [launch.connect(*one) for one in zip(launch.commands, launch.members, strict=True)]
        members = cls(connections, silent_s=launch.ready_within_s)
        ready_at = time.monotonic() + launch.ready_within_s
        problem = _send_code(launch, connections)
        members._reader.start()
        try:
            if problem is not None:
                raise MemberFailed(f"the archive of the code cannot be sent: {problem}")
            members._wait_until(lambda connection: connection.clock_s is not None, ready_at, launch.ready_within_s)
            until = lease_file.read_until(Path(launch.lease_file)) or 0.0
            members.extend(until - time.monotonic())
            leased_at = time.monotonic() + launch.ready_within_s
            members._wait_until(lambda connection: connection.has_lease, leased_at, launch.ready_within_s)
        except MemberFailed:
            members.close()
            raise
        return members

    @property
    def hosts(self) -> Sequence[str]:
        """Their names, sorted by rank."""
        return [connection.host for connection in self._connections]

    def pids(self) -> Sequence[int]:
        """The ssh processes of the connections, which are not part of the attempt."""
        return [connection.process.pid for connection in self._connections if connection.process.poll() is None]

    def notes(self) -> dict[int, bytes]:
        """The last note of each rank there that sent one."""
        with self._lock:
            return dict(self._notes)

    def take_samples(self) -> list[NodeSample]:
        """The samples that came from nodes of Slurm since the last call."""
        with self._lock:
            samples = list(self._samples)
            self._samples.clear()
        return samples

    def unstored_records(self) -> dict[int, bytes]:
        """The records of ranks there that could not be stored here, because the disk is full."""
        records: dict[int, bytes] = {}
        for connection in self._connections:
            records |= connection.lines.unstored_records(connection.ranks)
        return records

    def extend(self, seconds: float) -> None:
        """Let the ranks there run for this many seconds from now.

        The time counts from each member's last message, by the member's clock. That was not later than now.
        """
        self._silent_s = max(seconds, _LEAST_SILENCE_S)  # after that time its ranks have exited for good
        for connection in self._connections:
            if connection.clock_s is not None:
                self._send(connection, {"do": "extend", "since": connection.clock_s, "seconds": seconds})

    def why_lost(self) -> str | None:
        """A sentence that names a host whose connection broke. None while all are connected."""
        if self._failure is not None and self._failure.is_unreached:
            return str(self._failure)
        return next((loss for one in self._connections if (loss := self._loss_of(one)) is not None), None)

    def faulty_host(self, error: str) -> str | None:
        """The host that failed, if an attempt ended with this sentence. None if another one is to blame."""
        if self._failure is not None:
            return self._failure.host if str(self._failure) in error and is_fault_of_node(error) else None
        lost = (one for one in self._connections if self._loss_of(one) is not None)
        return next((one.host for one in lost if one.is_blamed_by(error)), None)

    def is_leaving(self) -> bool:
        """Whether Slurm takes the node of a member back."""
        return any(connection.is_leaving for connection in self._connections)

    def ask_to_stop(self, *, finish: bool = False) -> None:
        """Create the stop file of the ranks there."""
        for connection in self._connections:
            self._send(connection, {"do": "stop", "finish": finish})

    def signal(self, number: int) -> None:
        """Send a signal to every process of the attempt there."""
        self._looks_before_signal = self._looks
        for connection in self._connections:
            self._send(connection, {"do": "signal", "number": int(number)})

    def are_gone(self) -> bool:
        """Whether no process of the attempt is left there, by each member's last answer. A lost host has none."""
        gone = [self._is_clean(connection) or self._loss_of(connection) is not None for connection in self._connections]
        if all(gone):
            return True
        self._looks += 1
        for connection, is_gone in zip(self._connections, gone, strict=True):
            if not is_gone and connection.look_asked == connection.look_answer[0]:
                connection.look_asked = self._looks
                self._send(connection, {"do": "look", "number": self._looks})
        return False

    def clean_hosts(self) -> Sequence[str]:
        """The hosts that reported that no process of the attempt is left and that all lines were sent."""
        self.are_gone()  # sends the question to members that did not get it yet
        connections = [one for one in self._connections if self._is_clean(one) and self._loss_of(one) is None]
        return [connection.host for connection in connections]

    def close(self) -> None:
        """Close the connections: the members end the remaining processes and exit."""
        for connection in self._connections:
            self._send(connection, {"do": "leave"})
        with self._lock:
            self._closing = True
            for connection in self._connections:
                connection.outgoing.close()
        give_up_at = time.monotonic() + _GOODBYE_S
        for connection in self._connections:
            try:
                connection.process.wait(max(0.0, give_up_at - time.monotonic()))
            except subprocess.TimeoutExpired:
                connection.process.kill()
                connection.process.wait()
        if self._connections:
            self._reader.join()
        for connection in self._connections:
            connection.process.stdout.close()  # type: ignore[union-attr]

    def _is_clean(self, connection: MemberConnection) -> bool:
        look, processes = connection.look_answer
        return look > self._looks_before_signal and processes == 0

    def _loss_of(self, connection: MemberConnection) -> str | None:
        return connection.loss(self._silent_s)

    def _wait_until(self, condition: Callable[[MemberConnection], bool], give_up_at: float, within_s: float) -> None:
        """Wait until all hosts meet the condition. They had `within_s` until `give_up_at`. Raises `MemberFailed`."""
        connections = self._connections
        with self._news:
            self._news.wait_for(
                lambda: any(one.broken_because for one in connections) or all(map(condition, connections)),
                give_up_at - time.monotonic(),
            )
            for connection in connections:
                if connection.broken_because is not None:
                    raise connection.failed_start(connection.broken_because)
            for connection in connections:
                if not condition(connection):
                    raise connection.failed_start(f"not ready after {within_s:g} s")

    def _send(self, connection: MemberConnection, message: Message) -> None:
        with self._lock:
            if connection.broken_because is None and not self._closing:
                with suppress(OSError):  # the reading thread finds out why
                    connection.outgoing.send(message)

    def _read(self) -> None:
        """Read the messages of the hosts, until all connections have ended."""
        looked_at = time.monotonic()
        while by_file := {one.incoming.file: one for one in self._connections if one.broken_because is None}:
            ready, _, _ = select.select(list(by_file), [], [], _TICK_S)
            before, looked_at = looked_at, time.monotonic()
            for connection in by_file.values():
                connection.silent_s += min(looked_at - before, 2 * _TICK_S)
            for file in ready:
                self._take_from(by_file[file])
            for connection in self._connections:
                with suppress(OSError):  # the next lines meet the same error
                    connection.lines.store()
            with self._lock:
                for connection in by_file.values():
                    with suppress(OSError):
                        connection.outgoing.flush()

    def _take_from(self, connection: MemberConnection) -> None:
        broken_because = None
        try:
            for message in connection.incoming.read():
                self._take(connection, message)
        except OSError as error:
            broken_because = f"{NOT_STORED}: {in_words(error)}"
        with self._news:
            connection.silent_s = 0.0
            if broken_because is not None or connection.incoming.ended:
                connection.broken_because = broken_because or connection.why_ended()
            self._news.notify_all()

    def _take(self, connection: MemberConnection, message: Message) -> None:
        match message:
            case {"say": "here", "now": float(now), "leased": bool(has_lease)}:
                connection.clock_s, connection.has_lease = now, has_lease
            case {"say": "left", "look": int(look), "processes": int(processes)}:
                connection.look_answer = (look, processes)
            case {"say": "leaving"}:
                connection.is_leaving = True
            case {"say": "sample", "at": float(at), "ranks": dict(values)}:
                by_name = {str(rank): rank for rank in connection.ranks}  # JSON has only text as keys
                by_rank = {by_name[name]: of_rank for name, of_rank in values.items() if name in by_name}
                with self._lock:
                    self._samples.append(NodeSample(connection.host, at, by_rank))
            case {"say": "lines", "kind": str(kind), "rank": int(rank), "text": str(text)} if rank in connection.ranks:
                connection.lines.add(kind, rank, as_bytes(text))
            case {"say": "note", "rank": int(rank), "text": str(text)} if rank in connection.ranks:
                with self._lock:
                    self._notes[rank] = as_bytes(text)


def _send_code(launch: MembersLaunch, connections: Sequence[MemberConnection]) -> str | None:
    """Send the code of a script, if there is one. Returns why it cannot be read."""
    if not launch.code_archive:
        return None
    archive = Path(launch.code_archive)
    try:
        send_code(archive, [connection.outgoing for connection in connections], within_s=launch.ready_within_s)
        archive.unlink()
    except OSError as error:
        return in_words(error)
    return None
