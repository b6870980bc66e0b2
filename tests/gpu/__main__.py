"""`python -m tests.gpu`: check Hora on the GPUs of this machine, and print a table for an issue.

The exit code is 0 if all checks passed, 1 if one failed, and 2 without a GPU.
"""

import argparse
import platform
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import distributions
from pathlib import Path

from jobs.runtime.settings import Settings
from tests.gpu.checks import CHECKS, Machine, Row, Verdict
from tests.gpu.smi import read_smi
from tests.gpu.training import Load, Trainer
from worker.host.devices import Question, offer_of, usable_of
from worker.host.gpus import Gpu, find_gpus, why_no_gpus

_PACKAGES = ("hora", "tensorflow", "tensorflow_cpu", "keras", "horovod")
_LOADS = {"gpu": Load("resnet50", "224x224x3", 64, 60), "cpu": Load("lenet5", "28x28x1", 32, 40)}


def main() -> int:
    """Run the checks and print their table."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=__doc__)
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu", help="cpu: try the program without a GPU")
    parser.add_argument("--only", default=",".join(CHECKS), help=f"some of: {','.join(CHECKS)}")
    parser.add_argument("--batch", type=int, help="of each card; smaller for a card with little memory")
    arguments = parser.parse_args()
    if unknown := set(arguments.only.split(",")) - set(CHECKS):
        parser.error(f"no such check: {', '.join(sorted(unknown))}; there are: {', '.join(CHECKS)}")
    cards: list[Gpu | None] = [None, None]
    if arguments.device == "gpu":
        gpus = find_gpus()
        if why := _why_none_usable(gpus):
            print(f"There is nothing to check. {why}.")
            return 2
        cards = [*gpus]
    facts = _facts(cards)
    load = _LOADS[arguments.device]
    load = Load(load.model, load.shape, arguments.batch or load.batch, load.steps)
    with tempfile.TemporaryDirectory(prefix="hora-gpu-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # the database has a user of its own
        runs = folder / "runs"
        runs.mkdir()
        machine = Machine(cards, load, Trainer(runs, arguments.device), folder)
        rows = [row for check in arguments.only.split(",") for row in _rows(check, machine)]
    lines = [f"- {name}: {value}" for name, value in facts.items()] + [
        "",
        "| check | result | figures |",
        "|---|---|---|",
    ]
    lines += [f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    print("\n".join(lines))
    return 1 if any(verdict is Verdict.FAILED for _, verdict, _ in rows) else 0


def _why_none_usable(cards: Sequence[Gpu]) -> str | None:
    """Why TensorFlow can use no GPU of this machine; None if it can use one."""
    if not cards:
        return f"This machine has no GPU: {why_no_gpus()}"
    settings = Settings(device="gpu")
    offer = offer_of(settings, cards, usable_of([card.uuid for card in cards], Question(settings).ask))
    return None if offer.slots else offer.problem


def _rows(check: str, machine: Machine) -> Iterator[Row]:
    """The rows of a check. One that breaks has a row too, and the others still run."""
    print(f"gpu-test: {check}", file=sys.stderr, flush=True)
    try:
        yield from CHECKS[check](machine)
    except Exception as error:
        yield check, Verdict.FAILED, f"{type(error).__name__}: {error}"


def _facts(cards: list[Gpu | None]) -> dict[str, str]:
    """What to know of the machine."""
    versions = {f"{one.name} {one.version}" for one in distributions() if one.name in _PACKAGES}
    found = {} if cards[0] is None else read_smi()
    return {
        "cards": "; ".join(card.name for card in found.values()) or "none: tried on CPUs",
        "driver": ", ".join({card.driver for card in found.values()}) or "none",
        "versions": ", ".join([*sorted(versions), f"Python {platform.python_version()}"]),
    }


if __name__ == "__main__":
    sys.exit(main())
