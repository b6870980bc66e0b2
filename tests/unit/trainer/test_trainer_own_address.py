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


@pytest.mark.parametrize(
    ("ips", "interface", "sentence"),
    [
        *(([ip, "10.0.0.2"], "eth0", f"own name n1 means {ip}: map it in") for ip in ("127.0.0.1", "127.0.1.1", "::1")),
        ([], "eth0", r"own name n1 cannot be looked up \(.*not known\): map it in /etc/hosts"),
        (["10.0.0.2"], "ib0", "n1 has no network interface ib0: it must have the same name on all"),
    ],
)
def test_a_machine_that_others_cannot_reach_is_refused(
    monkeypatch: pytest.MonkeyPatch, ips: list[str], interface: str, sentence: str
) -> None:
    let_it_mean(monkeypatch, *ips)
    monkeypatch.setenv("HOROVOD_GLOO_IFACE", interface)
    with pytest.raises(TrainerError, match=sentence):
        check_own_address()


@pytest.mark.parametrize("rendezvous", ["127.0.0.1", None])
def test_ranks_of_one_machine_need_no_name(monkeypatch: pytest.MonkeyPatch, rendezvous: str | None) -> None:
    let_it_mean(monkeypatch)
    if rendezvous is None:
        monkeypatch.delenv("HOROVOD_GLOO_RENDEZVOUS_ADDR")
    else:
        monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_ADDR", rendezvous)
    check_own_address()
