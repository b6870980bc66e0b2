"""Parquet files with row groups of given sizes, and the collections and parts that all ranks open in them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jobs.model.spec import DatasetSpec
from trainer.data.classes import class_names
from trainer.data.interfaces import Collection, Host, Selection, Survey, Target, merged
from trainer.data.location import locate
from trainer.data.parquet import source as parquet
from trainer.data.parquet.part import ParquetPart


def numbered(rows: int, *, first: int = 0, classes: int = 4) -> pa.Table:
    """Rows sorted by class. `id` is the number of the row, `x` and `label` are its class."""
    ids = np.arange(first, first + rows)
    labels = np.arange(rows) * classes // rows
    return pa.table({"id": ids.astype(np.float32), "x": labels.astype(np.float32), "label": labels})


def write(path: Path, table: pa.Table, groups: Sequence[int]) -> Path:
    """Write a table in row groups of these sizes. The last group gets all remaining rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, table.schema) as writer:
        at = 0
        for number, rows in enumerate(groups):
            size = len(table) - at if number == len(groups) - 1 else rows
            writer.write_table(table.slice(at, size), row_group_size=max(1, size))
            at += size
    return path


def collections(
    source: str, root: Path | str, *, cache_dir: Path = Path("/nowhere"), **fields: Any
) -> dict[str, Collection]:
    """The collections at a source below a data root, by part."""
    host = Host(data_roots=[str(root)], cache_dir=cache_dir, scratch_dir=cache_dir, threads=2)
    spec = DatasetSpec(source=source, **fields)
    return parquet.collections(locate(source, host.data_roots, field="dataset.source"), spec, host)


def surveyed(collection: Collection, *, ranks: int = 1) -> Survey:
    """The merged surveys of all ranks, in the form in which ranks send them."""
    surveys = [collection.survey(rank=rank, ranks=ranks).to_json() for rank in range(ranks)]
    return merged(json.loads(json.dumps(surveys)))


def part(source: str, root: Path | str, selection: Selection | None = None, **fields: Any) -> ParquetPart:
    """A part of the training collection, by default all of it."""
    collection = collections(source, root, **fields)["train"]
    survey = surveyed(collection)
    shape = collection.shape_of(survey, fields.get("image_size"))
    target = Target(shape, class_names(survey, name=collection.name))
    opened = collection.part(survey, target, selection or Selection("all"))
    assert isinstance(opened, ParquetPart)
    return opened
