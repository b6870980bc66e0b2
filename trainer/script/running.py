"""Runs a script in place of the training loop: starts its process, watches it, and writes the records of its rank.

Called by `trainer.__main__`. Standard library only: pydantic is imported when it costs the script no time any more.
"""

import json
import os
import select
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from jobs.runtime.files import make_private
from jobs.runtime.script_user import give
from trainer.recorder import Recorder
from trainer.script.agreement import Agreement, announce_stop, announced_stop, leave
from trainer.script.channel import Channel, Message
from trainer.script.checkpoints import Checkpoints
from trainer.script.child_environment import child_environment, run_values
from trainer.script.confinement import CannotStart, start
from trainer.script.control import Control
from trainer.script.exits import FAILED_CODE, Exit, exit_of_child
from trainer.script.limits import Limits
from trainer.script.packages import CannotInstall, InstalledSet, Packages, install, requirements_in
from trainer.script.patience import Patience
from trainer.script.relay import Record, Relay
from trainer.script.store import Store
from trainer.script.view import View
from trainer.script.weights import WeightComparison
from trainer.stopping import Stage, StopWatch

_LOOK_S = 0.1
_LIMITS_S = 0.5
_ANNOUNCED_S = 0.5
_TERM_GRACE_S = 0.7  # less than the supervisor gives a rank between SIGTERM and SIGKILL
_MEET_S = 60.0
_DONE = _COMPLETED, _EARLY, _PRUNED = "completed", "early_stopped", "pruned"
_ONCE_S = 1e8  # all ranks say it together once


