"""The figures a run uses, from the spec and the data's size."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.model.plan import DatasetSizes, UnworkablePlan, lr_factor, resolve_plan, split_sizes
from jobs.model.spec import Spec, spec_from

SIZES = DatasetSizes(train=1350, validation=150, test=297)


def spec_of(**fields: Any) -> Spec:
    return spec_from({"dataset": "digits", "batch_size": 64, "learning_rate": 0.001, "gpus": 2} | fields)


def test_plan_derives_its_figures_from_a_per_gpu_batch() -> None:
    plan = resolve_plan(spec_of(), SIZES)
    assert (plan.gpus, plan.per_gpu_batch, plan.global_batch, plan.base_batch) == (2, 64, 128, 64)
    assert (plan.base_learning_rate, plan.lr_factor, plan.learning_rate, plan.warmup_epochs) == (0.001, 1.0, 0.001, 0)
    assert (plan.epochs, plan.steps_per_epoch) == (30, 10)  # 1350 // 128: the last 70 samples do not fill a batch
    assert plan.validation_steps == 2  # 150 / 128, rounded up
    assert (plan.train_samples, plan.validation_samples, plan.test_samples) == (1350, 150, 297)


def test_global_batch_follows_from_the_gpus_that_were_granted() -> None:
    plan = resolve_plan(spec_of(batch_per="global"), SIZES)
    assert (plan.per_gpu_batch, plan.global_batch, plan.base_batch) == (32, 64, 32)
    assert (plan.steps_per_epoch, plan.validation_steps) == (21, 3)
    granted = resolve_plan(spec_of(gpus=8), SIZES, gpus=4)
    assert (granted.gpus, granted.global_batch, granted.steps_per_epoch) == (4, 256, 5)


@pytest.mark.parametrize(("policy", "factor"), [("none", 1.0), ("linear", 8.0), ("sqrt", 8**0.5), ("two_thirds", 4.0)])
def test_learning_rate_is_scaled_by_the_policy(policy: str, factor: float) -> None:
    plan = resolve_plan(spec_of(gpus=8, batch_size=32, base_batch=32, lr_scaling=policy, learning_rate=0.01), SIZES)
    assert plan.lr_factor == pytest.approx(factor)
    assert plan.learning_rate == pytest.approx(0.01 * factor)
    assert plan.base_learning_rate == 0.01
    assert lr_factor("sqrt", global_batch=32, base_batch=128) == 0.5  # smaller than the base: a smaller rate
    assert resolve_plan(spec_of(lr_scaling="linear"), None).lr_factor == 2.0, "the base is the batch of a GPU"


def test_step_counts_are_those_of_the_spec_and_none_while_the_dataset_size_is_unknown() -> None:
    plan = resolve_plan(spec_of(), None)
    assert (plan.steps_per_epoch, plan.validation_steps, plan.train_samples) == (None, None, None)
    for sizes in (SIZES, None):
        assert resolve_plan(spec_of(steps_per_epoch=7), sizes).steps_per_epoch == 7


@pytest.mark.parametrize(("share", "samples"), [({"fraction": 0.5}, 675), ({"samples": 640}, 640)])
def test_a_part_of_the_samples_is_one_of_the_training_part(share: dict[str, Any], samples: int) -> None:
    plan = resolve_plan(spec_of(dataset={"source": "digits", **share}), SIZES)
    assert (plan.train_samples, plan.validation_samples, plan.steps_per_epoch) == (samples, 150, 5)


@pytest.mark.parametrize(
    ("fields", "sizes", "gpus", "field", "words"),
    [
        ({"dataset": {"source": "digits", "samples": 1351}}, SIZES, 2, "dataset.samples", "1350 training samples, not"),
        ({}, DatasetSizes(train=127, validation=1), 2, "batch_size", "larger than the 127 training"),
        ({}, DatasetSizes(train=1000, validation=0), 2, "dataset.validation", "is empty"),
        ({"batch_per": "global", "accumulate": 2}, SIZES, 3, "batch_size", "64 does not divide by 3 gpus x 2 batches"),
    ],
)
def test_an_unworkable_plan_is_refused_at_its_field(
    fields: dict[str, Any], sizes: DatasetSizes, gpus: int, field: str, words: str
) -> None:
    with pytest.raises(UnworkablePlan, match=words) as refused:
        resolve_plan(spec_of(**fields), sizes, gpus=gpus)
    assert refused.value.field == field


def test_an_epoch_of_enlarged_data_has_every_variant_of_every_sample() -> None:
    augment = ["flip_horizontal", "flip_vertical", "rotate_90", "rotate_180", "rotate_270", {"name": "crop"}]
    dataset = {"source": "digits", "augment": augment, "augment_mode": "enlarge"}
    plan = resolve_plan(spec_of(dataset=dataset), SIZES)
    assert (plan.train_samples, plan.steps_per_epoch) == (1350, 6 * 1350 // 128)
    few = resolve_plan(spec_of(dataset=dataset), DatasetSizes(train=100, validation=1))
    assert few.steps_per_epoch == 4  # of 128, from 600


@pytest.mark.parametrize(("asked", "steps", "samples"), [(None, 2, 150), (1, 1, 128), (2, 2, 150), (9, 2, 150)])
def test_validation_takes_so_many_batches_at_most(asked: int | None, steps: int, samples: int) -> None:
    plan = resolve_plan(spec_of(validation_steps=asked), SIZES)
    assert (plan.validation_steps, plan.validation_samples) == (steps, samples)


def test_a_split_loses_no_sample() -> None:
    assert split_sizes(1500, 0.1) == (1350, 150)
    assert split_sizes(3, 0.1) == (3, 0)


@given(
    gpus=st.integers(1, 64),
    accumulate=st.integers(1, 8),
    batch=st.integers(1, 512),
    per=st.sampled_from(["gpu", "global"]),
    more=st.integers(0, 100_000),
    validation=st.integers(1, 10_000),
)
def test_validation_covers_every_sample_and_training_uses_whole_batches(
    gpus: int, accumulate: int, batch: int, per: str, more: int, validation: int
) -> None:
    at_once, global_batch = batch * gpus, batch * gpus * accumulate
    train = global_batch + more
    batch_size = global_batch if per == "global" else batch
    spec = spec_of(gpus=gpus, accumulate=accumulate, batch_size=batch_size, batch_per=per)
    plan = resolve_plan(spec, DatasetSizes(train=train, validation=validation))
    assert (plan.per_gpu_batch, plan.global_batch, plan.accumulate) == (batch, global_batch, accumulate)
    assert (plan.per_gpu_samples, plan.base_batch) == (batch * accumulate, batch)
    assert (plan.validation_steps - 1) * at_once < validation <= plan.validation_steps * at_once
    assert 0 <= train - plan.steps_per_epoch * global_batch < global_batch
