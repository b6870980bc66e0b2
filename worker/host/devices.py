"""Which slots this host offers: its GPUs if TensorFlow can use them, CPU shares, or both.

The agent registers them. `python -m worker.host.devices` prints them for `hora doctor`. The worker never imports
TensorFlow: a process of its own (`trainer.devices`) says what that can use.
"""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from jobs.runtime.files import PRIVATE_UMASK
from jobs.runtime.settings import Settings, settings
from jobs.scheduling.registration import SlotInfo
from worker.host.gpus import Gpu, find_gpus, why_no_gpus
from worker.host.inherited import inherited
from worker.host.topology import gpu_info

_log = logging.getLogger(__name__)

_PROGRAM = (sys.executable, "-m", "trainer.devices")
_LIMIT_S = 120.0  # importing TensorFlow on a busy machine
_KILLED_S = 5.0
_AT_ONCE = 4
_SET_UP = "`HORA_DEVICE=gpu make setup` installs the one for GPUs"


@dataclass(frozen=True)
class Answer:
    """What TensorFlow says of the cards that it was shown. `version` is None if it could not be asked."""

    version: str | None = None
    cuda: bool = False  # it is built for GPUs
    gpus: int = 0  # that it lists
    nccl: bool | None = None  # Horovod is built with NCCL
    why: str | None = None  # it lists fewer, or cannot be asked


@dataclass(frozen=True)
class Usable:
    """What TensorFlow can use of a host's cards. `unusable` says why not, by UUID."""

    answer: Answer
    unusable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Offer:
    """The slots of a host. `problem` says why they are not what one may expect of it."""

    slots: Sequence[SlotInfo]
    problem: str | None = None


Ask = Callable[[Sequence[str]], Answer]


class Devices(threading.Thread):
    """Asks TensorFlow once what it can use. Until then `offer` is None. Without GPUs it is known at once."""

    def __init__(self, settings: Settings, gpus: Sequence[Gpu], *, program: Sequence[str] = _PROGRAM) -> None:
        super().__init__(name="devices", daemon=True)
        self.on_change: Callable[[], None] = lambda: None
        self._settings = settings
        self._gpus = gpus
        self._question = Question(settings, program)
        self.offer: Offer | None = None if gpus else self._settled(None)

    def run(self) -> None:
        """Ask, unless there is nothing to ask."""
        if self.offer is None:
            usable = usable_of([gpu.uuid for gpu in self._gpus], self._question.ask)
            self.offer = self._settled(usable)
            self.on_change()

    def stop(self, *, wait_s: float = 0.0) -> None:
        """End the question."""
        self._question.stop()
        if wait_s and self.is_alive():
            self.join(wait_s)

    def _settled(self, usable: Usable | None) -> Offer:
        offer = offer_of(self._settings, self._gpus, usable)
        for gpu in self._gpus:
            why = usable.unusable.get(gpu.uuid) if usable is not None else None
            gpu.unusable = f"TensorFlow cannot use it: {why}" if why else None
        if offer.problem is not None:
            _log.warning("%s", offer.problem)
        return offer


