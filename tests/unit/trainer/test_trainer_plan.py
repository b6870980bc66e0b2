"""The plan resolved from the data that was opened."""

from pathlib import Path

import pytest

from jobs.model.catalog import sizes_of
from jobs.model.plan import DatasetSizes, Plan, resolve_plan
from jobs.model.spec import spec_from
from trainer.data.interfaces import Host
from trainer.data.opening import open_source
from trainer.errors import BadData
from trainer.plan import settle_plan

SIZES = DatasetSizes(train=1000, validation=100, test=50)


def plan(**fields: object) -> Plan:
    spec = spec_from({"dataset": "digits", "batch_size": 50, "learning_rate": 0.1, **fields})
    return settle_plan(spec, SIZES, gpus=2)


def test_settled_plan_equals_the_plan_shown_at_submission(tmp_path: Path) -> None:
    spec = spec_from({"dataset": "digits", "gpus": 2, "batch_size": 64})
    source = open_source(spec.dataset, seed=spec.seed, host=Host([], tmp_path, tmp_path, threads=1))
    opened = source.to_dataset([source.survey(rank=0, ranks=1)])
    assert settle_plan(spec, opened.facts.sizes, gpus=2) == resolve_plan(spec, sizes_of(spec))


def test_a_batch_larger_than_the_data_is_bad_data() -> None:
    with pytest.raises(BadData, match=r"^batch_size: a global batch of 2000 is larger"):
        plan(batch_size=1000)
