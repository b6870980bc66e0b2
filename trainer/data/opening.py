"""Opens the dataset of a spec, so that its parts can be read. Called by the session, in the same way on every rank.

In three steps, because the ranks share the survey: `open_source` opens the files, `OpenedSource.survey` looks at this
rank's share of every collection, and `OpenedSource.to_dataset` takes the surveys of all ranks. Only the session
communicates with the other ranks.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jobs.model.dataset_fields import NO_BALANCE, NO_ENLARGING, TEXT_FIELDS
from jobs.model.launch import Expected
from jobs.model.plan import DatasetSizes, Plan
from jobs.model.spec import DatasetSpec, Spec
from jobs.model.tasks import AnyTask
from trainer.data.augment import augmented, check_augment
from trainer.data.classes import check_labels, class_names
from trainer.data.formats import Collections, collections_of
from trainer.data.images.decoded import DecodedPart, decoded
from trainer.data.indexed import IndexedPart, balanced
from trainer.data.interfaces import (
    Batch,
    EvaluationBatch,
    Facts,
    Host,
    Normalization,
    Part,
    SampleSchedule,
    Selection,
    Shape,
    Survey,
    Target,
    merged,
)
from trainer.data.prefetch import Place, placed, prefetched
from trainer.data.targets import check_targets, scale_of
from trainer.data.texts import vocabulary_of
from trainer.errors import BadData

Surveys = dict[str, dict[str, Any]]

_MOST_DAMAGED = 0.01  # the share of samples that may be unreadable
_NAMED = 5


@dataclass(frozen=True)
class Dataset:
    """A dataset with its parts, on this rank."""

    facts: Facts
    train: Part
    validation: Part
    test: Part | None
    threads: int = 1  # that change training samples

    def train_batches(
        self, spec: Spec, plan: Plan, *, rank: int, epoch: int, first: int, place: Place | None = None
    ) -> Generator[Batch, None, None]:
        """This rank's batch of every step from step `first` of `epoch` on, without end; to be closed after use.

        `place` copies an array to the device of the steps. It is called ahead of them.
        """
        assert plan.train_samples is not None
        assert plan.steps_per_epoch is not None
        ranks = spec.ranks_on(plan.gpus)
        schedule = SampleSchedule(
            samples=plan.train_samples,
            rank=rank,
            ranks=ranks,
            per_rank=plan.global_batch // ranks,
            steps=plan.steps_per_epoch,
            seed=spec.seed,
            sharding=spec.own_dataset.sharding,
            shuffle_buffer=spec.own_dataset.shuffle_buffer,
        )
        batches = self.train.train(schedule, epoch=epoch, first=first)
        if spec.own_dataset.augment:
            augmenting = augmented(
                batches,
                spec.own_dataset.augment,
                schedule,
                epoch=epoch,
                first=first,
                value_range=self.facts.value_range or (0.0, 1.0),
                classes=len(self.facts.classes),
                enlarge=spec.own_dataset.augment_mode == "enlarge",
                threads=self.threads,
            )
            return placed(prefetched(augmenting), place)
        return placed(batches if self.train.is_quick else prefetched(batches), place)

    def evaluation_batches(
        self, part: Part, *, rank: int, ranks: int, per_rank: int, samples: int | None = None,
        place: Place | None = None,
    ) -> Generator[EvaluationBatch, None, None]:  # fmt: skip
        """This rank's batches of one of the parts; see `Part.evaluate`, and `train_batches` for `place`."""
        batches = part.evaluate(rank=rank, ranks=ranks, per_rank=per_rank, samples=samples)
        in_memory = isinstance(part, IndexedPart) and part.in_memory
        return placed(batches if in_memory else prefetched(batches), place)

    def damage(self) -> dict[str, str]:
        """Samples of any part that this rank could not read, and why."""
        parts = [self.train, self.validation] + ([self.test] if self.test is not None else [])
        return {name: why for part in parts for name, why in part.damage().items()}

    def prepare(self, *, local_rank: int, local_ranks: int) -> None:
        """Do this rank's share of the work before any rank of this host reads: with `cache: memory`."""
        for part in (self.train, self.validation):
            if isinstance(part, DecodedPart):
                part.fill(local_rank=local_rank, local_ranks=local_ranks)


