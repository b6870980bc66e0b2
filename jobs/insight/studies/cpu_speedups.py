"""Compares cells with the same cell on CPUs, where a study varies `device`. Pure; called by `report`."""

from collections.abc import Sequence

from jobs.insight.studies.figures import other_values, ratio
from jobs.views.studies import CellReport


def with_cpu_speedups(cells: Sequence[CellReport]) -> list[CellReport]:
    """The cells with their speed-ups against the same cell on CPUs, with the fewest slots that have a result.

    That cell itself has a speed-up of 1. Unchanged if no cell is said to be on CPUs.
    """
    bases: dict[str, CellReport] = {}
    for cell in sorted(cells, key=lambda cell: cell.gpus):
        if cell.values.get("device") == "cpu" and cell.wall_s is not None:
            bases.setdefault(other_values(cell, "device"), cell)
    return [_against(cell, bases.get(other_values(cell, "device"))) for cell in cells]


def _against(cell: CellReport, base: CellReport | None) -> CellReport:
    if base is None:
        return cell
    return cell.model_copy(
        update={
            "speedup_vs_cpu": ratio(base.wall_s, cell.wall_s),
            "throughput_vs_cpu": ratio(cell.samples_per_s, base.samples_per_s),
        }
    )
