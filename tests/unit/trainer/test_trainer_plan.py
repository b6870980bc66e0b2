"""The plan resolved from the data that was opened."""

import pytest

from jobs.catalog import sizes_of
from jobs.plan import DatasetSizes, Plan, resolve_plan
from jobs.spec import EarlyStopping, Spec, spec_from
from trainer.data import open_dataset
from trainer.exits import BadData
from trainer.plan import learning_rate_of, settle_plan

SIZES = DatasetSizes(train=1000, validation=100, test=50)


def plan(**fields: object) -> Plan:
    spec = spec_from({"dataset": "digits", "batch_size": 50, "learning_rate": 0.1, **fields})
    return settle_plan(spec, SIZES, ranks=2)


def test_it_is_the_plan_that_was_shown_at_submission() -> None:
    spec = Spec(dataset="digits", gpus=2, batch_size=64)  # type: ignore[arg-type]
    opened = open_dataset(spec.dataset, seed=spec.seed, data_roots=[])
    assert settle_plan(spec, opened.sizes, ranks=2) == resolve_plan(spec, sizes_of(spec))


def test_a_batch_larger_than_the_data_is_bad_data() -> None:
    with pytest.raises(BadData, match=r"^batch_size: a global batch of 2000 is larger"):
        plan(batch_size=1000)


def test_an_unknown_metric_to_monitor_is_bad_data() -> None:
    with pytest.raises(BadData, match="there is no metric 'val_f1'; there are: loss, accuracy, val_loss, val_accuracy"):
        plan(early_stopping=EarlyStopping(monitor="val_f1").model_dump())


def test_without_warm_up_the_rate_is_the_plans_from_the_first_update() -> None:
    assert learning_rate_of(plan(), 0) == 0.1


def test_the_warm_up_is_linear_per_step_from_the_base_rate_to_the_plans() -> None:
    warm = plan(warmup_epochs=2, lr_scaling="linear")  # 10 steps an epoch, 0.1 -> 0.2
    assert [learning_rate_of(warm, update) for update in (0, 5, 10, 20, 1000)] == pytest.approx(
        [0.1, 0.125, 0.15, 0.2, 0.2]
    )
