"""The other hosts of an attempt, as its supervisor on the lead host sees them. Empty for a job on one host.

On each of them a member (`worker.member`) is started over ssh. What the ranks there write comes through its connection
and is appended to the lead's own files, as if they had run here: so whoever reads these needs to know nothing of hosts.
"""

import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from worker.attempt import lease_file
from worker.attempt.member_protocol import HERE_PERIOD_S, LOGS, RECORDS, MemberOrder
from worker.attempt.wire import Incoming, Message, Outgoing, as_bytes

_TICK_S = 0.2
_LEAST_SILENCE_S = 4 * HERE_PERIOD_S  # what is shorter means nothing
_GOODBYE_S = 3.0  # for a member to end what is left, before its connection is cut


class MemberFailed(RuntimeError):
    """A host could not be made ready for its ranks; the message names it and says why."""


@dataclass(frozen=True)
class MembersOrder:
    """What a supervisor needs to start its members: plain values, as the order comes as JSON."""

    ssh: Sequence[str] = ()  # up to the address
    command: str = ""  # what runs there, as a shell reads it
    addresses: Sequence[str] = ()
    members: Sequence[dict[str, Any]] = ()  # `MemberOrder`s, in the order of the addresses
    records: str = ""  # where their lines go on the lead
    logs: str = ""
    lease_file: str = ""  # of the lead: until when the ranks may run, all over
    ready_within_s: float = 30.0


@dataclass
class _Connection:
    """One host, at the end of an ssh process. What it said last, by the reading thread."""

    host: str
    process: "subprocess.Popen[bytes]"
    incoming: Incoming
    outgoing: Outgoing
    complaints: Path  # what ssh and the member wrote to their standard error
    ranks: frozenset[int]
    silent_s: float = 0.0  # since it last said anything; not counted while this process stood still itself
    here: float | None = None  # its own clock, when it last said that it is there
    leased: bool = False  # its ranks know until when they may run
    looked: int = 0  # the newest look that it was asked for
    left: tuple[int, int] = (0, -1)  # the newest look that it answered, and how many processes it saw
    broken: str | None = None


