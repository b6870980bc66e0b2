"""The types that data passes through on its way to the training loop. Used by all of `trainer.data`; NumPy only.

Collection   samples that belong together, as they lie on disk: a folder of images, Parquet files, two arrays
Survey       the findings of a rank in its share of a collection, before training
Selection    which of a collection's samples a part takes
Part         the training, validation or test samples, as one rank reads them
Facts        what is known of a dataset before the first step, equal on all ranks
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from jobs.model.plan import DatasetSizes, split_sizes
from jobs.model.tasks import CLASSIFICATION, Task
from trainer.errors import BadData

# (sample, height, width, channel) uint8 or float32, (sample, feature) float32, or (sample, word) int32
Features = NDArray[Any]
# The number of the class (sample,) int32; the numbers to learn (sample, target) float32; or 1 for each class that
# applies and 0 for the others (sample, class) uint8.
Labels = NDArray[Any]
Shares = NDArray[np.float32]  # (sample, class): how much of each class is in a mixed sample
Weights = NDArray[np.float32]  # (sample,): 1 counts, 0 only fills a batch
Indices = NDArray[np.int64]
Shape = tuple[int, ...]
Sums = tuple[int, list[float], list[float]]  # rows, the mean of each column, its sum of squares around the mean


class Batch(NamedTuple):
    """This rank's samples of one step."""

    features: Features
    labels: Labels | Shares


class EvaluationBatch(NamedTuple):
    """This rank's samples of one step of a validation or test."""

    features: Features
    labels: Labels
    weights: Weights


@dataclass(frozen=True)
class SampleSchedule:
    """Everything that decides which training samples this rank gets, and when."""

    samples: int  # of the part, those that are used: its first ones in the order of the selection
    rank: int
    ranks: int
    per_rank: int  # samples of a step on this rank
    steps: int  # of an epoch
    seed: int
    sharding: Literal["shard", "steps"] = "shard"
    shuffle_buffer: int = 4096

    @property
    def global_batch(self) -> int:
        """Samples of a step on all ranks."""
        return self.per_rank * self.ranks

    @property
    def own_places(self) -> slice:
        """The places of this rank's samples in a global batch."""
        return slice(self.rank * self.per_rank, (self.rank + 1) * self.per_rank)


@dataclass(frozen=True)
class Selection:
    """All samples of a collection. Or its training or validation side, if `share` of it is held out.

    The split depends on the collection and the seed alone, so it is the same on every rank and after every restart.
    """

    side: Literal["all", "train", "validation"]
    share: float = 0.0
    seed: int = 0

    def size_of(self, samples: int) -> int:
        """How many of a collection's samples are selected."""
        if self.side == "all":
            return samples
        train, validation = split_sizes(samples, self.share)
        return train if self.side == "train" else validation


class Part(Protocol):
    """The samples of one part of a dataset, as this rank reads them. Batches are of equal size on every rank."""

    def __len__(self) -> int:
        """Samples of the whole part, over all ranks."""

    @property
    def is_quick(self) -> bool:
        """Whether making a training batch takes less time than passing it between threads, some 50 µs."""

    def train(self, schedule: SampleSchedule, *, epoch: int, first: int) -> Generator[Batch, None, None]:
        """This rank's batch of every step from `first` (from 0) of `epoch` (from 1) on, epoch after epoch, without end.

        An epoch has `schedule.steps` steps. If that is less than one pass over the data, the rest of the pass is
        dropped. If it is more, another pass follows without a gap. Raises `BadData`.
        """

    def evaluate(
        self, *, rank: int, ranks: int, per_rank: int, samples: int | None = None
    ) -> Generator[EvaluationBatch, None, None]:
        """Batches that cover the part once over all ranks: ceil(len / (per_rank * ranks)) on every rank.

        Or so many of its `samples`: always the same ones, from all over it.
        """

    def rows(self, start: int, stop: int, *, of: int | None = None) -> Iterator[Batch]:
        """Some of the first `of` samples of the part, in batches of any size. Raises `BadData`.

        All of them have a sequence, in which these are at the positions start..stop. It depends on `of` alone, so that
        several ranks can share the work in any way. None: all samples of the part.
        """

    def damage(self) -> dict[str, str]:
        """Samples that could not be read during training, and why. Samples that the survey found are not among them."""


@dataclass
class Survey:
    """A rank's findings in its share of a collection. They travel to other ranks as JSON; `merged` adds them up.

    `moments` are those of the numbers to learn, of each piece of the data by its number. So their sum does not depend
    on which rank looked at which piece.
    """

    samples: int = 0
    labels: dict[str, int] = field(default_factory=dict)  # how often each label occurs, integers as decimal text
    label_kind: Literal["integer", "string"] = "string"
    moments: dict[str, Sums] = field(default_factory=dict)
    shapes: list[Shape] = field(default_factory=list)  # the distinct shapes of samples, the first few
    damaged: dict[str, str] = field(default_factory=dict)  # what cannot be read, and why
    details: dict[str, Any] = field(default_factory=dict)  # what only the format itself understands
    words: dict[str, int] = field(default_factory=dict)  # how often each word occurs, if the samples are texts

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """The distinct (height, width) of images, the first few."""
        return sorted({(shape[0], shape[1]) for shape in self.shapes})

    def size_of(self, image_size: tuple[int, int] | None, *, name: str) -> tuple[int, int]:
        """The requested size, or the size of all images. Raises `BadData` if there is neither."""
        if image_size is None and len(self.sizes) > 1:
            (height, width), (other_height, other_width) = self.sizes[:2]
            raise BadData(
                f"dataset.image_size: the images of {name} differ in size (as {height}x{width} and "
                f"{other_height}x{other_width}, height x width): give the size to bring them to"
            )
        return image_size or self.sizes[0]

    def to_json(self) -> dict[str, Any]:
        """The survey in the form that `gather` sends."""
        return asdict(replace(self, words={})) | {"words": self.words}  # `asdict` would copy a million words one by one


