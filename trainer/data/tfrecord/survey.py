"""What a rank finds in TFRecord files before training, and the index of all records that is made of it.

For `trainer.data.tfrecord.source`.
"""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer.data.classes import MOST_CLASSES
from trainer.data.images.headers import Damaged, check
from trainer.data.interfaces import Indices, Labels, Shape, Sums, Survey, Target
from trainer.data.moments import Moments
from trainer.data.pixels import CHANNELS, if_pixels, why_no_image
from trainer.data.tfrecord.records import HEADER_BYTES, TAIL_BYTES
from trainer.errors import BadData

# TensorFlow takes seconds to import.
if TYPE_CHECKING:
    from trainer.data.tfrecord.examples import Schema

_PARSED = 256  # records at once
_NAMED_SIZES = 3


class Look:
    """What a rank finds in its files."""

    def __init__(self, schema: "Schema", image_size: tuple[int, int] | None) -> None:
        self._schema, self._image_size = schema, image_size
        self._form = "table" if schema.kind == "table" else ""
        self._numbers: dict[str, int] = {}  # of each label, in the sequence in which they are met
        self._times: dict[str, int] = {}
        self._shapes: set[Shape] = {(sum(schema.sizes),)} if schema.kind == "table" else set()
        self._damaged: dict[str, str] = {}
        self._files: dict[str, list[str]] = {}
        self._moments = Moments()
        self._samples = 0  # of a regression
        self._moments_of_labels: dict[str, Sums] = {}

    def at_file(self, contents: Iterator[bytes], number: int, name: str) -> None:
        """Look at all records of a file."""
        from trainer.data.tfrecord.examples import images_of, table_of

        lengths: list[int] = []
        labels: list[Any] = []
        moments = Moments()
        while batch := list(islice(contents, _PARSED)):
            first = len(lengths)

            def name_of(place: int, first: int = first) -> str:
                return f"{name}: record {first + place}"

            labels_of_batch = self._labels(batch, name_of)
            lengths += map(len, batch)
            if self._schema.kind == "table":
                self._moments.add(table_of(batch, self._schema, name_of))
                are_whole = [True] * len(batch)
            else:
                images = images_of(batch, self._schema, name_of)
                are_whole = [self._is_whole(image, name_of(place)) for place, image in enumerate(images)]
            if self._schema.task == "regression":
                whole = np.array(are_whole)
                if whole.any():
                    moments.add(labels_of_batch[whole])
                labels += np.where(whole[:, np.newaxis], labels_of_batch, np.nan).tolist()
                self._samples += int(whole.sum())
                continue
            for place, (label, is_whole) in enumerate(zip(labels_of_batch, are_whole, strict=True)):
                labels.append(self._code(label, name_of(place)) if is_whole else -1)
        if moments.sums[0]:
            self._moments_of_labels[str(number)] = moments.sums
        dtype = np.float32 if self._schema.task == "regression" else np.int32
        self._files[str(number)] = [_packed(np.array(lengths, np.uint32)), _packed(np.array(labels, dtype))]

    def survey(self, rank: int, digest: str) -> Survey:
        """All of it. The ranks that saw no file say nothing of the form."""
        details: dict[str, Any] = {
            "digest": digest,
            "schema": asdict(self._schema),
            # `merged` keeps the entry of each rank, because each has its own name.
            f"labels_{rank}": list(self._numbers),
            f"files_{rank}": self._files,
        }
        if self._form:
            details |= {"form": self._form, "encoded": self._form == "contents"}
        if self._form == "table":
            details |= {"dtype": "float32", "normalization": self._moments.normalization()}
        elif self._form:
            details |= {"dtype": "uint8", "value_range": [0.0, 255.0]}
        return Survey(
            samples=self._samples or sum(self._times.values()),
            moments=self._moments_of_labels,
            labels=self._times,
            label_kind=self._schema.label_kind,
            shapes=sorted(self._shapes)[:_NAMED_SIZES],
            damaged=self._damaged,
            details=details,
        )

    def _labels(self, batch: list[bytes], name_of: Callable[[int], str]) -> Any:
        from trainer.data.tfrecord.examples import labels_of, targets_of

        read = targets_of if self._schema.task == "regression" else labels_of
        return read(batch, self._schema, name_of)

    def _code(self, label: str, name: str) -> int:
        if label not in self._numbers and len(self._numbers) > MOST_CLASSES:
            raise BadData(f"{name}: more than {MOST_CLASSES} different labels before it: is this feature a label?")
        self._times[label] = self._times.get(label, 0) + 1
        return self._numbers.setdefault(label, len(self._numbers))

    def _is_whole(self, image: bytes, name: str) -> bool:
        """Note the shape of an image. The first one decides whether all are encoded images, or pixels."""
        if not self._form:
            self._form = self._form_of(image, name)
        if self._form == "pixels":
            (shape,) = self._shapes
            if len(image) != np.prod(shape):
                raise BadData(f"{name} has an image of {len(image)} bytes, the first one has {np.prod(shape)}")
            return True
        try:
            self._shapes.add(_shape_of(image))
        except Damaged as damaged:
            self._damaged[name] = str(damaged)
            return False
        return True

    def _form_of(self, image: bytes, name: str) -> str:
        try:
            _shape_of(image)
        except Damaged as damaged:
            height, width = self._image_size or (0, 0)
            for channels in CHANNELS:
                if len(image) == height * width * channels > 0:
                    self._shapes.add((height, width, channels))
                    return "pixels"
            if image[:1] not in {b"\xff", b"\x89", b"B", b"G"}:
                why = why_no_image({len(image)}, self._image_size, unit="bytes")
                raise BadData(f"{name}: its image {damaged}; {if_pixels(self._image_size)}: {why}") from None
        return "contents"


