"""A process that looks at what somebody sent: little memory, no descriptors but its own, gone with its worker.

    python -m worker.contained MODULE

reads an order from its standard input, calls `MODULE.answer` with it and writes what that returns to its standard
output, as JSON. Started by `worker.datasets.containment`, which holds the input open for as long as it lives.
"""

import json
import os
import resource
import sys
import threading
from importlib import import_module
from typing import Any

_NICE = 10  # what trains comes first


def main(module: str) -> None:
    """Answer one order; does not return."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    order: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    _limit(order["memory_bytes"])
    threading.Thread(target=_leave_with_the_worker, daemon=True).start()
    try:
        answer = import_module(module).answer(order["order"])
    except MemoryError:
        answer = {"refused": f"it takes more than {order['memory_bytes'] / 1e9:g} GB of memory to look at it"}
    answers.write(json.dumps(answer))
    answers.close()
    os._exit(0)


def _limit(memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(_NICE)


def _leave_with_the_worker() -> None:
    sys.stdin.buffer.read()  # ends when nobody holds the other end any more
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
