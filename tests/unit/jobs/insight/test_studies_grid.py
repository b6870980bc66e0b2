"""From a base and a grid to the specs of the cells, and the problems of a wrong grid."""

from typing import Any

import pytest

from jobs.insight.studies.grid import cells_of, job_name, spec_of
from jobs.model.problems import InvalidSpec
from jobs.model.spec import spec_from
from jobs.views.studies import StudySpec

BASE = {"dataset": "digits", "batch_size": 64, "learning_rate": 0.001}


def study(grid: dict[str, list[Any]], base: dict[str, Any] = BASE, **fields: Any) -> StudySpec:
    return StudySpec(base=base, grid=grid, **fields)


def refused(grid: dict[str, list[Any]], base: dict[str, Any] = BASE, **fields: Any) -> dict[str, str]:
    """The message by wrong field. Each problem is reported once, however many cells have it."""
    with pytest.raises(InvalidSpec) as error:
        cells_of(study(grid, base, **fields))
    problems = error.value.problems
    assert len({problem.field for problem in problems}) == len(problems)
    return {problem.field: problem.message for problem in problems}


def test_the_cells_are_the_product_and_the_last_field_varies_fastest() -> None:
    cells = cells_of(study({"gpus": [1, 2], "batch_size": [32, 64, 128]}))

    assert [tuple(cell.values.values()) for cell in cells] == [(1, 32), (1, 64), (1, 128), (2, 32), (2, 64), (2, 128)]
    assert [list(cell.values) for cell in cells] == [["gpus", "batch_size"]] * 6
    assert [(cell.spec.gpus, cell.spec.batch_size) for cell in cells] == [tuple(c.values.values()) for c in cells]
    assert {cell.spec.learning_rate for cell in cells} == {0.001}
    [alone] = cells_of(study({}, name="alone"))
    assert (alone.values, alone.spec) == ({}, spec_from(BASE | {"name": "alone"}))
    [cell] = cells_of(study({"dataset": [{"source": "fashion-mnist", "fraction": 0.1}]}, {}))  # which the base lacks
    assert (cell.spec.dataset.source, cell.spec.dataset.fraction) == ("fashion-mnist", 0.1)


def test_dotted_field_turns_a_plain_string_or_null_into_an_object() -> None:
    base = BASE | {"model": "mlp", "early_stopping": None}
    grid = {"dataset.fraction": [0.5], "model.dropout": [0.2], "early_stopping.patience": [7]}
    nested_study = study(grid, base)
    [cell] = cells_of(nested_study)

    assert (cell.spec.dataset.source, cell.spec.dataset.fraction) == ("digits", 0.5)
    assert (cell.spec.model.name, cell.spec.model.dropout) == ("mlp", 0.2)
    assert cell.spec.early_stopping is not None
    assert cell.spec.early_stopping.patience == 7
    assert nested_study.base == BASE | {"model": "mlp", "early_stopping": None}, "the base was changed"


@pytest.mark.parametrize("fields", [["model", "model.dropout"], ["model.dropout", "model"]])
def test_inner_field_overrides_an_outer_field_in_either_order(fields: list[str]) -> None:
    values: dict[str, list[Any]] = {"model": ["mlp", {"name": "lenet5", "dropout": 0.5}], "model.dropout": [0.1, 0.2]}
    cells = cells_of(study({field: values[field] for field in fields}))

    found = {(cell.spec.model.name, cell.spec.model.dropout) for cell in cells}
    assert found == {("mlp", 0.1), ("mlp", 0.2), ("lenet5", 0.1), ("lenet5", 0.2)}


def test_repeats_differ_in_seed_and_name_alone() -> None:
    [cell] = cells_of(study({"gpus": [2]}, BASE | {"seed": 2**32 - 1}, name="s"))
    first, second, third = (spec_of(cell, repeat) for repeat in range(3))

    assert (first.seed, second.seed, third.seed) == (2**32 - 1, 0, 1)
    assert (first.name, second.name, third.name) == ("s gpus 2", "s gpus 2 r2", "s gpus 2 r3")
    assert second == first.model_copy(update={"seed": 0, "name": "s gpus 2 r2"})


def test_job_name_is_valid_whatever_the_values_are() -> None:
    values = {"dataset.source": "/data/a|b$\u202e", "model": {"name": "mlp", "dropout": 0.5}, "early_stopping": None}
    assert job_name("s", values) == "s source /data/a|b$- model mlp dropout 0.5 early_stopping null"
    assert job_name("Zoë 訓練", {"dataset.image_size": [8, 8]}) == "Zoë 訓練 image_size [8, 8]"
    assert len(job_name("s" * 120, values)) <= 123
    family = "👨\u200d👩\u200d👧" * 25  # 125 characters: the cut is behind a joiner
    for name in (job_name("s", values), job_name("s" * 128, values) + " r100", job_name(family, values) + " r100"):
        spec_from(BASE | {"name": name})