@dataclass(frozen=True)
class OpenedSource:
    """The collections of a dataset, opened and not surveyed yet."""

    spec: DatasetSpec
    seed: int
    host: Host
    format: str
    collections: Collections

    def survey(self, *, rank: int, ranks: int) -> Surveys:
        """What this rank sees in its share, as JSON."""
        return {
            part: collection.survey(rank=rank, ranks=ranks).to_json() for part, collection in self.collections.items()
        }

    def to_dataset(self, surveys: Sequence[Surveys], expected: Expected | None = None) -> Dataset:
        """The dataset, by the surveys of all ranks. Raises `BadData`, also if it is not the `expected` one."""
        merged_surveys = {part: merged([survey[part] for survey in surveys]) for part in self.collections}
        for part, collection in self.collections.items():
            survey = merged_surveys[part]
            check_damage(survey.damaged, samples=survey.samples + len(survey.damaged), name=collection.name)
        train = self.collections["train"]
        shapes = self._shapes(merged_surveys)
        scale: Normalization | None = None
        classes: tuple[str, ...] = ()
        if train.task == "regression":
            scale = scale_of(merged_surveys["train"], name=train.name)
        else:
            classes = class_names(merged_surveys["train"], name=train.name, task=train.task)
        vocabulary = self._vocabulary(merged_surveys["train"])
        target = Target(shapes["train"], classes, train.task, len(scale.mean) if scale else 0, vocabulary)
        check_augment(self.spec.augment, target.shape, are_texts=bool(vocabulary))
        for part, collection in self.collections.items():
            if scale is None:
                check_labels(merged_surveys[part], target.classes, name=collection.name)
            else:
                check_targets(merged_surveys[part], target, name=collection.name)
            _check_shape(shapes[part], target.shape, name=collection.name)
            _check_dtype(merged_surveys[part], merged_surveys["train"], name=collection.name)
        parts = self._parts(merged_surveys, target)
        facts = self._facts(merged_surveys, target, parts, scale)
        if expected is not None:
            _check_unchanged(expected, samples=merged_surveys["train"].samples, facts=facts)
        if self.spec.cache == "memory":
            parts = decoded(parts, self.spec, self.host, seed=self.seed, target=target, dtype=facts.dtype)
        if self.spec.augment_mode == "enlarge" and not isinstance(parts["train"], IndexedPart | DecodedPart):
            raise BadData(f"dataset.augment_mode: {NO_ENLARGING}")
        return Dataset(facts, parts["train"], parts["validation"], parts.get("test"), self.host.threads)

    def _shapes(self, merged_surveys: Mapping[str, Survey]) -> dict[str, Shape]:
        """The shape of each part's samples; encoded images are decoded in colour when any part is."""
        shapes = {
            part: collection.shape_of(merged_surveys[part], self.spec.image_size)
            for part, collection in self.collections.items()
        }
        encoded = [part for part, survey in merged_surveys.items() if survey.details.get("encoded")]
        channel = max((shapes[part][-1] for part in encoded), default=0)
        return shapes | {part: (*shapes[part][:-1], channel) for part in encoded}

    def _vocabulary(self, train: Survey) -> tuple[str, ...]:
        """The words that a network knows, by the survey of the training data; none if the samples are no texts."""
        if train.details["dtype"] == "int32":
            return vocabulary_of(train.words, most=self.spec.vocabulary, name=self.collections["train"].name)
        for name in TEXT_FIELDS:
            if getattr(self.spec, name) != DatasetSpec.model_fields[name].default:
                raise BadData(f"dataset.{name}: the samples are no texts: leave it out")
        return ()

    def _parts(self, merged_surveys: Mapping[str, Survey], target: Target) -> dict[str, Part]:
        parts = {
            part: collection.part(merged_surveys[part], target, self._selection(part))
            for part, collection in self.collections.items()
        }
        if self.spec.balance:
            if not isinstance(parts["train"], IndexedPart):
                raise BadData(f"dataset.balance: {NO_BALANCE}")
            parts["train"] = balanced(parts["train"], name=self.collections["train"].name)
        if "validation" not in parts:
            parts["validation"] = self.collections["train"].part(
                merged_surveys["train"], target, self._selection("validation")
            )
        return parts

    def _selection(self, part: str) -> Selection:
        """What a part takes. Training samples are in random order, so `fraction` takes some of each kind."""
        apart = "validation" in self.collections
        if part == "test" or (part == "validation" and apart):
            return Selection("all")
        share = 0.0 if apart or isinstance(self.spec.validation, str) else self.spec.validation
        return Selection("train" if part == "train" else "validation", share, self.seed)

    def _facts(
        self,
        merged_surveys: Mapping[str, Survey],
        target: Target,
        parts: Mapping[str, Part],
        scale: Normalization | None,
    ) -> Facts:
        details = merged_surveys["train"].details
        normalization, value_range = details.get("normalization"), details.get("value_range")
        return Facts(
            format=self.format,
            shape=target.shape,
            dtype=details["dtype"],
            value_range=tuple(value_range) if value_range else None,
            normalization=Normalization(*map(tuple, normalization)) if normalization else None,
            classes=target.classes,
            sizes=DatasetSizes(
                train=len(parts["train"]),
                validation=len(parts["validation"]),
                test=len(parts["test"]) if "test" in parts else 0,
            ),
            damaged={name: why for survey in merged_surveys.values() for name, why in survey.damaged.items()},
            counts=self._counts(merged_surveys["train"], target, parts["train"]),
            task=target.task,
            targets=scale,
            vocabulary=target.vocabulary,
        )

    def _counts(self, survey: Survey, target: Target, part: Part) -> tuple[int, ...]:
        """Samples of each class: of the balanced part where it is, else of its whole collection."""
        if self.spec.balance and isinstance(part, IndexedPart):
            return tuple(np.bincount(part.labels[part.indices], minlength=len(target.classes)).tolist())
        return tuple(survey.labels.get(name, 0) for name in target.classes)


