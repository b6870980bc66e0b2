"""How fast data reaches the loop, beside what reading and decoding alone take, and the memory that streaming needs.

In turns and each side in a process of its own (`bench.readers`), so that neither thread pools nor caches mix. About
five minutes with five rounds on two cores, a third of it to write the data.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from operator import truediv
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from bench import datasets
from bench.readers import EPOCHS, SIDES

ROWS, TFRECORD_ROWS, PHOTOGRAPHS, NAMES = 1_000_000, 200_000, 1500, 40
_ROW_BYTES = 4 * datasets.COLUMNS  # in memory

Figures = dict[str, float]


def main(*, rounds: int) -> None:
    """Measure in turns and print the tables."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="hora-bench-") as name:
        folder = Path(name)
        console.print("input: writing a table, photographs and TFRecords", style="dim")
        table = datasets.write_table(folder / "table" / "train.parquet", ROWS)
        datasets.write_tfrecord(table, folder / "tfrecord", rows=TFRECORD_ROWS)
        datasets.write_photographs(folder / "photographs", PHOTOGRAPHS)
        datasets.write_names_of(table, folder / "large", names=NAMES)
        memory = _measured("memory_while_streaming", folder)
        tabular = ("table_by_pyarrow", "table_by_hora", "table_as_tfrecord", "table_as_shuffled_tfrecord",
                   "table_row_by_row")  # fmt: skip
        images = ("images_decoded_alone", "images_by_hora", "images_by_hora_resized")
        rates: dict[str, list[float]] = {side: [] for side in (*tabular, *images)}
        for number in range(rounds):
            console.print(f"input: round {number + 1} of {rounds}", style="dim")
            for side, its_rates in rates.items():
                its_rates.append(_measured(side, folder)["rate"])
    size = f"{ROWS:,} rows of {datasets.COLUMNS} float32 columns"
    console.print(_table(f"Parquet, {size}: rows/s", {side: rates[side] for side in tabular}))
    console.print("Targets: Hora at least 0.40 of pyarrow, and at least 3 times TFRecord.")
    console.print(_table("JPEGs of 500x375: images/s", {side: rates[side] for side in images}))
    console.print("Target: Hora at least 0.80 of decode_jpeg alone, in the size that the images have.")
    console.print(_told(memory))


def _measured(side: str, folder: Path) -> Figures:
    """What a side prints. Raises RuntimeError with its errors where it fails."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}
    argv = [sys.executable, "-m", "bench.readers", side, str(folder)]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{side} failed: {done.stderr[-2000:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def _table(title: str, rates: Mapping[str, Sequence[float]]) -> Table:
    """A row a side; the first side is the limit, and ratios are medians of those within a round."""
    limit, hora = list(rates.values())[:2]
    table = Table("", "median (slowest to fastest)", "of the limit", "Hora is faster by", title=title)
    for number, (side, of_side) in enumerate(rates.items()):
        share = median(map(truediv, of_side, limit))
        lead = f"{median(map(truediv, hora, of_side)):.2f}x" if number > 1 else ""
        spread = f"{median(of_side):,.0f} ({min(of_side):,.0f} to {max(of_side):,.0f})"
        table.add_row((SIDES[side].__doc__ or side).partition(":")[0].rstrip("."), spread, f"{share:.3f}", lead)
    return table


def _told(memory: Figures) -> str:
    size = NAMES * ROWS * _ROW_BYTES
    opened, first, last = (memory[name] for name in ("opened", "epoch_1", f"epoch_{EPOCHS}"))
    return (
        f"Streaming a table of {size / 1e9:.2f} GB: resident memory grew by {opened / 1e6:.0f} MB to open it, "
        f"{first / 1e6:.0f} MB at most in one epoch and {last / 1e6:.0f} MB in {EPOCHS}: the set is {size / last:.0f} "
        "times larger than what reading it takes. Target: at least 10."
    )
