"""Measures how fast data reaches the loop, compared with reading and decoding alone, and the memory of streaming.

The sides take turns, each in a process of its own (`bench.readers`), so neither thread pools nor caches mix. Five
rounds take about five minutes on two cores; a third of that is needed to write the data.
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
from bench.readers import EPOCHS

ROWS, TFRECORD_ROWS, PHOTOGRAPHS, LINKS = 1_000_000, 200_000, 1500, 50
_ROW_BYTES = 4 * datasets.COLUMNS  # in memory

# Titles of the sides. The first side is the limit, the second side is Hora.
TABLE = {
    "table_by_pyarrow": "pyarrow, columns to NumPy",
    "table_by_hora": "Hora, training batches of 1024",
    "table_by_pyarrow_in_rows": "pyarrow, columns to rows in NumPy",
    "table_as_tfrecord": "TFRecord, tf.data, no shuffle",
    "table_as_shuffled_tfrecord": "TFRecord, tf.data, shuffled",
    "table_row_by_row": "a generator of rows, tf.data",
}
IMAGES = {
    "images_decoded_alone": "tf.io.decode_jpeg alone",
    "images_by_hora": "Hora, training batches of 32",
    "images_by_hora_resized": "Hora, resized to 224x224",
}

Figures = dict[str, float]


def main(*, rounds: int) -> None:
    """Measure in turns and print the tables."""
    console = Console()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # this process writes TFRecords, and the sides inherit it
    with tempfile.TemporaryDirectory(prefix="hora-bench-") as name:
        folder = Path(name)
        console.print("input: writing a table, photographs and TFRecords", style="dim")
        table = datasets.write_table(folder / "table" / "train.parquet", ROWS)
        datasets.write_tfrecord(table, folder / "tfrecord", rows=TFRECORD_ROWS)
        datasets.write_photographs(folder / "photographs", PHOTOGRAPHS)
        datasets.write_links_to(table, folder / "large", links=LINKS)
        memory = _measured("memory_while_streaming", folder)
        rates: dict[str, list[float]] = {side: [] for side in (*TABLE, *IMAGES)}
        for number in range(rounds):
            console.print(f"input: round {number + 1} of {rounds}", style="dim")
            for side, its_rates in rates.items():
                its_rates.append(_measured(side, folder)["rate"])
    size = f"{ROWS:,} rows of {datasets.COLUMNS} float32 columns"
    console.print(_table(f"Parquet, {size}: rows/s", TABLE, rates))
    console.print("Targets: Hora at least 0.40 of pyarrow, and at least 3 times TFRecord.")
    console.print(_table("JPEGs of 500x375: images/s", IMAGES, rates))
    console.print("Target: Hora at least 0.80 of decode_jpeg alone, in the size that the images have.")
    console.print(_describe(memory))


def _measured(side: str, folder: Path) -> Figures:
    """The output of a side. Raises RuntimeError with its errors if it fails."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    argv = [sys.executable, "-m", "bench.readers", side, str(folder)]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{side} failed: {done.stderr[-2000:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def _table(title: str, sides: Mapping[str, str], rates: Mapping[str, Sequence[float]]) -> Table:
    """A row for each side. A ratio is the median of the ratios of all rounds."""
    limit, hora = (rates[side] for side in list(sides)[:2])
    table = Table("", "median", "slowest to fastest", "side / limit", "Hora / side", title=title)
    for side, its_title in sides.items():
        its_rates = rates[side]
        shares = [median(map(truediv, its_rates, limit)), median(map(truediv, hora, its_rates))]
        spread = f"{min(its_rates):,.0f} to {max(its_rates):,.0f}"
        table.add_row(its_title, f"{median(its_rates):,.0f}", spread, *(f"{share:.3g}" for share in shares))
    return table


def _describe(memory: Figures) -> str:
    size = LINKS * ROWS * _ROW_BYTES
    opened, first, last = (memory[name] for name in ("opened", "epoch_1", f"epoch_{EPOCHS}"))
    return (
        f"Streaming a table of {size / 1e9:.2f} GB: resident memory grew by {opened / 1e6:.0f} MB to open the table, "
        f"by at most {first / 1e6:.0f} MB in one epoch and {last / 1e6:.0f} MB in {EPOCHS} epochs. The table is "
        f"{size / last:.0f} times as large. Target: at least 10."
    )
