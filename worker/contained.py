"""A process that opens untrusted files, with a limit on its memory and without inherited descriptors.

    python -m worker.contained MODULE

reads a request from its standard input, calls `MODULE.answer` with it and writes what that returns to its standard
output, as JSON. Started by `worker.datasets.containment`, which holds the input open. When the input ends, because the
worker died, this process exits.
"""

import json
import os
import resource
import sys
import threading
from importlib import import_module
from typing import Any

from jobs.runtime.files import PRIVATE_UMASK, keep_temporary_files_in_tmpdir

_NICE = 10  # training has precedence


def main(module: str) -> None:
    """Answer one request; does not return."""
    os.umask(PRIVATE_UMASK)
    keep_temporary_files_in_tmpdir()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries is not part of the answer
    request: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    _limit(request["memory_bytes"])
    threading.Thread(target=_leave_with_the_worker, daemon=True).start()
    try:
        answer = import_module(module).answer(request["order"])
    except MemoryError:
        limit_gb = request["memory_bytes"] / 1e9
        answer = {"refused": f"reading it takes more than {limit_gb:g} GB of memory", "out_of_memory": True}
    except Exception as error:
        from jobs.runtime.space import is_full  # takes long to import

        if not is_full(error):
            raise
        answer = {"no_space": True}
    answers.write(json.dumps(answer))
    answers.close()
    os._exit(0)


def _limit(memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(_NICE)


def _leave_with_the_worker() -> None:
    sys.stdin.buffer.read()  # ends when the other end is closed
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
