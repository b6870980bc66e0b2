"""Registered datasets, their versions, and uploads."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationInfo, field_validator

from jobs.model.dataset_names import DatasetName
from jobs.model.spec import Column, Pixels, Share, Source
from jobs.model.tasks import CLASSIFICATION, AnyTask, Task
from jobs.views.base import View

DatasetStatus = Literal["validating", "ready", "invalid"]
_Text = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]*$", max_length=1000)]
# Never used as a path: the files are stored under the upload's id.
FileName = Annotated[
    str,
    StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f/\\]+$", max_length=255),
    Field(json_schema_extra={"format": "file-name"}),
]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class DatasetFacts(View):
    """What validation found in a version. A job whose spec sets no options of its own has these parts."""

    format: str
    shape: list[int] = Field(
        description="Shape of one sample: height, width, channels; or the number of columns, or of words of a text"
    )
    words: int | None = Field(None, description="Size of the vocabulary of texts; null: the samples are no texts")
    task: Task = Field(CLASSIFICATION, description="What the labels are for")
    classes: list[str] = Field(description="Names of the classes; the position of a name is its label")
    targets: int = Field(0, description="Numbers that a sample has to learn, in a regression")
    class_counts: dict[str, int] = Field(description="Samples of each class, before the validation split")
    samples: int = Field(description="Samples of the training data, before the validation split")
    train: int
    validation: int
    test: int
    split: float | None = Field(description="The share held out for validation; null: validation has data of its own")
    damaged: int = Field(description="Samples that cannot be read. They are left out")
    damaged_files: list[str] = Field(description="The first few files with such samples")
    warnings: list[str] = Field([], description="What else is odd about the data, one sentence each")
    files: int
    bytes: int


class DatasetVersionView(View):
    """One version of a registered dataset."""

    name: str
    version: int
    status: DatasetStatus
    error: str | None = Field(description="Why the version is invalid, or why its validation has to wait")
    source: str = Field(description="A path or URL below the data roots. For an upload: its path there")
    description: str
    options: dict[str, Any] = Field(description="Values for `task` and fields of `dataset` that a spec leaves out")
    facts: DatasetFacts | None
    fingerprint: str | None = Field(description="SHA-256 over the names and contents of the files")
    upload_id: str | None
    created_by: str
    created_at: datetime
    validated_at: datetime | None
    revision: int = Field(description="Grows with every change")


class DatasetSampleView(View):
    """A small image of a version of a dataset."""

    number: int
    label: str = Field(description="Its class, its classes, or the numbers to learn")
    path: str = Field(description="Where the image is, a PNG of at most 64 x 64 pixels")


class DatasetSamples(View):
    """A few images of a version of a dataset: up to 3 of a class and 24 in all."""

    items: Sequence[DatasetSampleView]


class DatasetLine(View):
    """A dataset that a spec can name, with its newest version. An unknown value is null."""

    name: str
    description: str
    trainable: int | None = Field(description="Samples that are split into training and validation")
    test: int | None
    classes: int | None
    task: Task | None = None
    targets: int | None = Field(0, description="Numbers that a sample has to learn, in a regression")
    shape: list[int] | None
    format: str | None
    builtin: bool
    version: int | None = None
    status: DatasetStatus = "ready"
    error: str | None = None
    created_by: str | None = None
    created_at: datetime | None = None


class DatasetVersions(View):
    """A dataset with its versions, newest first."""

    name: str
    description: str
    builtin: bool
    newest_ready: int | None = Field(description="The version that a spec gets if it names no version")
    items: Sequence[DatasetVersionView]
    next_cursor: str | None = None


class NewDataset(BaseModel):
    """A dataset to register: the next version of its name. Send either `source` or `upload`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, validate_default=True)

    name: DatasetName
    description: _Text = ""
    source: Annotated[Source | None, Field(description="A path or a URL below the data roots")] = None
    upload: Annotated[str | None, Field(pattern="^[0-9a-z]{1,32}$", description="The id of a complete upload")] = None
    format: Literal["auto", "images", "parquet", "arrays", "tfrecord"] = "auto"
    label: Column = "label"
    text: Annotated[Column | None, Field(description="The column of the texts in Parquet")] = None
    image_size: Annotated[tuple[Pixels, Pixels] | None, Field(strict=False, description="Height and width")] = None
    validation: Share | Source = 0.1
    task: AnyTask = "auto"

    @field_validator("upload")
    @classmethod
    def _one_of_two(cls, upload: str | None, info: ValidationInfo) -> str | None:
        if (upload is None) == (info.data.get("source") is None) and "source" in info.data:
            raise ValueError("send either `source`, below the data roots, or `upload`")
        return upload

    @property
    def options(self) -> dict[str, Any]:
        """The options that jobs get if their spec does not set them."""
        options = self.model_dump(mode="json", include={"format", "label", "image_size", "validation"})
        later = self.model_dump(mode="json", include={"task", "text"}, exclude_defaults=True)
        return options | later  # without what older workers do not know


class NewUpload(BaseModel):
    """A file to send in pieces: an archive (.zip, .tar, .tar.gz, .tar.zst), or one .npz, .parquet or .tfrecord."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    filename: FileName
    size_bytes: Annotated[int, Field(ge=1, lt=2**53)]
    sha256: Annotated[Sha256 | None, Field(description="SHA-256 of the whole file, to be checked")] = None
    purpose: Annotated[
        Literal["data", "code", "run"],
        Field(
            description="`code`: for `POST /v1/code`; `run`: for `POST /v1/imports`. What is wrong with that is"
            " said before the bytes are sent"
        ),
    ] = "data"


class UploadView(View):
    """An upload, and how much of it was received."""

    id: str
    filename: str
    size_bytes: int
    received_bytes: int = Field(description="Bytes received so far. The next piece starts at this offset")
    chunk_bytes: int = Field(description="The largest size of a piece")
    sha256: str | None
    owner: str
    created_at: datetime
    touched_at: datetime = Field(description="When the last piece arrived")
    completed_at: datetime | None
    removed_at: datetime | None = Field(description="When its bytes were removed, after use or as abandoned")
