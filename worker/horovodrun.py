"""Horovod's own `horovodrun`, which starts in half a second instead of five, and accepts no connections from outside.

The only module outside the trainer that imports horovod. Run as `python -m worker.horovodrun`, with
`--ssh-config FILE --host-names NAMES` for ranks on several hosts, and Horovod's arguments, `--network-interfaces` among
them. On a node of Slurm it gets `--slurm-job NUMBER`: it starts all ranks with srun, and finds the interface itself if
it is not told.

Eight changes, all to Horovod 0.28.1's launcher:

- It imports TensorFlow in the launcher's process only to learn whether Gloo was built in. It was: the
  requirements pin a Horovod that is built so. So the answer is always yes.
- Its rendezvous server listens on all interfaces, without authentication, and unpickles what it is sent
  (CVE-2024-10190). Here it listens only on the interface of the ranks: on loopback for those of one host, on the
  hosts' private one for those of several.
- That server keeps whatever it is sent, by every process that reaches it. Here it takes a limited number of bytes.
- It reaches other hosts with the ssh settings of the user who runs it, and trusts any host key. Here it gets only the
  stack's configuration.
- It tries a connection to every host before it starts a rank there. The supervisor has just done so.
- It starts a rank through a further Python and a shell. Where processes of this host wait to become ranks, it lets one
  of them begin instead.
- On another host ssh starts a connector, which asks the template there for the rank.
- In a job of Slurm it looks up no names: nodes are named as Slurm knows them, which need not be names of machines.
"""

import math
import multiprocessing
import os
import re
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import psutil
from horovod.runner import gloo_run, launch
from horovod.runner.common.util import safe_shell_exec
from horovod.runner.http import http_server
from horovod.runner.util import network, remote
from horovod.runner.util.threads import in_thread, on_event

from jobs.runtime.files import PRIVATE_UMASK
from worker.attempt.slurm_steps import step, without_outer_step
from worker.nursery import connector
from worker.nursery.orders import rank_of
from worker.nursery.parent import socket_of
from worker.nursery.stem import WaitingRank

_MOST_STORED_BYTES = 64 * 1024 * 1024  # ranks store some hundred bytes each
_take = http_server.KVStoreHandler.do_PUT
_execute = safe_shell_exec.execute


def _gloo_built(verbose: bool = False) -> bool:
    return True


def _hosts_were_reached(*_: object, **__: object) -> bool:
    return True


def _listening_on(address: str) -> Callable[[Callable[[tuple[str, int]], Any]], tuple[Any, int]]:
    """Horovod's `find_port` for one address, with the kernel choosing the port."""

    def find_port(server_at: Callable[[tuple[str, int]], Any]) -> tuple[Any, int]:
        server = server_at((address, 0))
        return server, server.socket.getsockname()[1]

    return find_port


def _take_limited(handler: http_server.KVStoreHandler) -> None:
    """`do_PUT` of Horovod's handler, up to `_MOST_STORED_BYTES` for all requests together."""
    length = handler.headers.get("Content-Length", "")
    with handler.server.cache_lock:
        stored_bytes = getattr(handler.server, "stored_bytes", 0) + (int(length) if length.isdecimal() else math.inf)
        if is_allowed := stored_bytes <= _MOST_STORED_BYTES:
            handler.server.stored_bytes = stored_bytes
    if is_allowed:
        _take(handler)
    else:
        handler.close_connection = True  # what it sends is not read
        handler.send_status_code(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


def _start_with_srun(slurm_job: int) -> None:
    """Have Horovod start every rank as a step of this job, also those on this node."""
    variables = without_outer_step(os.environ)
    os.environ.clear()
    os.environ.update(variables)

    def command(local_command: str, host: str, **_: object) -> str:
        return f"{shlex.join([*step(slurm_job, host), 'sh', '-c'])} {local_command}"

    gloo_run.get_remote_command = command
    network.resolve_host_address = lambda host: host
    network.get_local_host_addresses = set


def _start_over_ssh(config: str, names: Sequence[str]) -> None:
    """Have Horovod start ranks on other hosts with this configuration, and warm where there is a template.

    `names` are those of the hosts in the sequence of `-H`, which has addresses.
    """
    # A shell reads the prefix, then a host, then a command that is already quoted.
    remote.SSH_COMMAND_PREFIX = shlex.join(["ssh", "-F", config])
    addresses = [host.rpartition(":")[0] for host in sys.argv[sys.argv.index("-H") + 1].split(",")]
    home = Path(os.environ["HORA_HOME"])
    sockets = {address: str(socket_of(home, name)) for address, name in zip(addresses, names, strict=True)}
    variables = [f"PYTHONPATH={os.environ['PYTHONPATH']}"] if "PYTHONPATH" in os.environ else []
    over_ssh = gloo_run.get_remote_command

    def command(local_command: str, host: str, **about: object) -> str:
        (line,) = shlex.split(local_command)
        folder, _, rank = line.partition(" ; ")  # Horovod changes to its own folder first
        start = shlex.join(["env", *variables, sys.executable, "-m", connector.__name__, sockets[host]])
        whole: str = over_ssh(shlex.quote(f"{folder} ; {start} {rank}"), host=host, **about)
        return whole

    gloo_run.get_remote_command = command


def _interface_to(node: str) -> str:
    """The network interface over which this node reaches another."""
    shown = subprocess.run(["scontrol", "show", "node", "--oneliner", node], capture_output=True, text=True, check=True)
    address = re.search(r"\bNodeAddr=(\S+)", shown.stdout)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address[1] if address else node, 9))  # nothing is sent
        own_ip = probe.getsockname()[0]
    for name, entries in psutil.net_if_addrs().items():
        if any(entry.address == own_ip for entry in entries):
            return name
    raise OSError(f"no network interface of this node has the address {own_ip}, from which it reaches {node}")


