"""A spec is read whole or refused with every wrong field named."""

import json
from typing import Any

import pytest

from jobs.model.origins import unlike
from jobs.model.spec import Spec, parse_spec, spec_from
from jobs.model.stored_spec import stored_spec, with_defaults
from jobs.model.tasks import DEFAULT_METRICS, epoch_metrics
from tests.unit.jobs.model.spec_documents import SCRIPT, fields_of, problems_of, smallest


def test_smallest_spec_gets_defaults_for_all_other_fields() -> None:
    spec = parse_spec(json.dumps(smallest(model="mlp", idle={})))
    assert (spec.own_dataset.source, spec.batch_size, spec.learning_rate, spec.gpus) == ("digits", 64, 0.001, 2)
    assert (spec.name, spec.own_model.name, spec.batch_per, spec.epochs) == ("job", "mlp", "gpu", 30)
    assert spec.early_stopping is not None
    assert spec.early_stopping.monitor == "val_accuracy"
    assert spec.idle is not None
    assert (spec.idle.below, spec.idle.for_s, spec.idle.action) == (5, 1800, "warn")


@pytest.mark.parametrize(
    ("own", "probe", "batches"),
    [
        (64, {}, [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]),
        (2, {"largest": 32}, [2, 4, 8, 16, 32]),
        (100, {"largest": 399}, [12, 25, 50, 100, 200]),
        (100, {"largest": 24}, [12]),
        (100, {"largest": 5}, [5]),
        (2, {"smallest": 3, "largest": 23}, [3, 6, 12]),
        (64, {"smallest": 7, "largest": 7}, [7]),
    ],
)
def test_probe_doubles_its_batch_up_to_the_largest(own: int, probe: dict[str, int], batches: list[int]) -> None:
    spec = parse_spec(json.dumps(smallest(probe=probe)))
    assert spec.probe is not None
    assert spec.probe.batches(own) == batches
    row = stored_spec(spec)
    assert ("smallest" in row["probe"]) == ("smallest" in probe), "the version before refuses null"
    assert spec_from(row) == spec
    assert with_defaults(row)["probe"]["smallest"] == probe.get("smallest")


@pytest.mark.parametrize(
    ("field", "document"),
    [
        ("checkpoint.every", smallest(checkpoint={"every": 1})),  # an unknown field of a part
        ("gpus", smallest(gpus=True)),  # no coercion
        ("model.freeze_base", smallest(model={"name": "mlp", "freeze_base": 1})),
        ("learning_rate", '{"dataset": "digits", "learning_rate": 1e400}'),  # not a finite number
        ("learning_rate", smallest(learning_rate=0)),  # out of range
        ("gpus", smallest(gpus=0)),
        ("model.dropout", smallest(model={"name": "mlp", "dropout": 1})),
        ("early_stopping.monitor", smallest(early_stopping={"monitor": "val_iou"})),  # not one of the choices
        ("labels.PATH=/tmp", smallest(labels={"PATH=/tmp": "x"})),  # keys
        ("labels.a\n", smallest(labels={"a\n": "x"})),
        ("env.A-B", SCRIPT | {"env": {"A-B": "1"}}),
        ("probe.largest", smallest(probe={"smallest": 64, "largest": 32})),
        ("probe.batches", smallest(probe={"batches": [8]})),
        ("idle.for_s", smallest(idle={"for_s": 59})),
        ("min_gpus", smallest(min_gpus=3)),  # rules over two fields
        ("batch_size", smallest(batch_size=63, batch_per="global")),
        ("mixed_gpus", smallest(strategy="mirrored", mixed_gpus=True)),
        ("allreduce", smallest(strategy="mirrored", allreduce={"bucket_mb": 5})),
        ("placement", smallest(strategy="mirrored", placement="spread")),
        ("dataset", {"batch_size": 64}),  # a required part is missing or of the wrong type
        ("dataset.source", smallest(dataset={})),
        ("dataset", smallest(dataset=5)),
        ("", []),  # not an object, or not JSON
        ("", ""),
        ("", '{"dataset": "\\ud800"}'),
        ("", "[" * 100_000),
        ("", '{"dataset": ' * 5000),
        ("", '{"seed": ' + "9" * 5000 + "}"),
    ],
    ids=lambda value: (value if isinstance(value, str) else json.dumps(value))[:50],
)
def test_a_wrong_field_is_refused_by_its_path(field: str, document: Any) -> None:
    assert fields_of(document) == [field]


def test_a_mirrored_job_is_one_rank_on_one_host() -> None:
    spec = spec_from(smallest(strategy="mirrored", gpus=4))
    assert (spec.placement, spec.ranks_on(4)) == ("single_host", 1)
    assert spec_from(smallest(gpus=4)).ranks_on(4) == 4


