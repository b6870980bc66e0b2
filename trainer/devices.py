"""Prints what TensorFlow and Horovod can use, as a line of JSON: `python -m trainer.devices`.

The worker runs it before it offers GPUs, with the cards in CUDA_VISIBLE_DEVICES. It makes no use of the cards: no
context is created on them, and it has ended before the host is registered.
"""

import json
import os
import re
import signal
import tempfile
from contextlib import suppress
from typing import IO, Any

from jobs.runtime.files import PRIVATE_UMASK

_LIMIT_S = 150  # more than the worker waits: if a driver hangs, the process ends although nobody waits for it any more
_MOST_TEXT = 300
_PREFIX = re.compile(r"^.*?\.(cc|cpp|py|h):\d+\] ?")  # time, level and source file of a line in TensorFlow's log
# What TensorFlow logs if it cannot use a card, the most useful first.
_SIGNS = ("Could not load dynamic library", "cuInit", "CUDA_ERROR", "Could not find cuda", "dlopen", "driver version")
_NOT_NEEDED = "nvinfer"  # TensorRT


def main() -> None:
    """Print the answer."""
    os.umask(PRIVATE_UMASK)
    signal.alarm(_LIMIT_S)
    os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "dso_loader=3"}  # names libraries that are missing
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)  # that of TensorFlow's C++ too
        answer = _answer()
        answer["why"] = _why_in(log) or answer.get("why")
    print(json.dumps(answer), flush=True)
    os._exit(0)  # no wait for the threads of TensorFlow


def _answer() -> dict[str, Any]:
    try:
        import tensorflow as tf
    except Exception as error:
        return {"why": f"{type(error).__name__}: {error}"[:_MOST_TEXT]}
    answer: dict[str, Any] = {"version": tf.__version__, "cuda": bool(tf.test.is_built_with_cuda()), "gpus": 0}
    try:
        answer["gpus"] = len(tf.config.list_physical_devices("GPU"))
    except Exception as error:
        answer["why"] = f"{type(error).__name__}: {error}"[:_MOST_TEXT]
    with suppress(Exception):  # `hora doctor` says why Horovod cannot be imported
        import horovod.tensorflow as hvd

        answer["nccl"] = bool(hvd.nccl_built())
    return answer


def _why_in(log: IO[bytes]) -> str | None:
    log.seek(0)
    return why_in(log.read().decode(errors="replace"))


def why_in(log: str) -> str | None:
    """Why TensorFlow lists too few GPUs, from its log. None if it does not say."""
    lines = [_PREFIX.sub("", line).strip() for line in log.splitlines()]
    for sign in _SIGNS:
        for line in lines:
            if sign in line and _NOT_NEEDED not in line:
                return line.split(". ")[0][:_MOST_TEXT]
    return None


if __name__ == "__main__":
    main()
