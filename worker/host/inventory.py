"""The facts that a host registers, and whether other hosts can reach it.

Used by the agent and by the ssh server of the worker (`worker.host.sshd`).
"""

import hashlib
import json
import platform
import socket
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import psutil

from jobs.runtime.settings import Settings
from worker.host.ssh import SshUnusable, prepare, user_name

_VERSIONS = ("hora", "tensorflow", "tensorflow-cpu", "horovod")


@dataclass(frozen=True)
class Endpoint:
    """The address of this host for other hosts."""

    address: str  # a name or an IP address
    ip: str  # its IPv4 address
    interface: str


def host_info(settings: Settings, endpoint: Endpoint | None) -> dict[str, Any]:
    """The facts to store about this host. Hosts with equal `peers` can work together, if both have an address."""
    info = {
        "cores": psutil.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "python": platform.python_version(),
        "system": platform.platform(),
        "versions": _versions(),
    }
    if endpoint is not None:
        info |= {"interface": endpoint.interface, "peers": _peers(settings, endpoint)}
    return info


def find_endpoint(settings: Settings) -> Endpoint:
    """The address of this host for other hosts. Writes its ssh files. Raises `SshUnusable` if they cannot reach it."""
    prepare(settings)
    addresses = _addresses()
    if settings.address is not None and ":" in settings.address:
        raise SshUnusable(f"HORA_ADDRESS {settings.address} is an IPv6 address, but Horovod accepts only IPv4")
    interface = settings.network_interface
    if interface is None:
        if settings.address is None:
            raise SshUnusable("neither HORA_NETWORK_INTERFACE nor HORA_ADDRESS is set")
        ip = _resolved(settings.address)
        interface = next((name for name, ips in addresses.items() if ip in ips), None)
        if interface is None:
            raise SshUnusable(f"HORA_ADDRESS {settings.address} ({ip}) is on no network interface of this machine")
    if not addresses.get(interface):
        raise SshUnusable(f"network interface {interface} has no IPv4 address")
    ip = addresses[interface][-1]  # the one that Horovod uses
    if ip.startswith("127."):
        raise SshUnusable(f"network interface {interface} is loopback")
    _check_own_name(addresses[interface])
    return Endpoint(settings.address or ip, ip, interface)


def _check_own_name(ips: list[str]) -> None:
    """Make sure that the machine's own name resolves to one of these addresses.

    Horovod 0.28.1 looks one of its addresses up by that name, whatever interface it is given, and passes that address
    to the ranks on other hosts. Debian maps the name to 127.0.1.1, so they would look on themselves. A name that cannot
    be looked up crashes the rank.
    """
    name = socket.gethostname()
    try:
        own_ip = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0]
    except OSError as error:
        raise SshUnusable(
            f"this machine's own name {name} cannot be looked up ({error}): add it to /etc/hosts"
        ) from None
    if own_ip not in ips:
        raise SshUnusable(
            f"this machine's own name {name} means {own_ip}, and Horovod passes that to the other hosts: "
            f"map it to {ips[-1]} in /etc/hosts"
        )


def _addresses() -> dict[str, list[str]]:
    """The IPv4 addresses of each network interface."""
    return {
        name: [entry.address for entry in entries if entry.family == socket.AF_INET]
        for name, entries in psutil.net_if_addrs().items()
    }


def _resolved(address: str) -> str:
    try:
        return socket.gethostbyname(address)
    except OSError as error:
        raise SshUnusable(f"HORA_ADDRESS {address} cannot be looked up: {error}") from None


def _versions() -> dict[str, str]:
    versions = {}
    for name in _VERSIONS:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def _peers(settings: Settings, endpoint: Endpoint) -> str:
    """A fingerprint of everything that must be equal on hosts that work together: ranks get one value for all hosts."""
    shared_values = [
        endpoint.interface, str(settings.home), sys.executable, user_name(), settings.ssh_port,
        settings.data_root_list, settings.model_list, _versions(),
        settings.code, settings.code_user, settings.environments, settings.code_requirements,
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(shared_values).encode()).hexdigest()[:12]
