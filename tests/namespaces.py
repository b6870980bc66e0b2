"""Network namespaces for tests: hosts with an address of their own on a bridge. Only root can make them.

    with network(folder, ("n1", "n2")) as hosts:
        subprocess.run([*hosts.inside("n1"), "ping", "-c1", hosts.ips["n2"]])

Nothing is left behind. Each process ends with the process that started it. Namespaces and links end with the last
process in them, and so does a link of this machine: its other end is in the namespace of the bridge.
"""

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
# Each process dies with the process that started it. With the first process of a PID namespace all others in it die.
HELD = ("setpriv", "--pdeathsig", "KILL", "--")
ALONE = ("unshare", "--net", "--uts", "--pid", "--mount", "--fork", "--mount-proc", "--kill-child", "--")
# Until its input ends, this reaps orphaned processes.
WAIT = "echo ready; while read -r _; do :; done"
_INIT = f"""
set -e
hostname "$1"
mount --bind "$2" /etc/hosts
ip link set lo up
{WAIT}
"""
_TOOLS = ("ip", "unshare", "nsenter", "setpriv", "bash", "mount", "hostname")


def reason_to_skip(tools: Sequence[str] = ()) -> str | None:
    """Why this machine cannot run hosts in namespaces, with these tools too; None if it can."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    if missing := [tool for tool in (*_TOOLS, *tools) if shutil.which(tool, path=path) is None]:
        return f"{', '.join(missing)} not installed"
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    script = "ip link add br0 type bridge && ip link add veth0 type veth peer name veth1 && mount -t tmpfs tmpfs /run"
    tried = subprocess.run([*ALONE, "bash", "-c", script], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"cannot make namespaces: {tried.stderr.strip()}"


@dataclass(frozen=True)
class Network:
    """Hosts with a name, a network and mounts of their own, and this machine, on one bridge. They share its files."""

    own_ip: str
    interface: str  # of this machine
    ips: Mapping[str, str]
    _pids: Mapping[str, int]

    def inside(self, name: str) -> list[str]:
        """The words before a command that run it on a host."""
        return ["nsenter", "-t", str(self._pids[name]), "-n", "-m", "-u", "--"]


@contextmanager
def network(folder: Path, names: Sequence[str]) -> Iterator[Network]:
    """A network with a host of each name. The hosts know each other by name, from a file in the folder."""
    taken = psutil.net_if_addrs()
    number = secrets.choice([number for number in range(256) if f"hosts{number}" not in taken])
    ips = {name: f"10.78.{number}.{place}" for place, name in enumerate(names, start=1)}
    own_ip, interface, pids = f"10.78.{number}.254", f"hosts{number}", dict[str, int]()
    table = folder / "hosts"
    table.write_text("\n".join(["127.0.0.1 localhost", *(f"{ip} {name}" for name, ip in ips.items()), ""]))
    with ExitStack() as opened:
        hub = opened.enter_context(running_process(bridge("bash", "-c", WAIT)))
        connect(os.getpid(), hub.pid, port="here", interface=interface, ip=own_ip)
        for name, ip in ips.items():
            host = ["unshare", "--net", "--mount", "--uts", "--", "bash", "-c", _INIT, "-", name, str(table)]
            pids[name] = opened.enter_context(running_process(host)).pid
            connect(pids[name], hub.pid, port=name, ip=ip)
        yield Network(own_ip, interface, ips, pids)


def bridge(*program: str, ip: str = "") -> list[str]:
    """The command line that runs a program in a namespace with a bridge, which has an address if one is given."""
    address = f"ip addr add {ip}/24 dev br0; " if ip else ""
    link = f"ip link set lo up; ip link add br0 type bridge; {address}ip link set br0 up"
    return ["unshare", "--net", "--", "bash", "-c", f'{link}; exec "$@"', "-", *program]


def connect(pid: int, hub_pid: int, *, port: str, ip: str, interface: str = "eth0") -> None:
    """Connect the network of a process to the bridge of another. `port` is the end of the link at the bridge."""
    veth = (interface, "netns", str(pid), "type", "veth", "peer", "name", port, "netns", str(hub_pid))
    run("ip", "link", "add", *veth)
    run("nsenter", "-t", str(hub_pid), "-n", "ip", "link", "set", port, "up", "master", "br0")
    run("nsenter", "-t", str(pid), "-n", "ip", "addr", "add", f"{ip}/24", "dev", interface)
    run("nsenter", "-t", str(pid), "-n", "ip", "link", "set", interface, "up")


@contextmanager
def running_process(argv: Sequence[str]) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that has printed "ready". It ends with this process, or at the end of the block."""
    process = subprocess.Popen(
        [*HELD, *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        if process.stdout.readline() != b"ready\n":
            raise RuntimeError(process.stderr.read().decode(errors="replace"))
        yield process
    finally:
        process.kill()
        process.communicate()


def run(*argv: str) -> str:
    """What a command prints. It must succeed."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"
    return done.stdout
