"""Collections of Parquet files: found by their names, surveyed, and opened as parts. Used by `trainer.data.formats`.

A file, or a folder of files at any depth. Where folders or files are named for the parts, as the datasets of Hugging
Face are (train/, test/; train-00000-of-00002.parquet), the parts are taken from there.

columns     which columns are the label and the features
files       files and row groups
shuffling   which rows come when
windows     the training rows of a rank, shuffled in bounded memory
labels      the label column as arrays, by task
blocks      rows as arrays
survey      a rank's findings before training
part        the parts
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from jobs.model.spec import DatasetSpec
from jobs.model.tasks import AnyTask, Task
from trainer.data.cache import DiskCache
from trainer.data.interfaces import Collection, Host, Selection, Shape, Survey, Target
from trainer.data.listing import files_below
from trainer.data.location import Location
from trainer.data.parquet import survey as parquet_survey
from trainer.data.parquet.blocks import BlockReader
from trainer.data.parquet.columns import Columns
from trainer.data.parquet.files import File, RowGroup, Store, open_files
from trainer.data.parquet.part import ParquetPart
from trainer.data.parquet.shuffling import Spread, Stretch
from trainer.errors import BadData

_SUFFIXES = (".parquet", ".pq")
_PART_NAMES = {"train": "train", "test": "test", "validation": "validation", "valid": "validation", "val": "validation"}
_PART = re.compile(r"(train|test|validation|valid|val)(?![A-Za-z])")
_GB = 1e9


@dataclass(frozen=True)
class ParquetCollection:
    """Parquet files with the same columns; `groups` are their row groups in the order of the files' names."""

    name: str
    source: Store  # without a cache: footers and labels are not worth a copy of the file
    store: Store
    columns: Columns
    groups: Sequence[RowGroup]
    image_size: tuple[int, int] | None
    threads: int
    part_name: str = "train"

    @property
    def task(self) -> Task:
        """See `Collection.task`."""
        return self.columns.task

    def survey(self, *, rank: int, ranks: int) -> Survey:
        """See `Collection.survey`."""
        survey = parquet_survey.surveyed(
            self.source, self.columns, self.groups, name=self.name, image_size=self.image_size, rank=rank, ranks=ranks,
            has_vocabulary=self.part_name == "train",
        )  # fmt: skip
        survey.details["digest"] = self._digest()
        return survey

    def shape_of(self, survey: Survey, image_size: tuple[int, int] | None) -> Shape:
        """See `Collection.shape_of`."""
        if not survey.samples:
            raise BadData(f"{self.name}: there is not a single row")
        return parquet_survey.shape_of(survey, image_size, name=self.name)

    def part(self, survey: Survey, target: Target, selection: Selection) -> ParquetPart:
        """See `Collection.part`."""
        if survey.details["digest"] != self._digest():
            raise BadData(f"{self.name}: the files on this host are not those of the first rank, or have changed")
        spread = Spread(np.array([group.rows for group in self.groups], np.int64), selection.seed)
        samples, size = len(spread), selection.size_of(len(spread))
        first = samples - size if selection.side == "validation" else 0
        reader = BlockReader(
            name=self.name,
            store=self.store,
            groups=self.groups,
            columns=self.columns,
            target=target,
            form=survey.details["form"],
            resize=self.image_size is not None,
        )
        return ParquetPart(reader, Stretch(spread, first, first + size), threads=self.threads)

    def _digest(self) -> str:
        """Identifies the files by their names, sizes and footers."""
        files = [[group.file.name, group.file.size_bytes, group.number, group.rows] for group in self.groups]
        return hashlib.sha256(json.dumps(files).encode()).hexdigest()[:16]


def collections(location: Location, spec: DatasetSpec, host: Host, task: AnyTask = "auto") -> dict[str, Collection]:
    """The collections at a location, by part. Raises `BadData`."""
    files = files_at(location, host)
    if not files:
        raise BadData(f"{location.source}: there is no .parquet file in it")
    parts: dict[str, list[File]] = {}
    for relative, file in files:
        parts.setdefault(_part_of(relative), []).append(file)
    if "train" not in parts:  # names that only look like a part, or a source that names one part
        parts = {"train": [file for _, file in files]}
    if "" in parts:
        raise BadData(
            f"{location.source}: {parts[''][0].name} belongs to no part, while others are named for train and test"
        )
    pa.set_cpu_count(host.threads)  # of this process: the ranks of a host share its cores
    cache = DiskCache(host.cache_dir, int(spec.cache_limit_gb * _GB)) if spec.cache == "disk" else None
    source, store = Store(location.filesystem, None), Store(location.filesystem, cache)
    opened: dict[str, Collection] = {}
    for part, its_files in parts.items():
        name = location.source if len(parts) == 1 else f"{location.source} ({part})"
        columns, groups = open_files(
            source, its_files, label=spec.label, task=task, text=spec.text, text_length=spec.text_length,
            threads=host.threads,
        )  # fmt: skip
        opened[part] = ParquetCollection(name, source, store, columns, groups, spec.image_size, host.threads, part)
    return opened


def files_at(location: Location, host: Host) -> list[tuple[str, File]]:
    """The files at a location and their paths below it, sorted by those. Raises `BadData`.

    The summaries `_metadata` and `_common_metadata`, which name files and count rows, are hidden, and so they are not
    read: what they say may be wrong.
    """
    found = files_below(location, host.data_roots, lambda name: name.lower().endswith(_SUFFIXES))
    return [
        (relative, File(path, f"{location.source}/{relative}" if relative else location.source, size_bytes))
        for relative, path, size_bytes in found
    ]


def _part_of(relative: str) -> str:
    """The part that is the name of a folder, else the beginning of the file's name, else nothing."""
    *folders, name = relative.split("/")
    beginning = _PART.match(name)
    named = [folder for folder in folders if folder in _PART_NAMES] + ([beginning[1]] if beginning else [])
    return _PART_NAMES[named[0]] if named else ""
