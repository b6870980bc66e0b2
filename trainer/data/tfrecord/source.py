"""Collections of TFRecord files: found by their names, surveyed, and opened as parts. Used by `trainer.data.formats`.

A survey reads every record once: each rank its share of the files. It notes where the records lie and their labels. So
any record can be read by its number, samples are shuffled over all files, and only this index stays in memory.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from jobs.model.spec import DatasetSpec
from jobs.model.tasks import AnyTask, Task
from jobs.runtime.files import open_regular
from trainer.data.cache import DiskCache
from trainer.data.indexed import IndexedPart
from trainer.data.interfaces import Collection, Features, Host, Indices, Selection, Shape, Survey, Target
from trainer.data.listing import files_below, reading
from trainer.data.location import Location
from trainer.data.shuffling import selected
from trainer.data.tfrecord.records import HEADER_BYTES, TAIL_BYTES, checked, contents_of
from trainer.data.tfrecord.survey import Index, Look, index_of
from trainer.errors import BadData

# TensorFlow takes seconds to import.
if TYPE_CHECKING:
    from trainer.data.tfrecord.examples import Schema

# sets-train.tfrecord-00000-of-00004, train.tfrecords, and train-00000-of-01024 as TensorFlow's models write them
_NAME = re.compile(r".+\.(tfrecords?|tfrec)(-\d+-of-\d+)?|[^.]+-\d{5}-of-\d{5}", re.IGNORECASE)
_PART = re.compile(r"(?:^|[-_./])(train|test|validation|valid|val)(?=[-_./]|$)")
_PART_NAMES = {"train": "train", "test": "test", "validation": "validation", "valid": "validation", "val": "validation"}


def is_tfrecord(path: str) -> bool:
    """Whether a file is named as TFRecord files are."""
    return _NAME.fullmatch(path.rpartition("/")[2]) is not None


@dataclass(frozen=True)
class File:
    """A file of records; `path` has the form of its filesystem."""

    path: str
    name: str  # in messages
    size_bytes: int


def collections(location: Location, spec: DatasetSpec, host: Host, task: AnyTask = "auto") -> dict[str, Collection]:
    """The parts at a location, by the names of files and folders: train, validation, test. Raises `BadData`."""
    parts: dict[str, list[File]] = {}
    for relative, path, size_bytes in files_below(location, host.data_roots, is_tfrecord):
        name = f"{location.source}/{relative}" if relative else location.source
        size = size_bytes or _size_of(location, path)  # the list of a web server has no sizes
        parts.setdefault(_part_of(relative), []).append(File(path, name, size))
    if "train" not in parts:  # names that only look like a part, or a source that names one part
        parts = {"train": [file for files in parts.values() for file in files]}
    if "" in parts:
        raise BadData(
            f"{location.source}: {parts[''][0].name} belongs to no part, while others are named for train and test"
        )
    cache = DiskCache(host.cache_dir, int(spec.cache_limit_gb * 1e9)) if spec.cache == "disk" else None
    return {
        part: TFRecords(
            location.source if len(parts) == 1 else f"{location.source} ({part})",
            location,
            sorted(files, key=lambda file: file.name),
            spec,
            cache,
            host.threads,
            task,
        )
        for part, files in parts.items()
    }


def files_at(location: Location, host: Host) -> list[tuple[str, str]]:
    """The files that a training reads: the name of each below the location, and its path."""
    return [(relative, path) for relative, path, _ in files_below(location, host.data_roots, is_tfrecord)]


def _size_of(location: Location, path: str) -> int:
    with reading(location, path):
        size: int | None = location.filesystem.size(path)
    if size is None:
        raise BadData(f"{location.source}: its server does not say how large {path.rpartition('/')[2]} is")
    return size


def _part_of(relative: str) -> str:
    named = _PART.findall(relative)
    return _PART_NAMES[named[0]] if named else ""


@dataclass(frozen=True)
class TFRecords:
    """The files of one part."""

    name: str
    location: Location
    files: Sequence[File]
    spec: DatasetSpec
    cache: DiskCache | None
    threads: int
    wanted_task: AnyTask = "auto"

    @property
    def task(self) -> Task:
        """As the first record says."""
        return self._schema.task

    def survey(self, *, rank: int, ranks: int) -> Survey:
        """Read every record of this rank's share of the files."""
        schema = self._schema
        look = Look(schema, self.spec.image_size)
        for number in range(rank, len(self.files), ranks):
            file = self.files[number]
            with reading(self.location, file.path), self._open(file) as opened:
                look.at_file(contents_of(opened, file.size_bytes, name=file.name), number, file.name)
        return look.survey(rank, self.digest)

    def shape_of(self, survey: Survey, image_size: tuple[int, int] | None) -> Shape:
        """The requested size, or that of all images. One channel if all are grey, else three. Tables have one size."""
        if survey.details["form"] != "contents":
            return survey.shapes[0]
        if not survey.samples:
            raise BadData(f"{self.name}: there is no image that can be read")
        channel = max(shape[2] for shape in survey.shapes)
        return *survey.size_of(image_size, name=self.name), channel

    def part(self, survey: Survey, target: Target, selection: Selection) -> IndexedPart:
        """The selected records among those that are not damaged."""
        if survey.details["digest"] != self.digest:
            raise BadData(f"{self.name}: this host sees other files than the one of rank 0: give all hosts the same")
        if target.task == "regression":
            target.check_width(_schema(survey).targets, name=self.name)
        index = index_of(survey, len(self.files), target)
        if target.task == "regression":
            whole = np.flatnonzero(np.isfinite(index.labels).all(axis=1))
        else:
            whole = np.flatnonzero(index.labels >= 0)
        reader = RecordReader(
            self, index, _schema(survey), survey.details["form"], target.shape,
            resize=survey.details["form"] == "contents" and survey.sizes != [target.shape[:2]],
        )  # fmt: skip
        return IndexedPart(reader, index.labels, whole[selected(len(whole), selection)])

    @cached_property
    def digest(self) -> str:
        """Identifies the files by their names and sizes."""
        files = [[file.name, file.size_bytes] for file in self.files]
        return hashlib.sha256(json.dumps(files).encode()).hexdigest()[:16]

    def _open(self, file: File) -> BinaryIO:
        opened: BinaryIO = self.location.filesystem.open(file.path, "rb")
        return opened

    @cached_property
    def _schema(self) -> "Schema":
        from trainer.data.tfrecord.examples import schema_of

        for file in self.files:
            with reading(self.location, file.path), self._open(file) as opened:
                first = next(contents_of(opened, file.size_bytes, name=file.name), None)
            if first is not None:
                return schema_of(first, self.spec.label, name=file.name, task=self.wanted_task)
        raise BadData(f"{self.name}: there is not a single record")


