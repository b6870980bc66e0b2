"""Starts a process that looks at what somebody sent, and waits for its answer. Called by `worker.datasets.validator`.

Failed      it ended without an answer
GivenUp     it was stopped, because whoever asked has no use for the answer any more
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
_MOST_ANSWER_BYTES = 64 * 1024 * 1024  # thousands of classes with long names


class Failed(RuntimeError):
    """The process ended without an answer; the text says how."""


class GivenUp(RuntimeError):
    """The answer is of no use any more."""


def ask(
    module: str,
    request: Mapping[str, Any],
    *,
    environment: Mapping[str, str],
    memory_bytes: int,
    timeout_s: float,
    go_on: Callable[[], bool],
) -> dict[str, Any]:
    """What `module.answer` makes of the request in a process of its own. Raises `Failed`, `GivenUp`.

    `go_on` is asked several times a second. What the process prints goes to the worker's own log.
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
        with suppress(BrokenPipeError):  # it is gone: its end says more
            process.stdin.write(json.dumps({"memory_bytes": memory_bytes, "order": request}).encode() + b"\n")
            process.stdin.flush()
        return _answer_of(process, give_up_at=time.monotonic() + timeout_s, timeout_s=timeout_s, go_on=go_on)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


def _answer_of(
    process: "subprocess.Popen[bytes]", *, give_up_at: float, timeout_s: float, go_on: Callable[[], bool]
) -> dict[str, Any]:
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    told = bytearray()
    while True:
        ended = process.poll() is not None
        while chunk := process.stdout.read(65536):
            told += chunk
        if ended:
            break
        if len(told) > _MOST_ANSWER_BYTES:
            raise Failed("it answered without an end")
        if time.monotonic() > give_up_at:
            return {"refused": f"looking at it took longer than {timeout_s:g} s"}
        if not go_on():
            raise GivenUp
        time.sleep(_LOOK_S)
    try:
        answer: dict[str, Any] = json.loads(told)
    except ValueError:
        raise Failed(f"it ended with {_told(process.returncode)}") from None
    return answer


def _told(code: int) -> str:
    return f"the signal {signal.Signals(-code).name}" if code < 0 else f"the code {code}"
