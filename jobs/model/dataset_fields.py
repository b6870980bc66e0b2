"""The part `dataset` of a spec, for `jobs.model.spec`. Pure. See `jobs.model.spec_parts` for its descriptions."""

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from jobs.model.augment_fields import VARIANTS, AugmentItem, Cutmix, Mixup, variants_in
from jobs.model.spec_parts import Column, Pixels, Share, Source, SpecPart

NO_ENLARGING = "Parquet is streamed, so its samples have no numbers: set dataset.cache to memory, or this to draw"
NO_BALANCE = (
    "Parquet is streamed, so samples cannot be chosen by their class: set class_weights to balanced, or write files"
    " with equal classes"
)
TEXT_FIELDS = ("text", "text_length", "vocabulary")


class DatasetSpec(SpecPart):
    """Which samples to train on, and how the ranks share them."""

    source: Source = Field(
        description="A [registered name](datasets.md) or a version of it, such as `chips@3`. Generated data"
        " (`synthetic:samples=5000,classes=4,shape=32x32x3`). Or a path or URL below the"
        " [data roots](data.md#data-roots)."
    )
    format: Literal["auto", "images", "parquet", "arrays", "tfrecord", "synthetic"] = Field(
        "auto",
        description="How the [data is stored](data.md): `images`, `parquet`, `arrays`, `tfrecord` or"
        " `synthetic`. `auto` finds out.",
    )
    label: Column = Field("label", description="The column of the label in Parquet, the feature in TFRecord.")
    text: Column | None = Field(
        None,
        description="The column of the [texts](data.md#text) in Parquet. `null`: the only column of strings beside the"
        " label, or the one named `text`.",
    )
    text_length: int = Field(
        256, ge=1, le=65_536, description="How many words of a text are read. The rest of the text is cut off."
    )
    vocabulary: int = Field(
        20_000,
        ge=1,
        le=1_000_000,
        description="How many words a network for texts knows: the most frequent ones of the training data.",
    )
    image_size: tuple[Pixels, Pixels] | None = Field(
        None,
        strict=False,
        description="`[height, width]` to which images are resized, bilinearly. With `null` they keep their size, which"
        " must be the same for all images.",
    )
    validation: Share | Source = Field(
        0.1,
        description="What to validate on: a share of the training data, or another source. If the data has its own"
        " [validation part](data.md#parts), that is used instead of a share.",
    )
    fraction: float = Field(
        1.0,
        gt=0,
        le=1,
        description="The share of the training part to use. It is the same samples on every rank and after every"
        " restart.",
    )
    samples: int | None = Field(
        None,
        ge=1,
        le=10_000_000_000,
        description="How many samples of the training part to use, in place of `fraction`. A smaller number takes some"
        " of the samples of a larger one.",
    )
    balance: bool = Field(
        False,
        description="Take as many samples of each class as the rarest class has in the training part, before `fraction`"
        " or `samples`. [Not for streamed data](data.md#parts).",
    )
    sharding: Literal["shard", "steps"] = Field(
        "shard",
        description="How ranks divide an epoch. `shard`: all samples are shuffled, each rank takes its part, then makes"
        " batches. `steps`: each rank draws from all the data, and makes 1/n of the steps.",
    )
    shuffle_buffer: int = Field(
        4096,
        ge=1,
        le=10_000_000,
        description="How many samples are shuffled together when data is streamed (Parquet).",
    )
    cache: Literal["none", "memory", "disk"] = Field(
        "none",
        description="`disk`: raw files are kept on the host's own disk, for all jobs (`HORA_CACHE_DIR`). `memory`:"
        " decoded samples are kept in one file that all ranks of the host map.",
    )
    cache_limit_gb: float = Field(
        20, gt=0, le=100_000, description="The largest size of the cache, in units of 10^9 bytes."
    )
    augment: list[AugmentItem] = Field(
        [],
        max_length=16,
        description="[How training samples are changed](data.md#augmentation). Plain names are variants: flips and"
        " quarter rotations. Each time a sample is used, the original or one of them is drawn, all with the same"
        " chance. Objects such as `{name: crop, padding: 4}` are steps, each with a chance of its own.",
    )

    augment_mode: Literal["draw", "enlarge"] = Field(
        "draw",
        description="`draw`: each use of a sample draws the original or one of the variants. `enlarge`: an epoch has"
        " the original and each variant of every sample once, so its steps grow by their number.",
    )

    @field_validator("samples")
    @classmethod
    def _excludes_fraction(cls, samples: int | None, info: ValidationInfo) -> int | None:
        fraction = info.data.get("fraction", 1.0)
        if samples is not None and fraction != 1.0:
            raise ValueError(f"fraction is {fraction:g}: give one of the two")
        return samples

    @field_validator("augment")
    @classmethod
    def _mixes_last(cls, augment: list[AugmentItem]) -> list[AugmentItem]:
        mixes = [isinstance(item, Mixup | Cutmix) for item in augment]
        if mixes != sorted(mixes):
            raise ValueError("mixup and cutmix come last: they mix samples that are changed already")
        return augment

    @field_validator("augment_mode")
    @classmethod
    def _has_variants(cls, mode: str, info: ValidationInfo) -> str:
        if mode == "enlarge" and not variants_in(info.data.get("augment", ["unknown"])):
            raise ValueError(f"enlarge needs variants: list one or more of {', '.join(VARIANTS)} in augment")
        return mode

    @property
    def copies(self) -> int:
        """How often an epoch has each sample, the original included."""
        return 1 + len(variants_in(self.augment)) if self.augment_mode == "enlarge" else 1

    def used_samples(self, available: int) -> int:
        """How many samples of a training part are to be used; may be more than it has."""
        return round(available * self.fraction) if self.samples is None else self.samples
