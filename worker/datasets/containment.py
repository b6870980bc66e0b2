"""Starts a process that opens untrusted files, and waits for its answer. Called by `worker.datasets.validator`.

Failed      it ended without an answer
GivenUp     it was stopped, because its answer is no longer needed
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

_LOOK_S = 0.1
_END_S = 10.0
_MOST_ANSWER_BYTES = 64 * 1024 * 1024  # thousands of classes with long names


class Failed(RuntimeError):
    """The process ended without an answer; the text says how."""


class GivenUp(RuntimeError):
    """The answer is no longer needed."""


def run_contained(
    module: str,
    request: Mapping[str, Any],
    *,
    environment: Mapping[str, str],
    memory_bytes: int,
    timeout_s: float,
    still_needed: Callable[[], bool],
) -> dict[str, Any]:
    """The result of `module.answer` for the request, in a process of its own. Raises `Failed`, `GivenUp`.

    `still_needed` is called several times a second. The output of the process goes to the worker's log.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "worker.contained", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(environment),
        start_new_session=True,
    )
    try:
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # the process has ended: its exit status says more
            process.stdin.write(json.dumps({"memory_bytes": memory_bytes, "order": request}).encode() + b"\n")
            process.stdin.flush()
        return _wait_for_answer(
            process, give_up_at=time.monotonic() + timeout_s, timeout_s=timeout_s, still_needed=still_needed
        )
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):  # it may wait in the kernel for a disk; it ends when that answers
            process.wait(_END_S)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


def _wait_for_answer(
    process: "subprocess.Popen[bytes]", *, give_up_at: float, timeout_s: float, still_needed: Callable[[], bool]
) -> dict[str, Any]:
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    output = bytearray()
    while True:
        ended = process.poll() is not None
        while chunk := process.stdout.read(65536):
            output += chunk
        if ended:
            break
        if len(output) > _MOST_ANSWER_BYTES:
            raise Failed(f"its answer is longer than {_MOST_ANSWER_BYTES} bytes")
        if time.monotonic() > give_up_at:
            return {"refused": f"reading it took longer than {timeout_s:g} s"}
        if not still_needed():
            raise GivenUp
        time.sleep(_LOOK_S)
    try:
        answer: dict[str, Any] = json.loads(output)
    except ValueError:
        raise Failed(f"it ended with {_exit_text(process.returncode)}") from None
    return answer


def _exit_text(code: int) -> str:
    return f"the signal {signal.Signals(-code).name}" if code < 0 else f"the code {code}"
