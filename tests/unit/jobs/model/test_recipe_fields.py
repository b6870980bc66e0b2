"""Schedules, optimizers and class weights of a spec: by name or as an object, and what is refused."""

import json
from typing import Any

import pytest

from jobs.model.documents import merged, set_field
from jobs.model.recipe_fields import OPTIMIZERS, SCHEDULES
from jobs.model.spec import Spec, spec_from
from jobs.model.stored_spec import stored_spec
from tests.unit.jobs.model.spec_documents import problems_of, smallest

NEEDED: dict[str, dict[str, Any]] = {"exponential": {"factor": 0.9}, "step": {"epochs": [80, 120]}}
NESTEROV = {"name": "sgd", "momentum": 0.9, "nesterov": True}


def spec_with(**fields: Any) -> Spec:
    return spec_from(smallest(**fields))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_with_its_defaults_is_a_plain_name_in_documents(name: str) -> None:
    for written in (name, {"name": name}, {"name": name, "momentum": None, "beta_1": None}):
        assert stored_spec(spec_with(optimizer=written))["optimizer"] == name
    assert spec_with(optimizer={"name": "sgd", "momentum": 0.9, "nesterov": False}) == spec_with(optimizer="sgd")


def test_an_optimizer_with_a_field_of_its_own_is_an_object_with_all_fields_of_its_name() -> None:
    assert stored_spec(spec_with(optimizer={"name": "sgd", "nesterov": True}))["optimizer"] == NESTEROV
    adam = {"name": "adam", "beta_1": 0.9, "beta_2": 0.98, "epsilon": 1e-7}
    assert stored_spec(spec_with(optimizer={"name": "adam", "beta_2": 0.98}))["optimizer"] == adam


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_survives_a_round_trip(name: str) -> None:
    spec = spec_with(schedule={"name": name, **NEEDED.get(name, {})})
    assert spec_from(json.loads(spec.model_dump_json())) == spec
    assert ("schedule" in stored_spec(spec)) == (name != "constant")  # which older versions do not know
    assert spec_with(schedule=None).schedule.name == "constant"


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"optimizer": "rmsprop"}, "optimizer", "must be 'adam', 'adamw', 'lamb', 'nadam' or 'sgd'"),
        ({"optimizer": {"momentum": 0.5}}, "optimizer.name", "is required"),
        ({"optimizer": {"name": "adam", "momentum": 0.5}}, "optimizer.momentum", "adam has no momentum; it has beta_1"),
        ({"optimizer": {"name": "sgd", "momentun": 0.5}}, "optimizer.momentun", "did you mean `momentum`?"),
        ({"optimizer": {**NESTEROV, "momentum": 0}}, "optimizer.nesterov", "needs a momentum above 0"),
        ({"schedule": "step"}, "schedule.epochs", "step needs epochs, such as [80, 120]"),
        ({"schedule": "exponential"}, "schedule.factor", "exponential needs factor, such as 0.95"),
        ({"schedule": {"name": "cosine", "factor": 0.5}}, "schedule.factor", "cosine has no factor; it has final"),
        ({"schedule": {"name": "step", "epochs": [3, 3]}}, "schedule.epochs", "must rise"),
        ({"schedule": {"name": "step", "epochs": list(range(1, 1002))}}, "schedule.epochs", "at most 1000"),
        ({"schedule": {"name": "plateau", "monitor": "val_los"}}, "schedule.monitor", "did you mean val_loss?"),
        ({"accumulate": 3, "batch_per": "global"}, "accumulate", "batch of 64 does not divide by 2 gpus x 3 batches"),
        ({"class_weights": "balance"}, "class_weights", "must be 'balanced'; did you mean 'balanced'?"),
        ({"class_weights": {}}, "class_weights", "must have at least 1 field, not 0"),
        ({"class_weights": {"cat": 0}}, "class_weights.cat", "greater than 0"),
        ({"class_weights": {"a\nb": 2}}, "class_weights.a\nb", "must be one line of text"),
    ],
)  # fmt: skip
def test_a_wrong_part_of_a_recipe_is_named_by_its_field(fields: dict[str, Any], field: str, message: str) -> None:
    (problem,) = problems_of(smallest(**fields))
    assert problem.field == field
    assert message in problem.message


def test_a_script_has_no_recipe() -> None:
    script = {"code": "9" * 64, "command": ["python", "train.py"]}
    fields = {
        "schedule": "cosine", "optimizer": "adamw", "weight_decay": 0, "clip_norm": 1, "label_smoothing": 0.1,
        "accumulate": 2, "class_weights": "balanced",
    }  # fmt: skip
    found = problems_of(script | fields)
    assert sorted(problem.field for problem in found) == sorted(fields)
    assert all("a script trains in its own loop" in problem.message for problem in found)
    assert spec_from(script).schedule.name == "constant"


def test_a_field_of_a_plain_name_is_set_and_merged() -> None:
    document = {"optimizer": "sgd"}
    assert merged(document, {"optimizer": {"nesterov": True}}) == {"optimizer": {"name": "sgd", "nesterov": True}}
    set_field(document, ["optimizer", "momentum"], 0.8)
    assert document == {"optimizer": {"name": "sgd", "momentum": 0.8}}


def test_the_names_of_parameters_stand_for_no_object() -> None:
    document: dict[str, Any] = {"params": {"optimizer": "sgd"}}
    set_field(document, ["params", "optimizer", "lr"], 1)
    assert document == {"params": {"optimizer": {"lr": 1}}}
    assert merged({"params": {"model": "a"}}, {"params": {"model": {"b": 1}}}) == {"params": {"model": {"b": 1}}}
