"""The part of an attempt on a host that is not its lead: `python -m worker.member`, which the supervisor starts there.

A member does for its host's ranks what the supervisor does on the lead: it gives them their launch file, keeps their
lease, asks them to stop, ends them, and sends what they write. It has no token and no database. It imports little
and starts at once. It does not carry the attempt's mark. `worker.attempt.member_protocol` lists its messages.

When its input ends, or the lease of its ranks expires, it kills them and exits. The lease counts from a time that the
member sent itself, so a message that was delayed for long does not extend it.
"""

import errno
import json
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jobs.model.os_errors import in_words
from jobs.runtime import script_user, shared_memory
from jobs.runtime.files import PRIVATE_UMASK, make_private
from worker.attempt import lease_file, stop_file
from worker.attempt.code_folder import BadCode, hand_over, unpack_code
from worker.attempt.code_transfer import receive_code
from worker.attempt.gpu_use import gpus_in_use, in_use_text
from worker.attempt.member_protocol import HERE_PERIOD_S, LOGS, RECORDS, SAYS_WHY, MemberTask
from worker.attempt.niceness import be_polite
from worker.attempt.processes import pids_with_mark, signal_marked, sweep
from worker.attempt.wire import Incoming, Message, Outgoing, as_text
from worker.sampling.node_sampler import NodeSampler

_TICK_S = 0.1
_READ_BYTES = 64 * 1024  # of one file in one message
_NOTE_BYTES = 1024  # as in `jobs.model.records`, which takes long to import
_FIRST_LEASE_S = 60.0  # until the first `extend`: the other hosts may need this long to start


@dataclass
class _Tail:
    """A file that a rank of this host appends to."""

    kind: str
    rank: int
    path: Path
    offset: int = 0

    def read(self) -> bytes:
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                content = file.read(_READ_BYTES)
        except FileNotFoundError:
            return b""
        self.offset += len(content)
        return content


@dataclass
class _Note:
    """The note of a rank of this host: what it says while it cannot write its records. See `worker.attempt.notes`."""

    rank: int
    path: Path
    sent: bytes = b""

    def prepare(self) -> None:
        self.sent = b" " * (_NOTE_BYTES - 1) + b"\n"
        self.path.write_bytes(self.sent)

    def news(self) -> bytes | None:
        """The note, if it has changed since it was sent."""
        with suppress(FileNotFoundError):
            text = self.path.read_bytes()
            if text != self.sent:
                self.sent = text
                return text
        return None