def merged(surveys: Sequence[dict[str, Any]], *, most_shapes: int = 3) -> Survey:
    """The surveys of all ranks, in the order of the ranks, as one; details of an earlier rank stand."""
    total = Survey(label_kind=surveys[0]["label_kind"])
    for survey in surveys:
        total.samples += survey["samples"]
        for label, times in survey["labels"].items():
            total.labels[label] = total.labels.get(label, 0) + times
        total.moments |= survey["moments"]
        for word, times in survey.get("words", {}).items():  # a rank of an older worker sends none
            total.words[word] = total.words.get(word, 0) + times
        shapes = [tuple(shape) for shape in survey["shapes"]]
        total.shapes += [shape for shape in shapes if shape not in total.shapes]
        total.damaged |= survey["damaged"]
        total.details = {**survey["details"], **total.details}
    total.shapes = total.shapes[:most_shapes]
    return total


@dataclass(frozen=True)
class Target:
    """What every part of a dataset must deliver, for any form of the data on disk."""

    shape: Shape
    classes: tuple[str, ...]  # the position of a name is its label
    task: Task = CLASSIFICATION
    targets: int = 0  # numbers that a sample has to learn, in a regression
    vocabulary: tuple[str, ...] = ()  # the position of a word is its number in a text

    @property
    def label_shape(self) -> Shape:
        """The shape of the label of a sample."""
        return {"classification": (), "regression": (self.targets,), "multilabel": (len(self.classes),)}[self.task]

    @property
    def label_dtype(self) -> np.dtype[Any]:
        """The dtype of labels; see `Labels`."""
        return np.dtype({"classification": np.int32, "regression": np.float32, "multilabel": np.uint8}[self.task])

    def check_width(self, width: int, *, name: str) -> None:
        """Raise `BadData` if the labels of a collection are rows of another length than in the training data."""
        if (width,) != self.label_shape:
            what = "numbers to learn" if self.task == "regression" else "classes"
            raise BadData(
                f"{name}: its labels are of {width} {what}, those of the training data of {self.label_shape[0]}"
            )

    @property
    def label_of(self) -> dict[str, int]:
        """The number of each class."""
        return {name: number for number, name in enumerate(self.classes)}


@dataclass(frozen=True)
class Host:
    """What this host offers to a rank that reads data."""

    data_roots: Sequence[str]  # folders and URLs; nothing outside them is read
    cache_dir: Path  # raw files of `cache: disk`; all ranks and jobs of the host share it
    scratch_dir: Path  # removed with the attempt; the ranks of the attempt on this host share it
    threads: int  # for reading and decoding, at least 1


class Collection(Protocol):
    """Samples that belong together, as they lie on disk; opening one reads no sample."""

    @property
    def name(self) -> str:
        """Its name in messages."""

    @property
    def task(self) -> Task:
        """What its labels are for."""

    def survey(self, *, rank: int, ranks: int) -> Survey:
        """Look at this rank's share of it. Raises `BadData`. No collective may be in here."""

    def shape_of(self, survey: Survey, image_size: tuple[int, int] | None) -> Shape:
        """The shape of every sample after reading. Raises `BadData` if samples differ and no size is requested."""

    def part(self, survey: Survey, target: Target, selection: Selection) -> Part:
        """The selected samples, by the survey of all ranks. Raises `BadData`."""


@dataclass(frozen=True)
class Normalization:
    """Mean and standard deviation of each column of a table, or of each number to learn."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]


@dataclass(frozen=True)
class Facts:
    """What is known of a dataset before the first step; the model is built from it."""

    format: str
    shape: Shape
    dtype: Literal["uint8", "float32", "int32"]  # int32: numbers of words
    value_range: tuple[float, float] | None  # of pixels, brought to -1..1 by the model
    normalization: Normalization | None  # of columns, if there is no range
    classes: tuple[str, ...]
    sizes: DatasetSizes
    damaged: dict[str, str]
    counts: tuple[int, ...] = ()  # samples of each class, in the collection of the training part
    task: Task = CLASSIFICATION
    targets: Normalization | None = None  # of the numbers to learn, in the collection of the training part
    vocabulary: tuple[str, ...] = ()  # of texts: the position of a word is its number

    @property
    def outputs(self) -> int:
        """How many numbers the network gives for a sample: one for each class, or for each number to learn."""
        return len(self.classes) if self.targets is None else len(self.targets.mean)

    @property
    def are_texts(self) -> bool:
        """Whether a sample is a text, as the numbers of its words: (word,)."""
        return self.dtype == "int32"
