"""The fingerprint of a dataset: it changes exactly when the content that a training reads changes."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.archives import chips, write_files
from tests.datasets import one_of_each_format
from trainer.inspection import answer

ROWS = 30


def inspect(root: Path, source: str = "data") -> tuple[str, int, int]:
    """The fingerprint of a folder, the number of samples and that of files."""
    request = {"data_roots": [str(root)], "scratch_dir": str(root / "scratch"), "threads": 1}
    result = answer({"dataset": {"source": source}, **request})
    assert "refused" not in result, result
    return result["fingerprint"], result["facts"]["samples"], result["facts"]["files"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def write_rows(path: Path, *, seed: int) -> pq.FileMetaData:
    """Write a file of a table. Returns its footer, which names no file yet."""
    footers: list[pq.FileMetaData] = []
    x = np.random.default_rng(seed).random(ROWS, np.float32)
    table = pa.table({"x": x, "label": np.arange(ROWS) % 3})
    pq.write_table(table, path, metadata_collector=footers)
    return footers[0]


def write_summary(path: Path, footers: list[pq.FileMetaData], names: list[str]) -> None:
    """Write a file that holds footers alone, as Spark and Dask do, with these names for their files."""
    for footer, name in zip(footers, names, strict=True):
        footer.set_file_path(name)
    pq.write_metadata(footers[0].schema.to_arrow_schema(), path, metadata_collector=footers)


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("_metadata", "part-0.parquet"),
        ("_common_metadata", "../outside.parquet"),
        ("_metadata.parquet", "/etc/passwd"),
        ("_metadata", "missing.parquet"),
    ],
)
def test_a_summary_file_is_neither_read_nor_part_of_the_fingerprint(data: Path, name: str, named: str) -> None:
    footers = [write_rows(data / f"part-{number}.parquet", seed=number) for number in range(2)]
    write_rows(data.parent / "outside.parquet", seed=9)
    before = inspect(data.parent)
    write_summary(data / name, [*footers, *footers], [named] * 4)  # it also counts each row twice
    assert inspect(data.parent) == before == (before[0], 2 * ROWS, 2)
    (data / name).write_bytes(b"no Parquet at all")
    assert inspect(data.parent) == before


def test_a_data_file_whose_footer_names_another_file_is_refused(data: Path) -> None:
    footer = write_rows(data.parent / "outside.parquet", seed=9)
    write_summary(data / "part-0.parquet", [footer], ["../outside.parquet"])
    request = {"data_roots": [str(data.parent)], "scratch_dir": str(data / "s"), "threads": 1}
    refused = answer({"dataset": {"source": "data"}, **request})["refused"]
    assert refused.startswith("row group 0 of data/part-0.parquet cannot be read")


@pytest.mark.parametrize(
    ("source", "file"),
    [("tables", "part-0.parquet"), ("images", "train/even/1.png"), ("idx", "train-images-idx3-ubyte")],
)
def test_only_files_that_are_read_count(tmp_path: Path, source: str, file: str) -> None:
    root = one_of_each_format(tmp_path)
    data, read = root / source, root / source / file
    before, content = inspect(root, source), read.read_bytes()
    for name in ("README.md", "_SUCCESS", ".part-0.parquet.crc", "_tmp/part-0.parquet", "_tmp/cracked/1.png"):
        (data / name).parent.mkdir(exist_ok=True)
        (data / name).write_bytes(b"not read")
    assert inspect(root, source) == before
    if source == "tables":
        pq.write_table(pq.read_table(read).set_column(0, "one", pa.array(np.arange(1.0, 41))), read)
    else:
        read.write_bytes((read.parent / "3.png").read_bytes() if source == "images" else content[:-1] + b"\0")
    changed = inspect(root, source)
    assert changed[0] != before[0]
    assert changed[1:] == before[1:]
    read.write_bytes(content)
    assert inspect(root, source) == before


def test_the_content_and_the_names_count_and_the_order_of_writing_does_not(data: Path) -> None:
    files = chips(2)
    renamed = {name.replace("whole/1", "whole/7"): content for name, content in files.items()}
    changed = files | {"whole/1.png": files["whole/0.png"]}
    for name, of_folder in {
        "one": files,
        "two": dict(reversed(files.items())),
        "three": changed,
        "four": renamed,
    }.items():
        write_files(data / name, of_folder)
    pixels = np.zeros((20, 8, 8), np.uint8)
    for pixel in (0, 1):
        pixels[7, 7, 7] = pixel
        np.savez(data / f"{pixel}.npz", x=pixels, y=np.arange(20) % 2)
    assert (data / "0.npz").stat().st_size == (data / "1.npz").stat().st_size
    one, two, *others = (inspect(data, name)[0] for name in ("one", "two", "three", "four", "0.npz", "1.npz"))
    assert one == two
    assert len({one, *others}) == 5