def _starting_warm(ranks: list[WaitingRank]) -> Callable[..., int | None]:
    """`safe_shell_exec.execute`, with processes that wait to become a rank. Other commands start as before."""

    def execute(
        command: str,
        env: Mapping[str, str] | None = None,
        stdout: Any = None,
        stderr: Any = None,
        index: int | None = None,
        events: Sequence[threading.Event] | None = None,
        prefix_output_with_timestamp: bool = False,
    ) -> int | None:
        words = shlex.split(command)
        if words[0] != "env" or not ranks:
            code: int | None = _execute(command, env, stdout, stderr, index, events, prefix_output_with_timestamp)
            return code
        argv, variables = rank_of(words)
        rank = ranks.pop()
        forwarding, ends = [], []
        for name, stream in (("stdout", stdout or sys.stdout), ("stderr", stderr or sys.stderr)):
            source, end = multiprocessing.Pipe(duplex=False)
            ends.append(end)
            forwarding.append(
                in_thread(
                    safe_shell_exec.prefix_connection, args=(source, stream, name, index, prefix_output_with_timestamp)
                )
            )
        whole = {**os.environ, **variables, "PWD": os.getcwd()}  # the last one as by the shell
        rank.start(argv, whole, stdout=ends[0].fileno(), stderr=ends[1].fileno())
        for end in ends:
            end.close()
        ended, process = threading.Event(), psutil.Process(rank.process.pid)
        for event in events or ():
            on_event(event, _end_rank, args=(process, ended), stop=ended, silent=True)
        ended_with = rank.process.wait()
        ended.set()
        for thread in forwarding:
            thread.join()
        return ended_with if ended_with >= 0 else 128 - ended_with  # as a shell says it

    return execute


def _end_rank(process: psutil.Process, ended: threading.Event) -> None:
    """End a rank as Horovod does: a signal, and after a while it is killed with all that is below it."""
    process.terminate()
    if ended.wait(safe_shell_exec.GRACEFUL_TERMINATION_TIME_S):
        return
    process.suspend()  # so that it starts nothing more
    for each in [*process.children(recursive=True), process]:
        with suppress(psutil.NoSuchProcess):
            each.kill()


def main(arguments: Sequence[str], ranks: list[WaitingRank] | None = None) -> None:
    """Run Horovod's command line with these arguments. `ranks` wait to become those of this host."""
    os.umask(PRIVATE_UMASK)  # the ranks inherit it
    sys.argv[1:] = arguments
    if ranks:
        safe_shell_exec.execute = _starting_warm(ranks)
    if sys.argv[1] == "--ssh-config":
        _start_over_ssh(config=sys.argv[2], names=sys.argv[4].split(","))
        del sys.argv[1:5]
    elif sys.argv[1] == "--slurm-job":
        _start_with_srun(int(sys.argv[2]))
        del sys.argv[1:3]
        if "--network-interfaces" not in sys.argv:
            other = sys.argv[sys.argv.index("-H") + 1].split(",")[1].rpartition(":")[0]
            sys.argv[1:1] = ["--network-interfaces", _interface_to(other)]
    interface = sys.argv[sys.argv.index("--network-interfaces") + 1]
    # Horovod gives the ranks this same address, by the same function.
    http_server.find_port = _listening_on(network.get_driver_ip([interface]))
    http_server.KVStoreHandler.do_PUT = _take_limited
    launch.gloo_built = _gloo_built
    launch._check_all_hosts_ssh_successful = _hosts_were_reached
    launch.run_commandline()


if __name__ == "__main__":
    main(sys.argv[1:])
