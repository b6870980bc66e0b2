"""The fingerprint of a dataset: it changes exactly when the content that a training reads changes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.archives import chips
from trainer.inspection import answer

ROWS = 30


@pytest.fixture
def inspect(tmp_path: Path) -> Callable[[], tuple[str, int, int]]:
    """Inspects the folder `data`: the fingerprint, the number of samples and that of files."""

    def inspect() -> tuple[str, int, int]:
        request = {"data_roots": [str(tmp_path)], "scratch_dir": str(tmp_path / "scratch"), "threads": 1}
        result = answer({"dataset": {"source": "data"}, **request})
        assert "refused" not in result, result
        return result["fingerprint"], result["facts"]["samples"], result["facts"]["files"]

    return inspect


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


@pytest.mark.parametrize("name", ["_metadata", "_common_metadata", "_metadata.parquet"])
@pytest.mark.parametrize("named", ["part-0.parquet", "../outside.parquet", "/etc/passwd", "missing.parquet"])
def test_a_summary_file_is_neither_read_nor_part_of_the_fingerprint(
    data: Path, inspect: Callable[[], tuple[str, int, int]], name: str, named: str
) -> None:
    footers = [write_rows(data / f"part-{number}.parquet", seed=number) for number in range(2)]
    write_rows(data.parent / "outside.parquet", seed=9)
    before = inspect()
    write_summary(data / name, [*footers, *footers], [named] * 4)  # it also counts each row twice
    assert inspect() == before == (before[0], 2 * ROWS, 2)
    (data / name).write_bytes(b"no Parquet at all")
    assert inspect() == before


def test_a_data_file_whose_footer_names_another_file_is_refused(data: Path) -> None:
    footer = write_rows(data.parent / "outside.parquet", seed=9)
    write_summary(data / "part-0.parquet", [footer], ["../outside.parquet"])
    request = {"data_roots": [str(data.parent)], "scratch_dir": str(data / "s"), "threads": 1}
    refused = answer({"dataset": {"source": "data"}, **request})["refused"]
    assert refused.startswith("row group 0 of data/part-0.parquet cannot be read")


@pytest.mark.parametrize("kind", ["parquet", "images", "idx"])
def test_only_files_that_are_read_count(data: Path, inspect: Callable[[], tuple[str, int, int]], kind: str) -> None:
    if kind == "parquet":
        read = data / "train" / "part-0.parquet"
        read.parent.mkdir()
        write_rows(read, seed=1)
    elif kind == "images":
        for name, content in chips().items():
            (data / name).parent.mkdir(exist_ok=True)
            (data / name).write_bytes(content)
        read = data / "whole" / "0.png"
    else:
        read = data / "train-images-idx3-ubyte"
        read.write_bytes(b"\0\0\x08\x03" + np.array([12, 2, 2], ">i4").tobytes() + bytes(range(48)))
        (data / "train-labels-idx1-ubyte").write_bytes(
            b"\0\0\x08\x01" + np.array([12], ">i4").tobytes() + bytes(6) + b"\1" * 6
        )
    before = inspect()
    for name in ("README.md", "_SUCCESS", ".part-0.parquet.crc", "_tmp/part-0.parquet", "_tmp/cracked/1.png"):
        (data / name).parent.mkdir(exist_ok=True)
        (data / name).write_bytes(b"not read")
    assert inspect() == before
    content = read.read_bytes()
    if kind == "parquet":
        write_rows(read, seed=2)
    else:
        read.write_bytes(chips()["cracked/1.png"] if kind == "images" else content[:-1] + b"\xff")
    assert inspect()[0] != before[0]
    read.write_bytes(content)
    assert inspect() == before
