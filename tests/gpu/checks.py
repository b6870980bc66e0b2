"""What `make gpu-test` checks, one function a check. Each gives the rows of its results.

A check that cannot run on this machine says why. With `--device cpu` the same code runs on CPUs, where a card is None.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from hora.service import Service
from hora.stack.control import Stack
from tests import waiting
from tests.acceptance.conftest import rank_pids
from tests.gpu.smi import differences, read_smi
from tests.gpu.training import Figures, Load, Trainer
from worker.host.gpus import Gpu

_FREED_WITHIN_S = 60.0
_MOST_OF_A_CARD = 0.5  # that a small network may take, with memory growth
_NO_GPU = "no GPU"
_ONE_CARD = "this machine has one card"
DIGITS = {
    "dataset": "digits", "batch_size": 64, "batch_per": "global", "learning_rate": 0.001, "epochs": 12,
    "early_stopping": None,
}  # fmt: skip


class Verdict(StrEnum):
    """What a check came to."""

    OK = "ok"
    FAILED = "**failed**"
    NOT_RUN = "not run"


Row = tuple[str, Verdict, str]  # of the table: the check, and its figures


@dataclass(frozen=True)
class Machine:
    """The cards to check, the load of a card, and where to train."""

    cards: Sequence[Gpu | None]
    load: Load
    trainer: Trainer
    folder: Path

    @cached_property
    def plain(self) -> Figures:
        """The load on the first card, as it is by default."""
        return self.trainer.train(self.load.spec(), self.cards[:1])

    @cached_property
    def plain_on_all(self) -> Figures:
        """The load on each card, as it is by default."""
        return self.plain if len(self.cards) == 1 else self.trainer.train(self.load.spec(), self.cards)


def digits(machine: Machine) -> Iterator[Row]:
    """Digits on each card alone, then on all of them; the ranks compare their weights at the end."""
    for name, cards in _each_and_all(machine):
        yield _ok(f"digits, {name}", str(machine.trainer.train(DIGITS, cards)))


def network(machine: Machine) -> Iterator[Row]:
    """The load on each card alone, then on all of them."""
    yield _ok(_named(machine, "card 0"), str(machine.plain))
    for name, cards in _each_and_all(machine)[1:]:
        is_all = len(cards) == len(machine.cards)
        figures = machine.plain_on_all if is_all else machine.trainer.train(machine.load.spec(), cards)
        ratio = figures.samples_per_s / machine.plain.samples_per_s
        yield _ok(_named(machine, name), f"{figures}; {ratio:.2f} times card 0")


def precision(machine: Machine) -> Iterator[Row]:
    """Mixed precision."""
    for kind in ("mixed_float16", "mixed_bfloat16"):
        figures = machine.trainer.train(machine.load.spec(precision=kind), machine.cards[:1])
        yield _beside(kind, figures, "float32", machine.plain)


def compiled(machine: Machine) -> Iterator[Row]:
    """XLA."""
    figures = machine.trainer.train(machine.load.spec(jit=True), machine.cards[:1])
    yield _beside("jit: true", figures, "jit: false", machine.plain)


def lag(machine: Machine) -> Iterator[Row]:
    """Tallies that are read late, and at once."""
    at_once, late = (
        machine.trainer.train(machine.load.spec(), machine.cards[:1], program="tests.gpu.rank", LAG=str(steps))
        for steps in (0, 1)
    )
    yield _beside("tallies one step late", late, "at once", at_once)


def buckets(machine: Machine) -> Iterator[Row]:
    """Buckets and one message, and compressed ones."""
    if len(machine.cards) < 2:
        yield "buckets", Verdict.NOT_RUN, _ONE_CARD
        return
    whole = machine.trainer.train(machine.load.spec(allreduce={"bucket_mb": 10_000}), machine.cards)
    yield _beside("buckets", machine.plain_on_all, "one message", whole)
    smaller = machine.trainer.train(machine.load.spec(allreduce={"compression": "fp16"}), machine.cards)
    yield _beside("fp16", smaller, "one message", whole)


def bare(machine: Machine) -> Iterator[Row]:
    """Bare Horovod with the same network and batch."""
    rate = machine.trainer.bare(machine.load.spec(), machine.cards)
    ratio = machine.plain_on_all.samples_per_s / rate
    yield _ok("Hora / bare Horovod, all cards", f"{ratio:.2f}; bare {rate:.0f} samples/s")


def samples(machine: Machine) -> Iterator[Row]:
    """Hora's samples of a busy card, and those of nvidia-smi."""
    card = machine.cards[0]
    if card is None:
        yield "Hora's samples / nvidia-smi", Verdict.NOT_RUN, _NO_GPU
        return
    with machine.trainer.training(machine.load.spec(epochs=1000), [card]):
        before = card.read()
        smi = read_smi()[card.uuid].reading
        wrong = differences(before, smi, card.read())
    yield "Hora's samples / nvidia-smi", Verdict.FAILED if wrong else Verdict.OK, "; ".join(wrong) or str(smi)