def test_a_wrong_value_is_named_by_its_place() -> None:
    assert refused({"gpus": [1, 0], "batch_size": [8, "16"]}).keys() == {"grid.gpus[1]", "grid.batch_size[1]"}
    assert refused({"model": ["mlp", {"nam": "x"}]}).keys() == {"grid.model[1].name", "grid.model[1].nam"}
    assert refused({"gpus": [1]}, BASE | {"epochs": 0, "colour": 1}).keys() == {"base.epochs", "base.colour"}
    assert refused({"gpus": [1]}, {}).keys() == {"base.dataset"}
    some = refused({"gpus": [1, 2, 4], "batch_size": [6, 8], "seed": [1, 2]}, BASE | {"batch_per": "global"})
    assert some == {
        "grid.batch_size[0]": "a global batch of 6 does not divide by 4 gpus (with gpus 4, seed 1, and 1 more)"
    }


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("colour", "no such field"), ("dataset.colour", "no such field"), ("gpus.x", "no such field"), ("", "no such"),
        ("dataset.source.x", "no such field"), ("early_stopping.", "no such field"), ("name", "cannot be varied"),
        ("labels.team", "cannot be varied"), ("probe.largest", "cannot be varied"),
    ],
)  # fmt: skip
def test_field_that_cannot_be_varied_is_refused(field: str, says: str) -> None:
    assert says in refused({field: [1, 2]})[f"grid.{field}"]


def test_empty_lists_duplicates_and_too_many_jobs_are_refused() -> None:
    assert refused({"gpus": []}) == {"grid.gpus": "has no values"}
    assert "gpus[0]" in refused({"gpus": [1, 2, 1]})["grid.gpus[2]"]
    assert "same job" in refused({"model": ["mlp", {"name": "mlp"}]})["grid"]
    assert refused({"batch_size": list(range(1, 52))}, repeats=2) == {
        "max_jobs": "51 cells with 2 repeats are 102 jobs, more than max_jobs (100)"
    }
    assert "remove one" in refused({"seed": [1, 2]}, repeats=2)["repeats"]
    assert len(cells_of(study({"seed": [1, 2]}))) == 2
    assert "trainings" in refused({}, BASE | {"probe": {}})["base.probe"]
    assert "did you mean 0.95?" in refused({}, target=95)["target"]
    assert cells_of(study({}, BASE | {"goal": {"metric": "val_loss"}}, target=95))
    huge = {field: list(range(1, 10_000)) for field in ("batch_size", "epochs", "seed", "warmup_epochs")}
    assert refused(huge).keys() == {"max_jobs"}, "before it is expanded"


SCRIPT = {"code": "9" * 64, "command": ["python", "train.py", "--lr={params.optimizer.lr}"]}


@pytest.mark.parametrize(
    ("params", "grid", "message"),
    [
        (
            {"optimizer": "sgd"},
            {"params.optimizer.lr": [1]},
            "base.params.optimizer is sgd, no object, so it has no field",
        ),
        ({"a": {"b": [1]}}, {"params.a.b.c": [1]}, "base.params.a.b is [1], no object, so it has no field c"),
        ({}, {"params..lr": [1]}, "a name between two dots is empty; write fields of objects as params.lr"),
        ({}, {"params.o": [{"lr": 1}, "adam"], "params.o.lr": [2]}, "grid.params.o[1] is adam, no object"),
    ],
)
def test_a_field_inside_what_is_no_object_is_refused(
    params: dict[str, Any], grid: dict[str, list[Any]], message: str
) -> None:
    ((field, told),) = refused(grid, SCRIPT | {"params": params}).items()
    assert (field, told.startswith(message)) == (f"grid.{[*grid][-1]}", True)


def test_fields_of_params_and_env_are_varied_at_any_depth() -> None:
    base = SCRIPT | {"params": {"optimizer": {"name": "sgd"}}}
    cells = cells_of(study({"params.optimizer.lr": [0.1, 0.01], "params.new": [None], "env.MODE": ["a"]}, base))

    assert [cell.spec.params for cell in cells] == [
        {"optimizer": {"name": "sgd", "lr": rate}, "new": None} for rate in (0.1, 0.01)
    ]
    assert [cell.spec.env for cell in cells] == [{"MODE": "a"}] * 2
    assert [cell.spec.name for cell in cells] == ["study lr 0.1 new null MODE a", "study lr 0.01 new null MODE a"]
