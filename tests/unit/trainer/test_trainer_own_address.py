"""What a machine must have before a rank connects to ranks of other machines: an interface, and a name for others."""

import socket
from typing import Any

import pytest

from trainer.errors import TrainerError
from trainer.own_address import check_own_address


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of several machines, with an interface eth0."""
    monkeypatch.setattr(socket, "gethostname", lambda: "n1")
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "lo"), (2, "eth0")])
    monkeypatch.setenv("HOROVOD_GLOO_IFACE", "eth0")
    monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_ADDR", "10.0.0.1")


def let_it_mean(monkeypatch: pytest.MonkeyPatch, *ips: str) -> None:
    def addresses(name: str, *_: Any, **__: Any) -> list[Any]:
        assert name == "n1"
        if not ips:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (ip, 0)) for ip in ips]

    monkeypatch.setattr(socket, "getaddrinfo", addresses)


@pytest.mark.parametrize("ips", [["10.0.0.2"], ["192.168.7.2", "127.0.1.1"], ["fe80::1%eth0"]])
def test_a_name_that_means_an_address_for_others_is_right(monkeypatch: pytest.MonkeyPatch, ips: list[str]) -> None:
    let_it_mean(monkeypatch, *ips)
    check_own_address()


@pytest.mark.parametrize("ip", ["127.0.0.1", "127.0.1.1", "::1"])
def test_a_name_that_means_this_machine_alone_is_refused(monkeypatch: pytest.MonkeyPatch, ip: str) -> None:
    let_it_mean(monkeypatch, ip, "10.0.0.2")
    with pytest.raises(TrainerError, match=f"own name n1 means {ip}: map it in /etc/hosts"):
        check_own_address()


def test_a_name_that_means_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    let_it_mean(monkeypatch)
    with pytest.raises(TrainerError, match=r"own name n1 cannot be looked up \(.*not known\): map it in /etc/hosts"):
        check_own_address()


def test_a_machine_without_the_interface_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOROVOD_GLOO_IFACE", "ib0")
    with pytest.raises(TrainerError, match="n1 has no network interface ib0: it must have the same name on all"):
        check_own_address()


@pytest.mark.parametrize("rendezvous", ["127.0.0.1", None])
def test_ranks_of_one_machine_need_no_name(monkeypatch: pytest.MonkeyPatch, rendezvous: str | None) -> None:
    let_it_mean(monkeypatch)
    if rendezvous is None:
        monkeypatch.delenv("HOROVOD_GLOO_RENDEZVOUS_ADDR")
    else:
        monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_ADDR", rendezvous)
    check_own_address()