class Question:
    """Runs the program that asks TensorFlow, in the environment that ranks get."""

    def __init__(self, settings: Settings, program: Sequence[str] = _PROGRAM, *, limit_s: float = _LIMIT_S) -> None:
        self._program = program
        self._limit_s = limit_s
        self._environment = {**inherited(os.environ), "HOME": str(settings.home)}
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def ask(self, uuids: Sequence[str]) -> Answer:
        """What TensorFlow says if it is shown only these cards. Never raises."""
        try:
            code, output, errors = self._run({**self._environment, "CUDA_VISIBLE_DEVICES": ",".join(uuids)})
        except subprocess.TimeoutExpired:
            return Answer(why=f"it did not answer within {self._limit_s:g} s")
        except OSError as error:
            return Answer(why=f"it cannot be asked: {error}")
        try:
            return Answer(**json.loads(output.splitlines()[-1]))
        except (IndexError, ValueError, TypeError):
            last = (errors.strip() or "no message").splitlines()[-1]
            return Answer(why=f"it cannot be asked: exit code {code}, {last[:200]}")

    def stop(self) -> None:
        """End the program, wherever it is, and start no more."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                _kill(process)

    def _run(self, environment: Mapping[str, str]) -> tuple[int, str, str]:
        with self._lock:
            if self._stopped:
                raise OSError("the worker stops")
            process = subprocess.Popen(
                self._program, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
            self._running.add(process)
        try:
            output, errors = process.communicate(timeout=self._limit_s)
        except subprocess.TimeoutExpired:
            _kill(process)
            with suppress(subprocess.TimeoutExpired):  # a driver that hangs may keep even a killed process
                process.communicate(timeout=_KILLED_S)
            raise
        finally:
            with self._lock:
                self._running.discard(process)
        return process.returncode, output.decode(errors="replace"), errors.decode(errors="replace")


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def usable_of(uuids: Sequence[str], ask: Ask) -> Usable:
    """Which of these cards TensorFlow can use. It is asked about each one only if it does not list them all."""
    answer = ask(uuids)
    if answer.gpus >= len(uuids):
        return Usable(answer)
    if not answer.cuda or len(uuids) == 1:  # or there is no answer
        return Usable(answer, dict.fromkeys(uuids, answer.why or "it does not list it"))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        alone = dict(zip(uuids, pool.map(lambda uuid: ask([uuid]), uuids), strict=True))
    unusable = {uuid: own.why or "it does not list it" for uuid, own in alone.items() if own.gpus == 0}
    # Each alone can be used, but not all together: ranks are shown all cards of their job.
    together = answer.why or f"it lists {answer.gpus} of {len(uuids)}"
    return Usable(answer, unusable or dict.fromkeys(uuids, together))


def offer_of(settings: Settings, gpus: Sequence[Gpu], usable: Usable | None) -> Offer:
    """The slots that the settings ask for, as far as the host has them. `gpus` are empty if HORA_DEVICE is cpu."""
    if settings.device == "cpu":
        return Offer(_cpu_slots(settings.cpu_slots))
    if usable is None:
        problem = f"HORA_DEVICE is gpu, but no GPU is here: {why_no_gpus()}" if settings.device == "gpu" else None
        return Offer([] if problem else _cpu_slots(settings.cpu_slots), problem)
    good = [gpu for gpu in gpus if gpu.uuid not in usable.unusable]
    if not good:
        slots = [] if settings.device == "gpu" else _cpu_slots(settings.cpu_slots)
        return Offer(slots, f"{_count(gpus)} here, but {_why_none(usable.answer)}")
    slots = [SlotInfo(gpu.index, "gpu", gpu.name, gpu.uuid, gpu.memory_bytes) for gpu in gpus]
    slots += _cpu_slots(settings.slots or 0, first=max(gpu.index for gpu in gpus) + 1)
    return Offer(slots, "; ".join(_problems(good, gpus, usable.answer)) or None)


def _cpu_slots(count: int, *, first: int = 0) -> list[SlotInfo]:
    return [SlotInfo(index, "cpu", "CPU share") for index in range(first, first + count)]


def _count(gpus: Sequence[Gpu]) -> str:
    names = ", ".join(sorted({gpu.name for gpu in gpus}))
    return f"1 GPU ({names}) is" if len(gpus) == 1 else f"{len(gpus)} GPUs ({names}) are"


def _why_none(answer: Answer) -> str:
    """Why TensorFlow can use none of the cards."""
    if answer.version is None:
        return f"TensorFlow cannot be used: {answer.why or 'no answer'}"
    if not answer.cuda:
        return f"TensorFlow {answer.version} is built for CPUs: {_SET_UP}"
    return f"TensorFlow {answer.version} can use none: {answer.why or 'it lists none'}"


def _problems(good: Sequence[Gpu], gpus: Sequence[Gpu], answer: Answer) -> list[str]:
    problems = []
    if len(good) < len(gpus):
        problems.append(f"TensorFlow {answer.version} can use {len(good)} of {len(gpus)} GPUs")
    if len(good) > 1 and answer.nccl is False:
        problems.append(f"Horovod is built without NCCL, so GPUs exchange gradients slowly: {_SET_UP}")
    return problems


def device_facts(offer: Offer) -> dict[str, Any]:
    """What a host registers about its offer."""
    return {} if offer.problem is None else {"device_problem": offer.problem}


def main() -> None:
    """Print what this host offers, and why, as JSON."""
    os.umask(PRIVATE_UMASK)
    config = settings()
    gpus = find_gpus() if config.device != "cpu" else []
    usable = usable_of([gpu.uuid for gpu in gpus], Question(config).ask) if gpus else None
    offer = offer_of(config, gpus, usable)
    info = gpu_info(gpus)
    facts = {
        "setting": config.device,
        "no_gpus": why_no_gpus() if config.device != "cpu" and not gpus else None,
        "driver": info.get("driver"),
        "gpus": [{"index": gpu.index, "name": gpu.name, "unusable": _unusable(usable, gpu)} for gpu in gpus],
        "tensorflow": usable.answer.version if usable else None,
        "nccl": usable.answer.nccl if usable else None,
        "slots": {kind: sum(slot.kind == kind for slot in offer.slots) for kind in ("gpu", "cpu")},
        "problem": offer.problem,
    }
    sys.stdout.write(json.dumps(facts) + "\n")


def _unusable(usable: Usable | None, gpu: Gpu) -> str | None:
    return usable.unusable.get(gpu.uuid) if usable is not None else None


if __name__ == "__main__":
    main()
