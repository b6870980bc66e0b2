"""The key that runs of about the same duration share, and when an attempt is expected to end."""

from typing import Any

from jobs.lifecycle.run_durations import key_of, work_key_of
from jobs.model.spec import spec_from
from jobs.scheduling.live_rows import expected_end_s


def key(**fields: Any) -> str:
    return key_of(spec_from({"dataset": "digits", "batch_size": 64, "gpus": 2} | fields))


CHANGE_THE_TIME: list[dict[str, Any]] = [
    {"gpus": 4}, {"batch_size": 32}, {"epochs": 3}, {"steps_per_epoch": 9}, {"precision": "mixed_float16"},
    {"model": "mlp"}, {"early_stopping": None}, {"dataset": {"source": "digits", "fraction": 0.5}},
    {"dataset": {"source": "digits", "image_size": [16, 16]}}, {"dataset": "fashion-mnist"}, {"device": "cpu"},
    {"gpu_model": "h100"}, {"mixed_gpus": True}, {"jit": True}, {"allreduce": {"compression": "fp16"}},
]  # fmt: skip
KEEP_THE_TIME: list[dict[str, Any]] = [
    {"name": "other"}, {"seed": 1}, {"priority": 9}, {"labels": {"a": "b"}}, {"learning_rate": 0.5}, {"time_limit_s": 5}
]  # fmt: skip


def test_only_fields_that_change_the_run_time_change_the_key() -> None:
    assert [fields for fields in CHANGE_THE_TIME if key(**fields) == key()] == []
    assert [fields for fields in KEEP_THE_TIME if key(**fields) != key()] == []


def test_a_spec_without_newer_fields_keeps_the_keys_that_earlier_runs_were_stored_with() -> None:
    spec = spec_from({"dataset": "digits"})
    assert key_of(spec) == "ca6a27b3dfe49a668a05b2e81b087813f699d3968a8d1d56f4330acf99196e09"
    assert work_key_of(spec) == "b48b0f0dbdb5a1a802a04d1d4c017854016d591d3d31394a65c080a025a998f9"


def test_an_expected_end_uses_the_most_specific_estimate() -> None:
    assert expected_end_s(5.0, 100.0, [50.0, 60.0], age_s=10) == 5
    assert expected_end_s(None, 100.0, [50.0, 60.0], age_s=10) == 90
    assert expected_end_s(None, None, [50.0, 60.0], age_s=10) == 50
    assert expected_end_s(None, None, [50.0, 60.0], age_s=70) == 0
    assert expected_end_s(None, None, [], age_s=10) is None