def _shape_of(image: bytes) -> Shape:
    """(height, width, channel) of an encoded image. Raises `Damaged`."""
    header = check(image)
    if not header.suspect:
        return header.height, header.width, header.channel
    from trainer.data.images.decode import shape_of

    return shape_of(image)


@dataclass(frozen=True)
class Index:
    """Where each record lies, over all files, and its label; -1 or NaN where its image is damaged."""

    file: Indices  # its number
    offset: Indices  # in the file, of the record's header
    length: Indices  # of the content
    labels: Labels
    firsts: Indices  # the first record of each file


def index_of(survey: Survey, files: int, target: Target) -> Index:
    lengths: list[Any] = [np.empty(0, np.uint32)] * files
    labels: list[Any] = [np.empty((0, *target.label_shape), target.label_dtype)] * files
    for key, of_rank in survey.details.items():
        if key.startswith("files_"):
            names = survey.details[key.replace("files_", "labels_")]  # of a classification
            # The last one is for -1, the code of a damaged image.
            number_of = np.array([*(target.label_of.get(name, -1) for name in names), -1], np.int32)
            for number, (packed_lengths, packed_codes) in of_rank.items():
                lengths[int(number)] = _unpacked(packed_lengths, np.uint32)
                if target.task == "regression":
                    labels[int(number)] = _unpacked(packed_codes, np.float32).reshape(-1, target.targets)
                else:
                    labels[int(number)] = number_of[_unpacked(packed_codes, np.int32)]
    counts = np.array(list(map(len, lengths)), np.int64)
    offsets = []
    for of_file in lengths:
        sizes = of_file.astype(np.int64) + HEADER_BYTES + TAIL_BYTES
        offsets.append(np.cumsum(sizes) - sizes)
    return Index(
        file=np.repeat(np.arange(files), counts),
        offset=np.concatenate(offsets),
        length=np.concatenate(lengths).astype(np.int64),
        labels=np.concatenate(labels),
        firsts=np.cumsum(counts) - counts,
    )


def _packed(values: Any) -> str:
    """An array as text: surveys travel as JSON."""
    return b64encode(zlib.compress(values.tobytes(), 1)).decode()


def _unpacked(text: str, dtype: type[np.generic]) -> Any:
    return np.frombuffer(zlib.decompress(b64decode(text)), dtype)
