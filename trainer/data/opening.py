"""From a spec to a dataset whose parts can be read. Called by the session, on every rank alike.

In three moves, because the ranks share out the looking: `find` opens, `Found.survey` looks at this rank's share of
every collection, and `Found.open` takes what all ranks saw. Only the session speaks with the other ranks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.plan import DatasetSizes, Plan
from jobs.spec import DatasetSpec, Spec
from trainer.data import arrays
from trainer.data.classes import check_labels, class_names
from trainer.data.location import Location, locate
from trainer.data.parts import (
    Batch,
    Collection,
    Draw,
    Facts,
    Host,
    Normalization,
    Part,
    Selection,
    Survey,
    Target,
    merged,
)
from trainer.exits import BadData

Collections = Mapping[str, Collection]  # by part: train, and where they lie apart validation and test
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

    def train_batches(self, spec: Spec, plan: Plan, *, rank: int, epoch: int, first: int) -> Iterator[Batch]:
        """This rank's batch of every step from step `first` of `epoch` on, without end."""
        assert plan.train_samples is not None
        assert plan.steps_per_epoch is not None
        draw = Draw(
            samples=plan.train_samples,
            rank=rank,
            ranks=plan.gpus,
            per_rank=plan.per_gpu_batch,
            steps=plan.steps_per_epoch,
            seed=spec.seed,
            sharding=spec.dataset.sharding,
            shuffle_buffer=spec.dataset.shuffle_buffer,
        )
        return self.train.train(draw, epoch=epoch, first=first)

    def prepare(self, *, local_rank: int, local_ranks: int) -> None:
        """Do this rank's share of what has to be there before any rank of this host reads: `cache: memory`."""


@dataclass(frozen=True)
class Found:
    """The collections of a dataset, opened and not yet looked at."""

    spec: DatasetSpec
    seed: int
    format: str
    collections: Collections

    def survey(self, *, rank: int, ranks: int) -> Surveys:
        """What this rank sees in its share, as JSON."""
        return {
            part: collection.survey(rank=rank, ranks=ranks).to_json() for part, collection in self.collections.items()
        }

    def open(self, surveys: Sequence[Surveys]) -> Dataset:
        """The dataset, by the surveys of all ranks. Raises `BadData`."""
        found = {part: merged([survey[part] for survey in surveys]) for part in self.collections}
        for part, collection in self.collections.items():
            _check_damage(found[part], name=collection.name)
        train = self.collections["train"]
        target = Target(
            shape=train.shape_of(found["train"], self.spec.image_size),
            classes=class_names(found["train"], name=train.name),
        )
        for part, collection in self.collections.items():
            check_labels(found[part], target.classes, name=collection.name)
            _check_shape(collection.shape_of(found[part], self.spec.image_size), target.shape, name=collection.name)
        parts = {
            part: collection.part(found[part], target, self._selection(part))
            for part, collection in self.collections.items()
        }
        if "validation" not in parts:
            parts["validation"] = train.part(found["train"], target, self._selection("validation"))
        return Dataset(self._facts(found, target, parts), parts["train"], parts["validation"], parts.get("test"))

    def _selection(self, part: str) -> Selection:
        if part == "test" or "validation" in self.collections:
            return Selection("all")
        assert isinstance(self.spec.validation, float)
        return Selection("train" if part == "train" else "validation", self.spec.validation, self.seed)

    def _facts(self, found: Mapping[str, Survey], target: Target, parts: Mapping[str, Part]) -> Facts:
        details = found["train"].details
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
            damaged={name: why for survey in found.values() for name, why in survey.damaged.items()},
        )


def find(spec: DatasetSpec, *, seed: int, host: Host) -> Found:
    """Find and open what the spec names. Raises `BadData`."""
    format_, collections = _collections(spec, spec.source, host, field="dataset.source")
    if isinstance(spec.validation, str):
        _, apart = _collections(spec, spec.validation, host, field="dataset.validation")
        collections = {**collections, "validation": apart["train"]}
    return Found(spec, seed, format_, collections)


def _collections(spec: DatasetSpec, source: str, host: Host, *, field: str) -> tuple[str, dict[str, Collection]]:
    registered = _REGISTERED.get(source)
    if registered is not None:
        return "arrays", registered(host.data_roots)
    location = locate(source, host.data_roots, field=field)
    raise BadData(f"{field}: {location.source} has no format that is known")


def _check_damage(survey: Survey, *, name: str) -> None:
    whole = survey.samples + len(survey.damaged)
    if len(survey.damaged) > _MOST_DAMAGED * whole:
        named = "; ".join(f"{file}: {why}" for file, why in list(survey.damaged.items())[:_NAMED])
        raise BadData(f"{name}: {len(survey.damaged)} of {whole} samples are damaged, more than 1 %: {named}")


def _check_shape(shape: tuple[int, ...], expected: tuple[int, ...], *, name: str) -> None:
    if shape != expected:
        raise BadData(f"{name}: its samples have the shape {shape}, those of the training data {expected}")


_REGISTERED: dict[str, Callable[[Sequence[str]], dict[str, Collection]]] = {
    "digits": arrays.digits,
    "fashion-mnist": arrays.fashion_mnist,
}
__all__ = ["Dataset", "Found", "Location", "find"]