def memory(machine: Machine) -> Iterator[Row]:
    """A small network takes a part of the card, and a killed rank gives it back."""
    card = machine.cards[0]
    if card is None or card.memory_bytes is None:
        yield "memory growth", Verdict.NOT_RUN, _NO_GPU
        return
    free = card.read().memory_bytes or 0
    with machine.trainer.training({**DIGITS, "epochs": 100_000}, [card]) as pid:
        share = ((card.read().memory_bytes or 0) - free) / card.memory_bytes
        verdict = Verdict.OK if 0 < share < _MOST_OF_A_CARD else Verdict.FAILED
        yield "memory growth", verdict, f"digits take {100 * share:.1f} % of the card"
        os.kill(pid, signal.SIGKILL)
        kept = until(lambda: (card.read().memory_bytes or 0) <= free * 1.05, what="its memory is free")
    yield "memory of a killed rank", *kept


def killed(machine: Machine) -> Iterator[Row]:
    """A rank of a job of the service is killed: the job fails, and its slot is free again."""
    home = machine.folder / "home"
    slots = None if machine.cards[0] is not None else 1
    with Stack(home, port=0, slots=slots) as stack, Service(stack.url, stack.token) as client:
        job = client.submit({**DIGITS, "gpus": 1, "epochs": 100_000, "max_restarts": 0})
        until(lambda: bool(client.job(job["id"])["progress"].get("step")), what="it trains")
        os.kill(rank_pids(client, job["id"], 1)[0], signal.SIGKILL)
        ended = client.wait(job["id"], timeout_s=_FREED_WITHIN_S)
        states = [slot["state"] for host in client.hosts() for slot in host["slots"]]
        verdict, waited = until(
            lambda: all(slot["state"] == "free" for host in client.hosts() for slot in host["slots"]),
            what="its slot is free",
        )
    figures = f"the job ended as {ended['end_reason']}; {waited} (slots at its end: {', '.join(states)})"
    yield "killed rank of a job", verdict if ended["status"] == "failed" else Verdict.FAILED, figures


CHECKS: dict[str, Callable[[Machine], Iterator[Row]]] = {
    "digits": digits, "network": network, "precision": precision, "jit": compiled, "lag": lag, "buckets": buckets,
    "bare": bare, "samples": samples, "memory": memory, "killed": killed,
}  # fmt: skip


def until(condition: Callable[[], bool], *, what: str) -> tuple[Verdict, str]:
    """Wait for a condition. Returns whether it came, and a sentence."""
    begun = time.monotonic()
    try:
        waiting.until(condition, within_s=_FREED_WITHIN_S, what=what)
    except AssertionError as error:
        return Verdict.FAILED, str(error)
    return Verdict.OK, f"{what} after {time.monotonic() - begun:.1f} s"


def _each_and_all(machine: Machine) -> list[tuple[str, Sequence[Gpu | None]]]:
    each = [(f"card {number}", [card]) for number, card in enumerate(machine.cards)]
    return each if len(each) == 1 else [*each, ("all cards", list(machine.cards))]


def _named(machine: Machine, cards: str) -> str:
    load = machine.load
    return f"{load.model} on {load.shape}, batch {load.batch}, {cards}"


def _ok(check: str, figures: str) -> Row:
    return check, Verdict.OK, figures


def _beside(name: str, figures: Figures, other_name: str, other: Figures) -> Row:
    """A way to train beside another one, which is no failure where it is slower."""
    ratio = figures.samples_per_s / other.samples_per_s
    return _ok(f"{name} / {other_name}", f"{ratio:.2f}; {name}: {figures}")
