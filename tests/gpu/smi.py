"""The readings of `nvidia-smi`, and their comparison with Hora's own. Pure, except for `read_smi`."""

import csv
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from tests.gpu.rows import Row, Verdict
from worker.host.gpus import GpuReading

_MIB = 2**20
_COLUMNS = (
    "uuid", "name", "driver_version", "memory.total", "utilization.gpu", "memory.used", "power.draw",
    "temperature.gpu", "clocks.sm",
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

    uuid: str
    name: str
    driver: str
    memory_bytes: float | None
    reading: GpuReading


def read_smi() -> dict[str, SmiCard]:
    """Each card as `nvidia-smi` sees it now, by UUID."""
    argv = ["nvidia-smi", f"--query-gpu={','.join(_COLUMNS)}", "--format=csv,noheader,nounits"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    return parse_smi(done.stdout)


def parse_smi(text: str) -> dict[str, SmiCard]:
    """The output of `nvidia-smi`. What a card does not report is None: `[N/A]`, `[Not Supported]` or the like."""
    cards = {}
    for values in csv.reader(text.splitlines(), skipinitialspace=True):
        uuid, name, driver, *figures = values
        total, percent, used, power, temperature, clock = map(_figure, figures)
        cards[uuid] = SmiCard(
            uuid, name, driver, None if total is None else total * _MIB,
            GpuReading(percent, None if used is None else int(used * _MIB), power, temperature, clock),
        )  # fmt: skip
    return cards


def _figure(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def compared(before: GpuReading, smi: GpuReading, after: GpuReading) -> Row:
    """Whether the figures of `nvidia-smi` lie between two readings of Hora, give or take a tolerance."""
    pairs: Mapping[str, tuple[list[float], float | None]] = {
        metric: (
            [value for reading in (before, after) if (value := getattr(reading, metric)) is not None],
            getattr(smi, metric),
        )
        for metric in _TOLERANCES
    }
    wrong = [metric for metric, (ours, theirs) in pairs.items() if not _agree(ours, theirs, _TOLERANCES[metric])]
    figures = "; ".join(f"{metric} {_shown(ours)} / {_shown([theirs])}" for metric, (ours, theirs) in pairs.items())
    verdict = Verdict.FAILED if wrong else Verdict.OK
    return Row("Hora's samples / nvidia-smi", verdict, (f"differ: {', '.join(wrong)}. " if wrong else "") + figures)


def _agree(ours: list[float], theirs: float | None, tolerance: float) -> bool:
    if not ours or theirs is None:
        return not ours and theirs is None
    return min(ours) - tolerance <= theirs <= max(ours) + tolerance


def _shown(values: list[float] | list[float | None]) -> str:
    return "..".join("none" if value is None else f"{value:.0f}" for value in values) or "none"