def _schema(survey: Survey) -> "Schema":
    from trainer.data.tfrecord.examples import Schema

    return Schema.from_json(survey.details["schema"])


@dataclass(frozen=True)
class RecordReader:
    """Reads records by their numbers, as samples of one shape."""

    records: TFRecords
    index: Index
    schema: "Schema"
    form: str
    shape: Shape
    resize: bool

    def read(self, batches: Iterator[Indices]) -> Iterator[tuple[Indices, Features]]:
        """See `Reader.read`. Images are decoded about two batches ahead."""
        if self.form == "contents":
            from trainer.data.images.decode import decoded

            height, width, channel = self.shape
            return decoded(
                ((indices, self._images(indices)) for indices in batches), kind="contents",
                shape=(height, width, channel), resize=self.resize, threads=self.records.threads, name_of=self._name,
            )  # fmt: skip
        return ((indices, self._values(indices)) for indices in batches)

    def _values(self, indices: Indices) -> Features:
        if self.form == "pixels":
            pixels = np.frombuffer(b"".join(self._images(indices)), np.uint8)
            return pixels.reshape(len(indices), *self.shape)
        from trainer.data.tfrecord.examples import table_of

        return table_of(self._contents(indices), self.schema, lambda place: self._name(int(indices[place])))

    def _images(self, indices: Indices) -> list[bytes]:
        from trainer.data.tfrecord.examples import images_of

        return images_of(self._contents(indices), self.schema, lambda place: self._name(int(indices[place])))

    def _contents(self, indices: Indices) -> list[bytes]:
        """The content of each record, from the cache if there is one. Raises `BadData`."""
        files, starts = self.index.file[indices], self.index.offset[indices] + HEADER_BYTES
        sizes = self.index.length[indices] + TAIL_BYTES
        is_near = self.records.location.local is not None or self.records.cache is not None
        read = self._read_near(files, starts, sizes) if is_near else self._read_far(files, starts, sizes)
        return [
            checked(content, name=self._name(number)) for number, content in zip(indices.tolist(), read, strict=True)
        ]

    def _read_near(self, files: Indices, starts: Indices, sizes: Indices) -> list[bytes]:
        read = [b""] * len(files)
        for file in np.unique(files).tolist():
            with reading(self.records.location, self.records.files[file].path), self._open(file) as opened:
                for place in np.flatnonzero(files == file).tolist():
                    opened.seek(int(starts[place]))
                    read[place] = opened.read(int(sizes[place]))
        return read

    def _read_far(self, files: Indices, starts: Indices, sizes: Indices) -> list[bytes]:
        """All at once, as each takes its time on a network."""
        location = self.records.location
        paths = [self.records.files[file].path for file in files.tolist()]
        with reading(location, location.path):
            ranges: list[bytes] = location.filesystem.cat_ranges(
                paths, starts.tolist(), (starts + sizes).tolist(), on_error="raise"
            )
        return ranges

    def _open(self, file: int) -> BinaryIO:
        path = self.records.files[file].path
        if self.records.cache is not None:
            return self.records.cache.open(self.records.location.filesystem, path)
        return open(open_regular(path), "rb")

    def _name(self, number: int) -> str:
        file = int(self.index.file[number])
        return f"{self.records.files[file].name}: record {number - int(self.index.firsts[file])}"
