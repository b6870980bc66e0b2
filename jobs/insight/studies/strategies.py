"""Says which strategy is faster on several GPUs, where a study varies it. Pure; called by `findings`.

On one GPU both do the same. So these cells count for nothing here.
"""

from collections.abc import Iterator, Sequence
from statistics import geometric_mean

from jobs.insight.studies.figures import other_values, ratio
from jobs.insight.studies.phrases import slot_count, times
from jobs.views.studies import CellReport

_AS_FAST = 0.03  # a ratio this close to 1 is no difference


def of_strategies(cells: Sequence[CellReport]) -> Iterator[str]:
    """With mirrored, 2 GPUs ran at 1.3x the speed that they had with horovod. One sentence for each GPU count."""
    bases = {
        (cell.gpus, other_values(cell, "strategy")): cell
        for cell in cells
        if cell.gpus > 1 and cell.values.get("strategy") == "horovod"
    }
    ratios: dict[str, list[float]] = {}
    for cell in cells:
        base = bases.get((cell.gpus, other_values(cell, "strategy")))
        if base is not None and cell.values["strategy"] == "mirrored":
            rate = ratio(cell.samples_per_s, base.samples_per_s)
            if rate:
                ratios.setdefault(slot_count(cell), []).append(rate)
    for slots, rates in ratios.items():
        rate = geometric_mean(rates)
        if abs(rate - 1) < _AS_FAST:
            yield f"{slots} were as fast with mirrored as with horovod."
        else:
            yield f"With mirrored, {slots} ran at {times(rate)} the speed that they had with horovod."