class Member:
    """One host's part of one attempt."""

    def __init__(self, task: MemberTask, incoming: Incoming, outgoing: Outgoing) -> None:
        self._task = task
        self._incoming = incoming
        self._outgoing = outgoing
        launch = task.launch
        self._launch_file = Path(task.launch_file)
        self._stop_file, self._lease_file = Path(launch["stop_path"]), Path(launch["lease_path"])
        records, logs = Path(launch["records_dir"]), Path(launch["logs_dir"])
        self._tails = [_Tail(RECORDS, rank, records / f"rank-{rank}.jsonl") for rank in task.ranks]
        self._tails += [_Tail(LOGS, rank, logs / f"rank-{rank}.log") for rank in task.ranks]
        self._notes = [_Note(rank, records / f"rank-{rank}.note") for rank in task.ranks]
        self._lease_ends_at = time.monotonic() + _FIRST_LEASE_S
        self._has_lease = False
        self._here_sent_at = 0.0
        self._unanswered_look: int | None = None  # a look to answer once all lines are sent: no process is left
        self._is_told_to_leave = False
        self._is_leaving = self._has_said_so = False  # Slurm takes the node back
        self._sampler: NodeSampler | None = None
        if task.of_slurm:
            signal.signal(signal.SIGTERM, self.give_way)

    def prepare(self, messages: Sequence[Message] = ()) -> None:
        """Create the folders and then the launch file, without which no rank starts.

        `messages` came after the task. Raises `OSError`, also if another process computes on the GPUs of this host's
        ranks, and `BadCode`.
        """
        launch = self._task.launch
        if self._task.own_gpus:
            launch["gpu_uuids"] = _gpus_from_slurm(self._task.own_gpus)
        elif in_use := gpus_in_use(launch["gpu_uuids"]):
            raise OSError(errno.EBUSY, in_use_text(self._task.host, in_use))
        for folder in (launch["records_dir"], launch["logs_dir"], self._task.scratch, self._launch_file.parent):
            make_private(Path(folder))
        stop_file.prepare(self._stop_file)
        for note in self._notes:
            note.prepare()
        if self._task.code_bytes:
            self._prepare_script(messages)
        unfinished = self._launch_file.with_suffix(".new")
        unfinished.write_text(json.dumps(launch, indent=2))
        os.replace(unfinished, self._launch_file)
        if self._task.of_slurm:
            period_s = self._task.sample_period_s
            self._sampler = NodeSampler(
                self._task.mark, self._task.ranks, launch["gpu_uuids"],
                period_s=period_s, slots_of_rank=self._task.slots_of_rank,
            )  # fmt: skip
            self._sampler.start()

    def _prepare_script(self, messages: Sequence[Message]) -> None:
        script, archive = self._task.launch["script"], Path(self._task.code_archive)
        for path in (script["train"], script["validation"], script["bin_dir"]):
            if path is not None and "://" not in path and not os.path.exists(path):
                raise OSError(errno.ENOENT, f"there is no {path}, which the lead host has")
        rest = receive_code(
            messages, self._incoming, archive, self._task.code_bytes,
            is_too_late=lambda: time.monotonic() >= self._lease_ends_at,
        )  # fmt: skip
        digest = self._task.launch["spec"]["code"]
        unpack_code(archive, digest=digest, code_dir=Path(script["code_dir"]), lib_dir=Path(script["lib_dir"]))
        hand_over(script)
        archive.unlink()
        for message in rest:
            self._carry_out(message)

    def run(self) -> str:
        """Serve until it is time to exit. Returns the reason."""
        while not self._is_told_to_leave:
            if self._is_leaving and not self._has_said_so:
                self._has_said_so = True
                self._outgoing.send({"say": "leaving"})
            if time.monotonic() - self._here_sent_at >= HERE_PERIOD_S:
                self._send_here()
            waiting = [sys.stdout] if self._outgoing.pending else []
            select.select([sys.stdin], waiting, [], _TICK_S)
            for message in self._incoming.read():
                self._carry_out(message)
            if self._incoming.ended:
                return "the connection to the lead host ended"
            if time.monotonic() >= self._lease_ends_at:
                return "the lease of its ranks was not extended"
            self._outgoing.flush()
            self._send_lines()
        return "the lead host asked it to leave"

    def give_way(self, *_: object) -> None:
        """Tell the supervisor that Slurm takes the node back: a handler of SIGTERM, which Slurm sends to all steps.

        The ranks end with it. So this only says why. Slurm kills what is left some time later.
        """
        self._is_leaving = True

    def clean_up(self) -> None:
        """End every process of the attempt and remove its temporary files."""
        self._remove_launch_file()
        sweep(self._task.mark)
        script = self._task.launch.get("script")  # a lead of the version before knows no scripts
        of_script = [] if script is None else [script["code_dir"], script["lib_dir"], script["shared_memory"]]
        user = None if script is None else script["user"]
        script_user.remove([Path(folder) for folder in (self._task.scratch, *of_script)], user)
        shared_memory.remove_unused(user)

    def _send_here(self) -> None:
        self._here_sent_at = time.monotonic()
        self._send_samples()
        self._send_notes()
        self._outgoing.send({"say": "here", "now": self._here_sent_at, "leased": self._has_lease})

    def _carry_out(self, message: Message) -> None:
        match message.get("do"):
            case "extend":
                self._extend(message["since"] + message["seconds"])
            case "stop":
                with suppress(OSError):  # signals follow
                    stop_file.make(self._stop_file, finish=message.get("finish", False))
            case "signal":
                signal_marked(self._task.mark, message["number"])
            case "look":
                self._answer_look(message["number"])
            case "leave":
                self._is_told_to_leave = True

    def _extend(self, until: float) -> None:
        self._lease_ends_at = until
        if self._has_lease:
            with suppress(OSError):  # then the ranks leave at the end of their lease
                lease_file.extend(self._lease_file, until)
            return
        lease_file.extend(self._lease_file, until)
        self._has_lease = True
        self._send_here()

    def _answer_look(self, look: int) -> None:
        """Send how many processes are left. The number 0 is sent only after the last line and sample."""
        self._remove_launch_file()
        processes = len(pids_with_mark(self._task.mark)) or self._gpus_in_use()
        if processes:
            self._outgoing.send({"say": "left", "look": look, "processes": processes})
        else:
            self._unanswered_look = look

    def _remove_launch_file(self) -> None:
        """Without it a rank that starts only now does nothing. On a read-only disk it stays."""
        with suppress(OSError):
            self._launch_file.unlink()

    def _gpus_in_use(self) -> int:
        if self._task.own_gpus:  # Slurm guards them, and its numbers are no UUIDs
            return 0
        return len(gpus_in_use(self._task.launch["gpu_uuids"], within_s=0.0))

    def _send_samples(self) -> None:
        for sample in self._sampler.take() if self._sampler is not None else ():
            self._outgoing.send({"say": "sample", **sample})

    def _send_notes(self) -> None:
        for note in self._notes:
            if text := note.news():
                self._outgoing.send({"say": "note", "rank": note.rank, "text": as_text(text)})

    def _send_lines(self) -> None:
        """Send what the ranks wrote, unless the lead has not taken what was sent before."""
        if self._outgoing.pending:
            return
        sent = False
        for tail in self._tails:
            if content := tail.read():
                sent = True
                self._outgoing.send({"say": "lines", "kind": tail.kind, "rank": tail.rank, "text": as_text(content)})
        if self._unanswered_look is not None and not sent:
            self._send_samples()
            self._send_notes()
            self._outgoing.send({"say": "left", "look": self._unanswered_look, "processes": 0})
            self._unanswered_look = None


def _gpus_from_slurm(count: int) -> list[str]:
    """The GPUs that Slurm gave to this process, as CUDA names them. Raises `OSError` if they are fewer."""
    given = [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu not in ("", "-1")]
    if len(given) < count:
        raise OSError(errno.ENODEV, f"Slurm gave {len(given)} GPUs to node {os.uname().nodename}, and not {count}")
    return given[:count]


def main() -> int:
    """Serve one attempt."""
    os.umask(PRIVATE_UMASK)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    be_polite()
    incoming, outgoing = Incoming(sys.stdin.fileno()), Outgoing(sys.stdout.fileno())
    messages: list[Message] = []
    while not messages:
        select.select([sys.stdin], [], [], _FIRST_LEASE_S)
        messages = incoming.read()
        if incoming.ended:
            return 1
    member = Member(MemberTask(**messages[0]), incoming, outgoing)
    try:
        member.prepare(messages[1:])
        reason = member.run()
    except OSError as error:
        reason = in_words(error)
    except BadCode as error:
        reason = str(error)
    finally:
        member.clean_up()
    with suppress(OSError):
        sys.stderr.write(f"{SAYS_WHY}{reason}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