def augmented(*items: Any, **fields: Any) -> dict[str, Any]:
    return {"dataset": {"source": "a", "augment": list(items)}} | fields


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"task": "regresion"}, "task", "must be 'auto', 'classification', 'regression' or 'multilabel'"),
        ({"dataset": {"source": "a", "augment": [], "augment_mode": "enlarge"}}, "dataset.augment_mode", "list one"),
        ({"dataset": {"source": "a", "fraction": 0.5, "samples": 10}}, "dataset.samples", "fraction is 0.5: give one"),
        *(
            ({"device": "cpu", field: value}, field, f"{field} chooses GPUs, but device is cpu")
            for field, value in {"gpu_model": "h100", "gpu_memory_gb": 40.0, "mixed_gpus": True}.items()
        ),
        ({"task": "regression", "class_weights": "balanced"}, "class_weights", "only for classification, and"),
        ({"task": "regression", "label_smoothing": 0.1}, "label_smoothing", "cannot be smoothed"),
        ({"task": "multilabel", "dataset": {"source": "a", "balance": True}}, "dataset.balance", "only for classific"),
        ({"task": "regression", "goal": {"metric": "val_rsme"}}, "goal.metric", "did you mean val_rmse?"),
        ({"task": "regression", "early_stopping": {"monitor": "val_f1"}}, "early_stopping.monitor", "of regression"),
        ({"task": "regression", "schedule": {"name": "plateau", "monitor": "f"}}, "schedule.monitor", "of regression"),
        (augmented({"name": "mixup"}, task="regression"), "dataset.augment", "mixup mixes classes"),
        (augmented("crop"), "dataset.augment.0", "or an object whose name is one of these or crop"),
        (augmented("flip_horizontl"), "dataset.augment.0", "; did you mean 'flip_horizontal'?"),
        (augmented(3), "dataset.augment.0", "must be flip_horizontal"),
        (augmented("rotate_90", {"name": "crop", "pading": 4}), "dataset.augment.1.pading", "did you mean `padding`?"),
        (augmented({"name": "crop", "padding": "4"}), "dataset.augment.0.padding", "a whole number, without quotes"),
        (augmented({"name": "erase", "scale": [0.5, 0.1]}), "dataset.augment.0", "the smaller number comes first"),
        (augmented({"name": "color"}), "dataset.augment.0", "changes nothing"),
        (augmented({"name": "mixup"}, "rotate_90"), "dataset.augment", "mixup and cutmix come last"),
        ({"dataset": {"source": "a", "augment": "crop"}}, "dataset.augment", "must be a list"),
    ],
)
def test_what_is_wrong_or_does_not_go_together_is_named(fields: dict[str, Any], field: str, words: str) -> None:
    (problem,) = problems_of({"dataset": "a"} | fields)
    assert (problem.field, words in problem.message) == (field, True), problem.message


def test_the_default_metric_is_that_of_the_task() -> None:
    spec = spec_from({"dataset": "a", "task": "regression"})
    assert spec.early_stopping is not None
    assert spec.early_stopping.monitor == "val_loss"
    assert spec_from(stored_spec(spec)) == spec
    unknown = spec_from({"dataset": "a"})
    assert "task" not in stored_spec(unknown)
    for task, metric in DEFAULT_METRICS.items():
        assert unknown.best_by(epoch_metrics(task)) == metric
        assert spec_from({"dataset": "a", "early_stopping": None}).best_by(epoch_metrics(task)) == metric
    assert "val_top5" not in epoch_metrics("classification", 5)
    assert "val_auc" in epoch_metrics("classification", 2)
    spec_from({"dataset": "a", "task": "multilabel", "label_smoothing": 0.1, "goal": {"metric": "val_f1"}})


def test_every_wrong_field_is_named_at_once() -> None:
    document = smallest(gpus=0, learning_rate=-1, model={"name": "a b"}, extra=1, early_stopping={"patience": 0})
    assert set(fields_of(document)) == {"gpus", "learning_rate", "model.name", "extra", "early_stopping.patience"}


# Specs in rows, which the version before reads too.
FIELDS_OF_THE_FIRST_RELEASE = {
    "name", "dataset", "model", "gpus", "min_gpus", "device", "batch_per", "batch_size", "learning_rate", "lr_scaling",
    "base_batch", "warmup_epochs", "optimizer", "epochs", "steps_per_epoch", "early_stopping", "checkpoint",
    "precision", "placement", "priority", "project", "max_restarts", "time_limit_s", "stall_timeout_s", "seed",
    "labels", "probe",
}  # fmt: skip


def test_a_spec_without_later_fields_is_stored_as_the_first_release_did() -> None:
    plain = stored_spec(spec_from({"dataset": {"source": "digits"}}))
    chosen = stored_spec(spec_from({"dataset": {"source": "digits", "samples": 64}, "jit": True}))
    assert plain.keys() == FIELDS_OF_THE_FIRST_RELEASE == chosen.keys() - {"jit"}
    assert chosen["dataset"].keys() - plain["dataset"].keys() == {"samples"}
    assert "balance" not in plain["dataset"]


def test_defaults_of_later_fields_come_back() -> None:
    spec = spec_from({"dataset": {"source": "digits", "balance": True}, "gpu_model": "h100"})
    document = with_defaults(stored_spec(spec))
    assert document == spec.model_dump(mode="json")
    assert document.keys() == Spec.model_fields.keys()
    assert spec_from(document) == spec


@pytest.mark.parametrize(
    ("own", "before", "problem"),
    [
        ({}, {}, None),
        ({"weights": "imagenet"}, {}, ("model.weights", "none", "imagenet")),
        ({}, {"weights": "imagenet"}, ("model.weights", "imagenet", "none")),
        ({"weights": "imagenet", "freeze_base": False}, {}, None),  # the checkpoint replaces them
        ({"weights": "imagenet"}, {"weights": "job:0123456789ab"}, None),
        (
            {"weights": "imagenet", "freeze_base": False},
            {"weights": "imagenet", "freeze_base": True},
            ("model.freeze_base", "true", "false"),
        ),
    ],
)
def test_the_weights_are_named_where_they_decide_whether_the_base_is_frozen(
    own: dict[str, Any], before: dict[str, Any], problem: tuple[str, str, str] | None
) -> None:
    spec, spec_before = (
        spec_from({"dataset": "digits", "batch_size": 32, "gpus": 1, "model": {"name": "mobilenet_v2"} | model})
        for model in (own, before)
    )
    found = [(each.field, each.message.split()[2], each.received) for each in unlike(spec, spec_before, "0123456789ab")]
    assert found == ([] if problem is None else [problem])
