"""The fields of documents that the client sends, for type checkers and editors. No code reads them.

`python -m tests.typed_fields` writes this file from the models of the service. A class named `...Part` is an object
inside another one. No field is required here: the service says what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict


class AlertRulePart(TypedDict, total=False):
    """When to alert people: of a metric (`when`), or of a line of the log (`log`). It speaks once in a job."""

    when: str | None
    in_a_row: int
    log: str | None
    level: Literal["info", "warning", "error"]


class AllreducePart(TypedDict, total=False):
    """The messages in which the ranks average their gradients."""

    compression: Literal["none", "fp16"]
    bucket_mb: float | None


class CheckpointPart(TypedDict, total=False):
    """How often to save a checkpoint, from which a restart continues, and how many to keep."""

    every_epochs: int
    keep: int


class ColorPart(TypedDict, total=False):
    """Changes brightness, contrast and saturation by factors from 1 - x to 1 + x, and turns the hue by up to x."""

    name: Literal["color"]
    chance: float
    brightness: float
    contrast: float
    saturation: float
    hue: float


class CropPart(TypedDict, total=False):
    """Adds `padding` black pixels on each side, and cuts an image of the old size out at a random place."""

    name: Literal["crop"]
    chance: float
    padding: int


class CutmixPart(TypedDict, total=False):
    """Puts a part of another image into each, and blends the labels by the area (Yun et al. 2019, arXiv:1905.04899)."""

    name: Literal["cutmix"]
    chance: float
    alpha: float


class DatasetPart(TypedDict, total=False):
    """Which samples to train on, and how the ranks share them."""

    source: str
    format: Literal["auto", "images", "parquet", "arrays", "tfrecord", "synthetic"]
    label: str
    text: str | None
    text_length: int
    vocabulary: int
    image_size: list[int] | tuple[int, int] | None
    validation: float | str
    fraction: float
    samples: int | None
    balance: bool
    sharding: Literal["shard", "steps"]
    shuffle_buffer: int
    cache: Literal["none", "memory", "disk"]
    cache_limit_gb: float
    augment: list[
        Literal["flip_horizontal", "flip_vertical", "rotate_90", "rotate_180", "rotate_270"]
        | VariantPart
        | CropPart
        | ResizedCropPart
        | ColorPart
        | ErasePart
        | MixupPart
        | CutmixPart
    ]
    augment_mode: Literal["draw", "enlarge"]


class EarlyStoppingPart(TypedDict, total=False):
    """Stop when `monitor` has not improved by `min_delta` for `patience` epochs."""

    monitor: str
    patience: int
    min_delta: float
    restore_best_weights: bool


class ErasePart(TypedDict, total=False):
    """Covers a random rectangle with mid-grey (random erasing: Zhong et al. 2017, arXiv:1708.04896)."""

    name: Literal["erase"]
    chance: float
    scale: list[float] | tuple[float, float]
    ratio: list[float] | tuple[float, float]


class GoalPart(TypedDict, total=False):
    """The metric that says how good a job is: reports, advice and lists use it."""

    metric: str
    mode: Literal["min", "max"] | None


class IdlePart(TypedDict, total=False):
    """From when on the slots of a job count as idle, and what follows."""

    below: float
    for_s: float
    action: Literal["warn", "pause", "stop"]


class MixupPart(TypedDict, total=False):
    """Blends two samples and their labels by a share from Beta(alpha, alpha) (Zhang et al. 2017, arXiv:1710.09412)."""

    name: Literal["mixup"]
    chance: float
    alpha: float


class ModelPart(TypedDict, total=False):
    """Which network to train, and from which weights."""

    name: str
    weights: str
    freeze_base: bool
    dropout: float


class OptimizerPart(TypedDict, total=False):
    """The rule by which gradients change weights."""

    name: Literal["adam", "adamw", "lamb", "nadam", "sgd"]
    momentum: float | None
    nesterov: bool | None
    beta_1: float | None
    beta_2: float | None
    epsilon: float | None


class ProbePart(TypedDict, total=False):
    """Short runs with doubling batches instead of a training."""

    smallest: int | None
    largest: int
    seconds: float


class ResizedCropPart(TypedDict, total=False):
    """Cuts out a random rectangle and scales it to the size of the image (Szegedy et al. 2014, arXiv:1409.4842)."""

    name: Literal["resized_crop"]
    chance: float
    scale: list[float] | tuple[float, float]
    ratio: list[float] | tuple[float, float]


class SchedulePart(TypedDict, total=False):
    """How the rate falls after the warm-up."""

    name: Literal["constant", "cosine", "exponential", "plateau", "step"]
    final: float | None
    epochs: list[int] | None
    factor: float | None
    monitor: str | None
    patience: int | None
    min_delta: float | None
    least: float | None


class VariantPart(TypedDict, total=False):
    """A flip or a rotation as a step of its own."""

    name: Literal["flip_horizontal", "flip_vertical", "rotate_90", "rotate_180", "rotate_270"]
    chance: float


class PrunePart(TypedDict, total=False):
    """When a trial is ended before its last epoch."""

    name: Literal["asha", "median"]
    min_epochs: int | None
    reduction: int


class SearchPart(TypedDict, total=False):
    """How the values of the trials are chosen, and which trials end early."""

    method: Literal["random", "tpe", "grid"]
    trials: int | None
    parallel: int
    objective: str | None
    mode: Literal["min", "max"] | None
    space: Mapping[str, Any]
    prune: Literal["asha", "median"] | PrunePart | None


class CallFields(TypedDict, total=False):
    """The fields of a spec that `client.jobs.run` takes."""

    name: str
    params: Mapping[str, Any]
    env: Mapping[str, str]
    environment: str
    requirements: list[str] | Literal["requirements.txt"] | None
    task: Literal["auto", "classification", "regression", "multilabel"]
    dataset: str | DatasetPart | None
    model: str | ModelPart | None
    strategy: Literal["horovod", "mirrored"]
    min_gpus: int | None
    device: Literal["auto", "gpu", "cpu"]
    gpu_model: str | None
    gpu_memory_gb: float | None
    mixed_gpus: bool
    batch_per: Literal["gpu", "global"]
    batch_size: int
    accumulate: int
    learning_rate: float
    lr_scaling: Literal["none", "linear", "sqrt", "two_thirds"]
    base_batch: int | None
    warmup_epochs: int
    schedule: Literal["constant", "cosine", "exponential", "plateau", "step"] | SchedulePart | None
    optimizer: Literal["adam", "adamw", "lamb", "nadam", "sgd"] | OptimizerPart
    weight_decay: float | None
    clip_norm: float | None
    label_smoothing: float
    class_weights: Literal["balanced"] | Mapping[str, float] | None
    epochs: int
    continue_from: str | None
    steps_per_epoch: int | None
    validation_steps: int | None
    goal: GoalPart | None
    early_stopping: EarlyStoppingPart | None
    checkpoint: CheckpointPart
    precision: Literal["float32", "mixed_float16", "mixed_bfloat16"]
    jit: bool
    allreduce: AllreducePart
    placement: Literal["pack", "single_host", "spread"]
    pool: str | None
    priority: int
    after: list[str]
    project: str
    max_restarts: int
    time_limit_s: float | None
    stall_timeout_s: float
    idle: IdlePart | None
    alerts: list[AlertRulePart]
    seed: int
    labels: Mapping[str, str]
    probe: ProbePart | None


class SpecFields(CallFields, total=False):
    """The fields of a spec: docs/spec.md."""

    gpus: int
    code: str | None
    command: list[str] | None


class ChangeFields(TypedDict, total=False):
    """What can be changed of a job."""

    name: str
    priority: int
    time_limit_s: float | None
    labels: Mapping[str, str | None]
    notes: str | None
    starred: bool
    archived: bool
    project: str


class StudyFields(TypedDict, total=False):
    """The fields of a study: docs/studies.md."""

    name: str
    base: Mapping[str, Any]
    grid: Mapping[str, list[Any]]
    search: SearchPart | None
    repeats: int
    max_jobs: int
    target: float | None
    note: str | None


class UploadFields(TypedDict, total=False):
    """How to read the data that `client.datasets.upload` sends."""

    name: str
    description: str
    format: Literal["auto", "images", "parquet", "arrays", "tfrecord"]
    label: str
    text: str | None
    image_size: list[int] | tuple[int, int] | None
    validation: float | str
    task: Literal["auto", "classification", "regression", "multilabel"]


class DatasetFields(UploadFields, total=False):
    """The fields of a dataset."""

    source: str | None
    upload: str | None


class ProjectFields(TypedDict, total=False):
    """The fields of a new project, beside its name."""

    description: str
    is_open: bool
    max_slots: int | None
    max_queued: int | None
    max_gpu_hours: float | None
    max_storage_gb: float | None
    max_priority: int | None
    share: float
    idle: IdlePart | None


class ProjectChangeFields(TypedDict, total=False):
    """What can be changed of a project."""

    description: str
    is_open: bool
    is_archived: bool
    max_slots: int | None
    max_queued: int | None
    max_gpu_hours: float | None
    max_storage_gb: float | None
    max_priority: int | None
    share: float
    idle: IdlePart | None
