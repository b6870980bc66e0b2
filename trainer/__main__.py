"""Where a rank begins: its log and first record, the stop watch, then the run. Started by horovodrun.

Only the standard library is imported before the first line is written, because people wait for that line: pydantic
takes 0.1 s and TensorFlow more than 1 s. So the launch file is first read as plain JSON.
"""

import json
import os
import socket
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from jobs.runtime.files import FULL, PRIVATE_UMASK, keep_temporary_files_in_tmpdir, make_private
from trainer import errors
from trainer.log_stream import log_stream
from trainer.note import Note
from trainer.recorder import Recorder
from trainer.script.drop_rights import drop_capabilities
from trainer.stopping import LeaseFile, StopWatch


def main(launch_dir: str) -> None:
    """Run this process's rank of the job in the launch file; does not return."""
    os.umask(PRIVATE_UMASK)  # on other hosts the ranks inherit the one of a login shell
    started_at = time.time()
    rank, local_rank, size = (int(os.environ.get(f"HOROVOD_{name}", default)) for name, default in _RANK_VARIABLES)
    # One file for each host, with its own paths and devices. Named as in `jobs.model.launch.launch_file_name`.
    host_file = f"{os.environ.get('HOROVOD_HOSTNAME', 'localhost')}.json"
    launch_values: dict[str, Any] = json.loads(Path(launch_dir, host_file).read_bytes())
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(launch_values.get("gpu_uuids", [])) or "-1"
    note = Note(Path(launch_values["records_dir"], f"rank-{rank}.note"))
    _redirect_output(Path(launch_values["logs_dir"], f"rank-{rank}.log"))
    host, pid = socket.gethostname(), os.getpid()
    print(f"rank {rank} of {size} started on {host}, pid {pid}", flush=True)
    recorder = Recorder(Path(launch_values["records_dir"], f"rank-{rank}.jsonl"), note)
    recorder.write_line(
        json.dumps(
            {"kind": "rank_started", "at": started_at, "rank": rank, "local_rank": local_rank, "host": host, "pid": pid}
        )
    )
    lease_path = launch_values.get("lease_path")
    watch = StopWatch(
        Path(launch_values["stop_path"]),
        on_leave=lambda reason_text: _leave_without_peers(reason_text, recorder),
        lease=LeaseFile(Path(lease_path) if lease_path else None),
        on_lease_over=lambda: _leave_at_lease_end(recorder),
    )
    watch.start()
    run = _run_to_exit if launch_values.get("script") is None else _run_script
    _leave(*run(launch_values, started_at, recorder, watch), recorder)


_RANK_VARIABLES = (("RANK", 0), ("LOCAL_RANK", 0), ("SIZE", 1))


def _redirect_output(path: Path) -> None:
    """Append this process's stdout and stderr, those of C libraries too, to `path`.

    From here on this process does not hold horovodrun's pipes: the launcher waits for every process that does.
    """
    try:
        make_private(path.parent)
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in FULL:
            raise
        log = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    sys.stdout, sys.stderr = log_stream(1), log_stream(2)


_before_leaving: list[Callable[[], None]] = []


def _run_script(
    launch_values: dict[str, Any], started_at: float, recorder: Recorder, watch: StopWatch
) -> tuple[str, str | None, int]:
    """(reason, message, exit code) of a script. Never raises."""
    from trainer.script.running import ScriptRun

    log = Path(launch_values["logs_dir"], f"rank-{os.environ.get('HOROVOD_RANK', '0')}.log")
    script_run = ScriptRun(launch_values, started_at, recorder, watch, log=log)
    _before_leaving.append(script_run.kill)
    try:
        return script_run.run()
    except BaseException as error:
        return errors.exit_of_error(error, stop_asked=watch.asked_by_file)


def _run_to_exit(
    launch_values: dict[str, Any], started_at: float, recorder: Recorder, watch: StopWatch
) -> tuple[str, str | None, int]:
    """(reason, message, exit code) of the run. Never raises."""
    per_gpu_batch = None
    if os.geteuid() != 0:  # a worker that may change to the user of scripts hands these to all below it
        drop_capabilities()
    keep_temporary_files_in_tmpdir()
    try:
        # What is slow comes after the first line.
        from jobs.model.launch import Launch
        from jobs.model.plan import resolve_plan

        launch = Launch.model_validate(launch_values)
        per_gpu_batch = resolve_plan(launch.spec, None, gpus=launch.gpus).per_gpu_batch
        runner = _import_runner("trainer.probe" if launch.spec.probe else "trainer.session")
        return errors.exit_of_outcome(runner.run(launch, started_at, recorder, watch))
    except BaseException as error:
        roots = launch_values.get("data_roots", [])
        return errors.exit_of_error(
            error, stop_asked=watch.asked_by_file, per_gpu_batch=per_gpu_batch, data_roots=roots
        )


def _import_runner(name: str) -> ModuleType:
    """Import the module that runs the job, with TensorFlow, Keras and Horovod."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # Keras imports these where they are installed, for uses that nothing here has: a third of the start. None in
    # their place makes the imports fail, which Keras allows for.
    needless = dict.fromkeys(("matplotlib", "pandas", "sklearn"))
    sys.modules.update(needless)  # type: ignore[arg-type]
    try:
        return import_module(name)
    finally:
        for module in needless:
            del sys.modules[module]


def _leave_without_peers(reason_text: str, recorder: Recorder) -> None:
    """Leave without asking the peers. The code is not 0: after 0 horovodrun would let them wait for this rank."""
    _leave("stop_requested", reason_text, errors.LEFT_WITHOUT_PEERS_CODE, recorder)


def _leave_at_lease_end(recorder: Recorder) -> None:
    """Leave because nobody extends the lease. Save nothing: the job may soon run elsewhere."""
    _leave("lease_expired", "nobody extended the lease of this rank", errors.LEFT_WITHOUT_PEERS_CODE, recorder)


def _leave(reason: str, message: str | None, code: int, recorder: Recorder) -> None:
    """Write the exit record and end the process at once, from whichever thread.

    os._exit and not sys.exit: stopping TensorFlow's and Horovod's threads can take seconds, and can hang if a peer is
    gone. Everything that must reach the disk is written by now.
    """
    for end in _before_leaving:
        end()
    failed = code != 0 and reason != "stop_requested"
    print(("error: " if failed else "") + f"leaving: {reason}" + (f": {message}" if message else ""), flush=True)
    sys.stderr.flush()
    recorder.close(json.dumps({"kind": "exit", "at": time.time(), "reason": reason, "message": message}))
    os._exit(code)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m trainer LAUNCH_DIR")
    main(sys.argv[1])
