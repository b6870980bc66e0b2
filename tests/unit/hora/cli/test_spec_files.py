"""Spec documents made from files and options."""

import io

import pytest

from hora.cli.spec_files import read_document, validated, with_labels, with_options
from jobs.model.problems import InvalidSpec


def test_options_override_the_file_and_set_overrides_both() -> None:
    document = {"dataset": {"source": "chips", "validation": 0.1}, "gpus": 1, "epochs": 5}
    result = with_options(
        document, {"dataset": "digits", "gpus": 2, "epochs": None}, ["gpus=4", "dataset.validation=0.2"]
    )
    assert result == {"dataset": {"source": "digits", "validation": 0.2}, "gpus": 4, "epochs": 5}
    assert document["gpus"] == 1  # the document of the file is not changed


def test_labels_are_added_to_those_of_the_file_and_one_without_a_value_is_refused() -> None:
    document = with_labels({"labels": {"run": "1", "team": "nlp"}}, ["team:vision", "a.b:c:d"])
    assert document == {"labels": {"run": "1", "team": "vision", "a.b": "c:d"}}
    with pytest.raises(InvalidSpec, match="--label: is KEY:VALUE, such as team:vision"):
        with_labels({}, ["a:b", "team=vision"])


def test_setting_a_nested_field_expands_the_short_form() -> None:
    document = {"dataset": "digits", "model": "mlp", "optimizer": "sgd"}
    result = with_options(document, {}, ["dataset.fraction=0.5", "model.dropout=0.1", "optimizer.nesterov=true"])
    assert result == {
        "dataset": {"source": "digits", "fraction": 0.5},
        "model": {"name": "mlp", "dropout": 0.1},
        "optimizer": {"name": "sgd", "nesterov": True},
    }
    study = with_options({"base": {"optimizer": "sgd"}}, {}, ["base.optimizer.momentum=0.8"], whole_below="grid")
    assert study == {"base": {"optimizer": {"name": "sgd", "momentum": 0.8}}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("null", None),
        ("'7'", "7"),
        ("", None),
        ("[flip_horizontal]", ["flip_horizontal"]),
    ],
)
def test_a_value_is_read_as_yaml(text: str, value: object) -> None:
    assert with_options({}, {}, [f"field={text}"]) == {"field": value}


@pytest.mark.parametrize("change", ["epochs", "=3", "a..b=1", ".a=1"])
def test_a_change_without_a_field_or_value_is_refused(change: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        with_options({}, {}, [change])
    assert caught.value.problems[0].received == change
    with pytest.raises(InvalidSpec, match=r"learning_rate: is not a finite number"):
        with_options({}, {}, ["learning_rate=.nan"])


@pytest.mark.parametrize(
    "text", ['{"dataset": "digits", "learning_rate": 1e-3}', "dataset: digits\nlearning_rate: 1e-3\n"]
)
def test_standard_input_may_be_json_or_yaml(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert validated(read_document("-")) == {"dataset": "digits", "learning_rate": 0.001}


@pytest.mark.parametrize("text", ["[1, 2]", "just words", "a: [", "", "x" * (1024 * 1024 + 1)])
def test_invalid_or_oversized_document_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    with pytest.raises(InvalidSpec):
        read_document("-")
    with pytest.raises(InvalidSpec, match=r"/no/such\.yaml: cannot be read: No such file"):
        read_document("/no/such.yaml")


@pytest.mark.parametrize(
    "name", ["[red]x[/red] :a:", "run #5", "a: b", "8", "null", "2024-01-01", "it's <ok>", "{x}", "Zoë 訓練", "- x"]
)
def test_names_labels_and_variables_are_taken_literally_and_not_as_yaml(name: str) -> None:
    changes = [f"{base}{field}={name}" for base in ("", "base.") for field in ("name", "labels.k", "env.K")]
    texts = {"name": name, "labels": {"k": name}, "env": {"K": name}}
    assert with_options({}, {}, changes) == texts | {"base": texts}
    assert with_options({}, {}, ['name="a: b"', "labels.k='x'"]) == {"name": "a: b", "labels": {"k": "x"}}


def test_grid_field_keeps_its_dots_and_base_field_is_nested() -> None:
    study = {"base": {"dataset": "digits"}, "grid": {"gpus": [1]}}
    changes = ["base.dataset.validation=0.2", "grid.dataset.fraction=[0.5, 1.0]", "grid.gpus=[1, 2]", "repeats=3"]
    assert with_options(study, {}, changes, whole_below=("grid", "search.space")) == {
        "base": {"dataset": {"source": "digits", "validation": 0.2}},
        "grid": {"gpus": [1, 2], "dataset.fraction": [0.5, 1.0]},
        "repeats": 3,
    }
    assert with_options(study, {}, ["grid={}"], whole_below=("grid", "search.space"))["grid"] == {}
    with pytest.raises(InvalidSpec):
        with_options(study, {}, ["grid.=1"], whole_below=("grid", "search.space"))