def open_source(spec: DatasetSpec, *, seed: int, host: Host, task: AnyTask = "auto") -> OpenedSource:
    """Find and open the data that the spec names. Raises `BadData`, also if its labels are not for the task."""
    format_, collections = collections_of(
        spec.source, spec, host, expected_format=spec.format, field="dataset.source", task=task
    )
    if isinstance(spec.validation, str):
        _, apart = collections_of(
            spec.validation, spec, host, expected_format="auto", field="dataset.validation",
            task=collections["train"].task,
        )  # fmt: skip
        collections = {**collections, "validation": apart["train"]}
    return OpenedSource(spec, seed, host, format_, collections)


def check_damage(damaged: Mapping[str, str], *, samples: int, name: str) -> None:
    """Raise `BadData` if more than 1 % of the samples are damaged. `samples` includes the damaged ones."""
    if len(damaged) > _MOST_DAMAGED * samples:
        named = "; ".join(f"{file}: {why}" for file, why in list(damaged.items())[:_NAMED])
        raise BadData(f"{name}: {len(damaged)} of {samples} samples are damaged, more than 1 %: {named}")


def _check_unchanged(expected: Expected, *, samples: int, facts: Facts) -> None:
    """Raise `BadData` if the figures of a registered dataset have changed."""
    targets = 0 if facts.targets is None else facts.outputs
    expected_sizes = (expected.samples, expected.test, expected.classes or expected.targets)
    found_sizes = (samples, facts.sizes.test, len(facts.classes) or targets)
    if (*found_sizes, targets) != (*expected_sizes, expected.targets):
        sentence = "{} samples and {} test samples in {} classes" + (" or targets" if targets != 0 else "")
        raise BadData(
            f"dataset.source: the files of {expected.dataset} have changed since it was validated: there were "
            f"{sentence.format(*expected_sizes)}, and there are {sentence.format(*found_sizes)}; "
            "register them as a new version"
        )


def _check_shape(shape: Shape, expected: Shape, *, name: str) -> None:
    if shape != expected:
        raise BadData(f"{name}: its samples have the shape {shape}, those of the training data {expected}")


def _check_dtype(survey: Survey, train: Survey, *, name: str) -> None:
    dtype, expected = survey.details["dtype"], train.details["dtype"]
    if dtype != expected:
        raise BadData(f"{name}: its values are {dtype}, those of the training data {expected}")
