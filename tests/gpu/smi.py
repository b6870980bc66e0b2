"""The readings of `nvidia-smi`, and their comparison with Hora's own. Pure, except for `read_smi`."""

import csv
import subprocess
from dataclasses import dataclass

from worker.host.gpus import GpuReading

_COLUMNS = (
    "uuid", "name", "driver_version", "utilization.gpu", "memory.used", "power.draw", "temperature.gpu", "clocks.sm",
)  # fmt: skip
# By how much the two may differ: they are not read at the same moment. Utilization is of a window of a second at most.
# Some drivers count the memory that they keep for themselves in one figure and not in the other.
_TOLERANCES = {
    "percent": 25.0,
    "memory_bytes": 1e9,
    "power_w": 40.0,
    "temperature_c": 3.0,
    "sm_clock_mhz": 200.0,
}


@dataclass(frozen=True)
class SmiCard:
    """A line of `nvidia-smi`."""

    name: str
    driver: str
    reading: GpuReading


def read_smi() -> dict[str, SmiCard]:
    """Each card as `nvidia-smi` sees it now, by UUID."""
    argv = ["nvidia-smi", f"--query-gpu={','.join(_COLUMNS)}", "--format=csv,noheader,nounits"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    return parse_smi(done.stdout)


def parse_smi(text: str) -> dict[str, SmiCard]:
    """The output of `nvidia-smi`. What a card does not report is None: `[N/A]`, `[Not Supported]` or the like."""
    cards = {}
    for uuid, name, driver, *figures in csv.reader(text.splitlines(), skipinitialspace=True):
        percent, used, *rest = (None if figure.startswith("[") else float(figure) for figure in figures)
        cards[uuid] = SmiCard(name, driver, GpuReading(percent, None if used is None else int(used * 2**20), *rest))
    return cards


def differences(before: GpuReading, smi: GpuReading, after: GpuReading) -> list[str]:
    """The figures of `nvidia-smi` that do not lie between two readings of Hora, give or take a tolerance."""
    wrong = []
    for metric, tolerance in _TOLERANCES.items():
        theirs = getattr(smi, metric)
        ours = [value for reading in (before, after) if (value := getattr(reading, metric)) is not None]
        is_known = bool(ours) and theirs is not None
        if not (min(ours) - tolerance <= theirs <= max(ours) + tolerance if is_known else not ours and theirs is None):
            wrong.append(f"{metric} {ours} / {theirs}")
    return wrong