class ScriptRun:
    """One rank's script, from its folders to the reason of its end."""

    def __init__(
        self, launch: dict[str, Any], started_at: float, recorder: Recorder, watch: StopWatch, *, log: Path
    ) -> None:
        self._launch = launch
        self._script: dict[str, Any] = launch["script"]
        self._started_at = started_at
        self._recorder = recorder
        self._watch = watch
        self._log = log
        self._rank, self._local_rank, self._size = (
            int(os.environ.get(f"HOROVOD_{name}", default))
            for name, default in (("RANK", 0), ("LOCAL_RANK", 0), ("SIZE", 1))
        )
        self._records = Path(launch["records_dir"], f"rank-{self._rank}.jsonl")
        self._store = Store(self._script["store_secret"])
        self._weights = WeightComparison(self._store, rank=self._rank, size=self._size)
        self._child: subprocess.Popen[bytes] | None = None
        self._limits: Limits | None = None
        self._installed: InstalledSet | None = None
        self._agreement: Agreement | None = None
        self._stop_reason: str | None = None
        self._last_look_at = dict.fromkeys(("limits", "announced"), 0.0)

    def run(self) -> Exit:
        """Run the script to its end. Returns the rank's exit: reason, message, code."""
        try:
            bin_dirs, readable = self._environment()
            self._prepare()
            self._start(bin_dirs, readable)
        except (CannotInstall, CannotStart) as error:
            return "script_failed", str(error), FAILED_CODE
        self._watch.stage = Stage.TRAINING
        try:
            ended = self._watch_to_end()
        finally:
            self.kill()
        if self._size > 1 and self._agreement is None:
            leave(self._control, self._store, rank=self._rank)
        self._take_messages(to_the_end=True)
        self._recorder.flush()
        self._end_last_line()
        if ended[0] in _DONE and self._rank == 0:
            self._write(self._relay.summary(stopped_early=ended[0] != _COMPLETED))
        if ended[0] in _DONE:
            ended = self._judge_weights(ended)
        if self._installed is not None:
            os.close(self._installed.lock)
        return ended

    def kill(self) -> None:
        """Kill every process of the script. Safe from any thread."""
        if self._limits is not None:
            self._limits.kill()

    def _environment(self) -> tuple[list[str], list[str]]:
        """The folders of programs that come first, and what must be readable for them. Installs what is needed."""
        needed = self._script.get("packages")
        if needed is not None:
            from_file = requirements_in(Path(needed["file"])) if needed.get("file") else []
            packages = Packages(
                [*needed["requirements"], *from_file], Path(needed["base"]), needed["alone"], Path(needed["folder"]),
                needed["timeout_s"], needed["most_bytes"],
            )  # fmt: skip
            self._installed = install(packages)
            folder = str(self._installed.bin_dir)
            return [folder], [str(self._installed.bin_dir.parent)]
        own = str(Path(sys.executable).parent)
        return [self._script.get("bin_dir") or own], []

    def _prepare(self) -> None:
        """Make the rank's folders, its channel and its run file."""
        launch, script = self._launch, self._script
        self._scratch = Path(script["scratch"], f"rank-{self._rank}")
        run_folder = self._scratch / ".run"
        make_private(run_folder)
        self._channel, self._control = Channel(run_folder / "channel"), Control(run_folder / "control")
        checkpoints = Checkpoints(
            Path(launch["checkpoints_dir"]), attempt=launch["attempt"], keep=launch["spec"]["checkpoint"]["keep"]
        )
        artifacts = Path(launch["artifacts_dir"]) if self._rank == 0 else self._scratch / "artifacts"
        make_private(artifacts)
        self._writable = [self._scratch]
        if self._rank == 0:
            checkpoints.remove_unfinished()
            make_private(checkpoints.own)
            self._writable += [artifacts, checkpoints.own]
        # On other hosts than that of rank 0 a script does not see them, also if the hosts share their storage.
        first = checkpoints.begin() if launch["checkpoints_dir"] in script["readable"] else None
        folders = {
            "channel": str(run_folder / "channel"), "control": str(run_folder / "control"), "artifacts": str(artifacts),
            "checkpoints": str(checkpoints.own), "latest_checkpoint": None if first is None else str(first),
        }  # fmt: skip
        self._run_file = run_folder / "run.json"
        self._run_file.write_bytes(_json(run_values(
            launch, rank=self._rank, size=self._size, local_rank=self._local_rank, folders=folders,
        )))  # fmt: skip
        self._relay = Relay(
            self._write, self._recorder.flush, plan=script["plan"], knows_batch=script["knows_batch"],
            started_at=self._started_at, checkpoints=checkpoints if self._rank == 0 else None,
            patience=self._patience(),
        )  # fmt: skip
        give(self._writable, script.get("user"))

    def _patience(self) -> Patience | None:
        stopping = self._launch["spec"].get("early_stopping")
        if stopping is None or self._rank != 0:
            return None
        from jobs.model.spec import spec_from  # takes long to import

        monitor = stopping["monitor"]
        is_lower_better = spec_from(self._launch["spec"]).is_lower_better(monitor)
        return Patience(
            monitor, patience=stopping["patience"], min_delta=stopping["min_delta"], is_lower_better=is_lower_better
        )

    def _start(self, bin_dirs: list[str], readable: list[str]) -> None:
        script = self._script
        environment = child_environment(
            os.environ, env=script["env"], bin_dirs=bin_dirs, lib_dir=script["lib_dir"], scratch=str(self._scratch),
            run_file=str(self._run_file), master=self._meeting_place(),
        )  # fmt: skip
        shared_memory = Path(script["shared_memory"])
        view = View(
            readable=[*script["readable"], *readable], writable=[*script["writable"], str(self._scratch)],
            temporary=str(self._scratch / "tmp"), shared_memory=str(shared_memory), gpus=self._launch["gpu_uuids"],
        )  # fmt: skip
        self._log_began = self._log.stat().st_size if self._log.exists() else 0
        sys.stdout.flush()
        storage_bytes = script.get("storage_bytes")
        self._child = start(
            script["command"], folder=Path(script["code_dir"]), environment=environment, view=view,
            user=script.get("user"), home=Path(script["home"]), most_file_bytes=storage_bytes,
        )  # fmt: skip
        self._pidfd = os.pidfd_open(self._child.pid)
        is_first_here = self._local_rank == 0  # it counts what the ranks of the host share
        self._limits = Limits(
            self._child.pid, memory_bytes=script.get("memory_bytes"), storage_bytes=storage_bytes,
            folders=[*self._writable, self._log, self._records, *([Path(script["code_dir"])] if is_first_here else [])],
            shared_memory=shared_memory if is_first_here else None, user=script.get("user"),
        )  # fmt: skip

    def _meeting_place(self) -> tuple[str, str]:
        """The address and port where libraries such as torch.distributed let ranks meet: a free port of rank 0."""
        if self._rank == 0:
            with socket.socket() as free:
                free.bind(("", 0))
                port = str(free.getsockname()[1])
            if self._size > 1:
                self._store.put("master-port", port)
        else:
            port = self._store.wait_for("master-port", within_s=_MEET_S) or "0"
        return self._store.address or "127.0.0.1", port

    def _watch_to_end(self) -> Exit:
        assert self._child is not None
        looks = select.poll()
        looks.register(self._pidfd, select.POLLIN)
        looks.register(self._channel.descriptor, select.POLLIN)
        while self._child.poll() is None:
            looks.poll(1000 * _LOOK_S)
            self._take_messages()
            if (ended := self._end_if_necessary()) is not None:
                return ended
            self._agree_to_stop()
        return self._own_end(self._child.returncode)

    def _own_end(self, code: int) -> Exit:
        """The exit of a script that ended by itself. A request to stop explains it if the script got the answer."""
        if code == 0 and self._stop_reason is not None and self._control.has_answered_yes:
            return self._stop_reason, None, 0
        if code != 0 and self._limits and (excess := self._limits.exceeded_at_the_end()) is not None:
            return (*excess, FAILED_CODE)
        return exit_of_child(code, self._log, log_began=self._log_began)

    def _end_last_line(self) -> None:
        """What the rank says next begins a line of its own."""
        with suppress(OSError), self._log.open("rb") as file:
            if file.seek(0, os.SEEK_END) and file.seek(-1, os.SEEK_END) and file.read(1) != b"\n":
                print(flush=True)

    def _end_if_necessary(self) -> Exit | None:
        """End a script that uses too much, or that was sent SIGTERM."""
        if self._is_time("limits", _LIMITS_S) and self._limits and (excess := self._limits.exceeded()) is not None:
            self.kill()
            return (*excess, FAILED_CODE)
        if self._watch.terminated:
            self._terminate()
            if self._watch.asked_by_file:
                return "stop_requested", "it was ended by SIGTERM", 0
            return "peer_lost", "it was ended by SIGTERM: a peer is gone", FAILED_CODE
        return None

    def _terminate(self) -> None:
        assert self._child is not None
        assert self._limits is not None
        self._limits.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(_TERM_GRACE_S)

    def _agree_to_stop(self) -> None:
        """Agree with the other ranks on where to stop, once anybody wants that."""
        if self._agreement is not None:
            return
        reason = None
        if self._watch.asked_by_file:
            reason = _PRUNED if self._watch.finishes else "stop_requested"
        elif self._launch["spec"].get("early_stopping"):
            reason = self._early_stop()
        if reason is not None:
            self._stop_reason = reason
            self._agreement = Agreement(self._control, self._store, rank=self._rank, size=self._size)
            self._agreement.start()

    def _early_stop(self) -> str | None:
        if self._rank == 0:
            if not self._relay.should_stop_early:
                return None
            announce_stop(self._store, _EARLY)
            return _EARLY
        return announced_stop(self._store) if self._is_time("announced", _ANNOUNCED_S) else None

    def _take_messages(self, *, to_the_end: bool = False) -> None:
        for message in self._channel.messages():
            self._take(message)
        while to_the_end and self._channel.has_content():
            for message in self._channel.messages():
                self._take(message)

    def _take(self, message: Message) -> None:
        if message["kind"] != "weights":
            self._relay.take(message)
        elif self._size > 1 and (difference := self._weights.take(message)) is not None:
            self._alert("error", "The ranks have different weights", difference)

    def _judge_weights(self, ended: Exit) -> Exit:
        """The exit of a script that came to its end, after a look at the weights. The code stays: others may go on."""
        if self._size > 1 and (difference := self._weights.at_the_end()) is not None:
            return "weights_differ", difference, ended[2]
        if self._weights.uncompared is not None:
            self._alert("info", "Not all weights of the ranks are compared", self._weights.uncompared)
            self._recorder.flush()
        if self._size > 1 and self._weights.does_same_work and self._rank == 0:
            text = (
                f"All {self._size} ranks end with equal weights, and averaged nothing. One rank gives the same result."
            )
            self._alert("warning", "The ranks do the same work", text)
            self._recorder.flush()
        return ended

    def _alert(self, level: str, title: str, text: str) -> None:
        fields = {"level": level, "title": title, "text": text, "wait_s": _ONCE_S}
        self._relay.take({"kind": "alert", "at": time.time(), **fields})

    def _write(self, record: Record) -> None:
        self._recorder.buffer(_Line(_json(record).decode()))

    def _is_time(self, look: str, period_s: float) -> bool:
        now = time.monotonic()
        if now - self._last_look_at[look] < period_s:
            return False
        self._last_look_at[look] = now
        return True


class _Line:
    """A record that is JSON already, as `Recorder.buffer` takes it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def model_dump_json(self) -> str:
        return self._text


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
