"""Horovod's own `horovodrun`, started in half a second instead of five, with its rendezvous on loopback.

The one module outside the trainer that imports horovod. Run as `python -m worker.horovodrun ARGS...`.

Two changes, both to Horovod 0.28.1's launcher:

- It imports TensorFlow in the launcher's process only to learn whether Gloo was built in. It was: the
  requirements pin a Horovod that is built so. The question is answered without asking.
- Its rendezvous server listens on all interfaces, without authentication, and unpickles what it is sent
  (CVE-2024-10190). Here it listens on loopback alone, which is all that the ranks of one host need.
"""

from collections.abc import Callable
from typing import Any

from horovod.runner import launch
from horovod.runner.http import http_server


def _gloo_built(verbose: bool = False) -> bool:
    return True


def _on_loopback(server_at: Callable[[tuple[str, int]], Any]) -> tuple[Any, int]:
    """Horovod's `find_port`, for 127.0.0.1 and with the kernel choosing the port."""
    server = server_at(("127.0.0.1", 0))
    return server, server.socket.getsockname()[1]


def main() -> None:
    """Run Horovod's command line with this process's arguments."""
    launch.gloo_built = _gloo_built
    http_server.find_port = _on_loopback
    launch.run_commandline()


if __name__ == "__main__":
    main()
