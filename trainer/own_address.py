"""Checks that the ranks of other machines can reach this one, before it connects to them."""

import ipaddress
import os
import socket

from trainer.errors import TrainerError


def check_own_address() -> None:
    """Make sure that this machine has the interface of the ranks, and that its own name means an address for others.

    Horovod 0.28.1 looks one of its addresses up by the machine's own name, whatever interface it is given, and tells it
    to the other ranks. Debian maps the name to 127.0.1.1, so they would look on themselves and abort without a word.
    Raises `TrainerError`.
    """
    rendezvous_ip = os.environ.get("HOROVOD_GLOO_RENDEZVOUS_ADDR")
    if rendezvous_ip is None or ipaddress.ip_address(rendezvous_ip).is_loopback:
        return  # all ranks are on this machine
    name, interface = socket.gethostname(), os.environ["HOROVOD_GLOO_IFACE"]
    if interface not in (present for _, present in socket.if_nameindex()):
        raise TrainerError(f"{name} has no network interface {interface}: it must have the same name on all machines")
    advice = "map it in /etc/hosts to the address at which other machines reach it"
    try:
        own_ip = str(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise TrainerError(f"this machine's own name {name} cannot be looked up ({error}): {advice}") from None
    if ipaddress.ip_address(own_ip).is_loopback:
        raise TrainerError(f"this machine's own name {name} means {own_ip}: {advice}")