class Members:
    """One member process on every host but the lead, each at the end of an ssh connection."""

    def __init__(
        self, connections: Sequence[_Connection] = (), *, files: dict[str, Path] | None = None, silent_s: float = 0.0
    ) -> None:
        self._connections = connections
        self._files = files or {}
        self._lock = threading.Lock()  # of what is sent and of what was heard
        self._heard = threading.Condition(self._lock)
        self._silent_s = silent_s
        self._asked = 0  # looks
        self._since = 0  # only looks after this one count: something was done to the processes meanwhile
        self._closing = False
        self._reader = threading.Thread(target=self._read, name="members", daemon=True)

    @classmethod
    def start(cls, order: MembersOrder) -> "Members":
        """Start all members and wait until each has made its host ready. Raises `MemberFailed`."""
        connections = [
            _connect(order, address, MemberOrder(**member))
            for address, member in zip(order.addresses, order.members, strict=True)
        ]
        files = {RECORDS: Path(order.records), LOGS: Path(order.logs)}
        members = cls(connections, files=files, silent_s=order.ready_within_s)
        members._reader.start()
        try:
            members._wait_until(lambda one: one.here is not None, order.ready_within_s)
            until = lease_file.until(Path(order.lease_file)) or 0.0
            members.extend(until - time.monotonic())
            members._wait_until(lambda one: one.leased, order.ready_within_s)
        except MemberFailed:
            members.close()
            raise
        return members

    @property
    def hosts(self) -> Sequence[str]:
        """Their names, in the order of the ranks."""
        return [one.host for one in self._connections]

    def pids(self) -> Sequence[int]:
        """The connections' own processes here, which are no part of the attempt."""
        return [one.process.pid for one in self._connections if one.process.poll() is None]

    def extend(self, seconds: float) -> None:
        """Let the ranks there run for another so many seconds from now.

        It counts from when each was last heard of, by its own clock: that was not later than now.
        """
        self._silent_s = max(seconds, _LEAST_SILENCE_S)  # then its ranks have left, and cannot be brought back
        for one in self._connections:
            if one.here is not None:
                self._tell(one, {"do": "extend", "since": one.here, "seconds": seconds})

    def lost(self) -> str | None:
        """A sentence that names a host whose connection broke; None while all are there."""
        return next((why for one in self._connections if (why := self._why_lost(one)) is not None), None)

    def ask_to_stop(self) -> None:
        """Put the stop file before the ranks there."""
        for one in self._connections:
            self._tell(one, {"do": "stop"})

    def signal(self, number: int) -> None:
        """Send a signal to every process of the attempt there."""
        self._since = self._asked
        for one in self._connections:
            self._tell(one, {"do": "signal", "number": int(number)})

    def are_gone(self) -> bool:
        """Whether no process of the attempt is left there, by the last word of each; a lost one has none."""
        gone = [self._is_clean(one) or self._why_lost(one) is not None for one in self._connections]
        if all(gone):
            return True
        self._asked += 1
        for one, is_gone in zip(self._connections, gone, strict=True):
            if not is_gone and one.looked == one.left[0]:
                one.looked = self._asked
                self._tell(one, {"do": "look", "number": self._asked})
        return False

    def clean(self) -> Sequence[str]:
        """The hosts that said that no process of the attempt is left and that all their lines were sent."""
        self.are_gone()  # asks those that have not been asked
        return [one.host for one in self._connections if self._is_clean(one) and self._why_lost(one) is None]

    def close(self) -> None:
        """Let the members go: they end what is left and leave."""
        for one in self._connections:
            self._tell(one, {"do": "leave"})
        with self._lock:
            self._closing = True
            for one in self._connections:
                one.outgoing.close()
        give_up_at = time.monotonic() + _GOODBYE_S
        for one in self._connections:
            try:
                one.process.wait(max(0.0, give_up_at - time.monotonic()))
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()
        if self._connections:
            self._reader.join()
        for one in self._connections:
            one.process.stdout.close()  # type: ignore[union-attr]

    def _is_clean(self, one: _Connection) -> bool:
        look, processes = one.left
        return look > self._since and processes == 0

    def _why_lost(self, one: _Connection) -> str | None:
        if one.broken is not None:
            return f"host {one.host}: {one.broken}"
        if one.silent_s > self._silent_s:
            return f"host {one.host}: no word from it for {one.silent_s:.0f} s"
        return None

    def _wait_until(self, condition: Callable[[_Connection], bool], within_s: float) -> None:
        """Until all hosts meet the condition. Raises `MemberFailed`."""
        ones = self._connections
        with self._heard:
            self._heard.wait_for(lambda: any(one.broken for one in ones) or all(map(condition, ones)), within_s)
            for one in ones:
                if one.broken is not None:
                    raise MemberFailed(f"host {one.host}: {one.broken}")
            for one in ones:
                if not condition(one):
                    raise MemberFailed(f"host {one.host}: not ready after {within_s:g} s")

    def _tell(self, one: _Connection, message: Message) -> None:
        with self._lock:
            if one.broken is None and not self._closing:
                with suppress(OSError):  # the reading thread finds out why
                    one.outgoing.send(message)

    def _read(self) -> None:
        """Take in what the hosts say, until all connections have ended."""
        looked_at = time.monotonic()
        while open_ones := {one.incoming.file: one for one in self._connections if one.broken is None}:
            ready, _, _ = select.select(list(open_ones), [], [], _TICK_S)
            before, looked_at = looked_at, time.monotonic()
            for one in open_ones.values():
                one.silent_s += min(looked_at - before, 2 * _TICK_S)
            for file in ready:
                self._take_from(open_ones[file])
            with self._lock:
                for one in open_ones.values():
                    with suppress(OSError):
                        one.outgoing.flush()

    def _take_from(self, one: _Connection) -> None:
        broken = None
        try:
            for message in one.incoming.read():
                self._take(one, message)
        except OSError as error:
            broken = f"its lines cannot be kept: {error}"
        with self._heard:
            one.silent_s = 0.0
            if broken is not None or one.incoming.ended:
                one.broken = broken or _last_words(one)
            self._heard.notify_all()

    def _take(self, one: _Connection, message: Message) -> None:
        match message:
            case {"say": "here", "now": float(now), "leased": bool(leased)}:
                one.here, one.leased = now, leased
            case {"say": "left", "look": int(look), "processes": int(processes)}:
                one.left = (look, processes)
            case {"say": "lines", "kind": str(kind), "rank": int(rank), "text": str(text)} if rank in one.ranks:
                suffix = "jsonl" if kind == RECORDS else "log"
                with (self._files[kind] / f"rank-{rank}.{suffix}").open("ab") as file:
                    file.write(as_bytes(text))


def _connect(order: MembersOrder, address: str, member: MemberOrder) -> _Connection:
    complaints = Path(order.logs).parent / f"member-{member.host}.log"
    with complaints.open("ab") as errors:
        process = subprocess.Popen(
            [*order.ssh, address, order.command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            bufsize=0,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    outgoing = Outgoing(os.dup(process.stdin.fileno()))
    process.stdin.close()
    with suppress(OSError):
        outgoing.send(asdict(member))
    incoming = Incoming(process.stdout.fileno())
    return _Connection(member.host, process, incoming, outgoing, complaints, frozenset(member.ranks))


def _last_words(one: _Connection) -> str:
    """Why a connection ended, in ssh's words or the member's."""
    try:
        lines = one.complaints.read_text("utf-8", "replace").split("\n")
    except OSError:
        lines = []
    said = next((line.strip() for line in reversed(lines) if line.strip()), None)
    return f"the connection broke: {said}" if said else "the connection broke"
