"""A spec is read whole or refused with every wrong field named."""

import json
import math
import re
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel

from jobs.model.problems import FieldProblem, InvalidSpec
from jobs.model.spec import MAX_SECONDS, Spec, load_yaml, parse_spec, set_field, spec_from

SMALLEST = {"dataset": "digits", "batch_size": 64, "learning_rate": 0.001, "gpus": 2}

# The whole spec of the design page, in full.
WHOLE = """
name: chips-8gpu
dataset:
  source: chips
  format: auto
  label: label
  image_size: [96, 96]
  validation: 0.1
  fraction: 1.0
  sharding: shard
  shuffle_buffer: 4096
  cache: none
  cache_limit_gb: 20
  augment: [flip_horizontal]
model:
  name: convnet7
  weights: none
  freeze_base: true
  dropout: 0.0
batch_size: 32
batch_per: gpu
learning_rate: 0.004
lr_scaling: none
base_batch: 32
warmup_epochs: 0
optimizer: adam
gpus: 8
min_gpus: 8
device: auto
epochs: 30
steps_per_epoch: null
early_stopping: {monitor: val_accuracy, patience: 3, min_delta: 0.001, restore_best_weights: true}
checkpoint: {every_epochs: 1, keep: 2}
precision: float32
placement: pack
priority: 50
project: default
max_restarts: 3
time_limit_s: null
stall_timeout_s: 600
seed: 42
labels: {}
probe: {smallest: 8, largest: 4096, seconds: 3.0}
"""


def problems_of(document: Any) -> list[FieldProblem]:
    text = document if isinstance(document, str) else json.dumps(document)
    with pytest.raises(InvalidSpec) as refused:
        parse_spec(text)
    return refused.value.problems


def fields_of(document: Any) -> list[str]:
    return [problem.field for problem in problems_of(document)]


def smallest(**changes: Any) -> dict[str, Any]:
    return SMALLEST | changes


def test_the_smallest_spec_is_complete() -> None:
    spec = parse_spec(json.dumps(SMALLEST))
    assert (spec.dataset.source, spec.batch_size, spec.learning_rate, spec.gpus) == ("digits", 64, 0.001, 2)
    assert (spec.name, spec.model.name, spec.batch_per, spec.epochs, spec.max_restarts) == (
        "job",
        "lenet5",
        "gpu",
        30,
        3,
    )
    assert spec.early_stopping is not None
    assert spec.early_stopping.monitor == "val_accuracy"


def test_the_whole_spec_reads_the_same_as_yaml_and_as_json() -> None:
    from_yaml = parse_spec(WHOLE, syntax="yaml")
    assert from_yaml == parse_spec(json.dumps(yaml.safe_load(WHOLE)))
    assert from_yaml.dataset.image_size == (96, 96)
    assert from_yaml.dataset.augment == ["flip_horizontal"]


def test_the_whole_spec_has_every_field_there_is() -> None:
    written = yaml.safe_load(WHOLE)
    complete = parse_spec(WHOLE, syntax="yaml").model_dump(mode="json")
    assert written.keys() == complete.keys()
    for part in ("dataset", "model", "early_stopping", "checkpoint", "probe"):
        assert written[part].keys() == complete[part].keys()


def test_a_stored_spec_is_read_back_the_same() -> None:
    spec = parse_spec(WHOLE, syntax="yaml")
    assert spec_from(spec.model_dump(mode="json")) == spec
    assert parse_spec(spec.model_dump_json()) == spec


def test_a_plain_string_names_the_dataset_and_the_model() -> None:
    spec = parse_spec(json.dumps(smallest(model="mlp")))
    assert (spec.model.name, spec.dataset.source) == ("mlp", "digits")


@pytest.mark.parametrize(
    ("probe", "batches"),
    [
        ({}, [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]),
        ({"smallest": 3, "largest": 23}, [3, 6, 12]),
        ({"smallest": 3, "largest": 24}, [3, 6, 12, 24]),
        ({"smallest": 7, "largest": 7}, [7]),
    ],
)
def test_a_probe_doubles_its_batches(probe: dict[str, int], batches: list[int]) -> None:
    spec = parse_spec(json.dumps(smallest(probe=probe)))
    assert spec.probe is not None
    assert spec.probe.batches == batches


@pytest.mark.parametrize(
    ("field", "document", "message"),
    [
        ("epcohs", {"epcohs": 3}, "no such field `epcohs`; did you mean `epochs`?"),
        (
            "early_stopping.patiance",
            {"early_stopping": {"patiance": 1}},
            "no such field `patiance`; did you mean `patience`?",
        ),
        (
            "dataset.sorce",
            {"dataset": {"source": "digits", "sorce": "a"}},
            "no such field `sorce`; did you mean `source`?",
        ),
        ("colour", {"colour": "red"}, "no such field `colour`"),
    ],
)
def test_an_unknown_field_is_named_with_the_one_that_was_meant(
    field: str, document: dict[str, Any], message: str
) -> None:
    (problem,) = problems_of(smallest(**document))
    assert (problem.field, problem.message) == (field, message)


def test_null_turns_early_stopping_off() -> None:
    assert parse_spec(json.dumps(smallest(early_stopping=None))).early_stopping is None


@pytest.mark.parametrize(
    ("field", "document"),
    [
        ("epoch", smallest(epoch=3)),  # unknown fields, at every depth
        ("dataset.sauce", smallest(dataset={"source": "digits", "sauce": 1})),
        ("model.nam", smallest(model={"name": "mlp", "nam": 1})),
        ("early_stopping.patient", smallest(early_stopping={"patient": 3})),
        ("checkpoint.every", smallest(checkpoint={"every": 1})),
        ("gpus", smallest(gpus=True)),  # no coercion
        ("batch_size", smallest(batch_size="64")),
        ("batch_size", smallest(batch_size=64.0)),
        ("learning_rate", smallest(learning_rate="0.1")),
        ("learning_rate", smallest(learning_rate=True)),
        ("model.freeze_base", smallest(model={"name": "mlp", "freeze_base": 1})),
        ("name", smallest(name=3)),
        ("learning_rate", smallest(learning_rate=float("nan"))),  # no figure that is not one
        ("learning_rate", smallest(learning_rate=float("inf"))),
        ("stall_timeout_s", smallest(stall_timeout_s=float("-inf"))),
        ("learning_rate", '{"dataset": "digits", "learning_rate": 1e400}'),
        ("time_limit_s", '{"dataset": "digits", "time_limit_s": 1e400}'),
        ("learning_rate", smallest(learning_rate=0)),  # out of range
        ("learning_rate", smallest(learning_rate=1000.5)),
        ("gpus", smallest(gpus=0)),
        ("gpus", smallest(gpus=4097)),
        ("batch_size", smallest(batch_size=-1)),
        ("epochs", smallest(epochs=0)),
        ("priority", smallest(priority=101)),
        ("max_restarts", smallest(max_restarts=-1)),
        ("seed", smallest(seed=2**32)),
        ("seed", smallest(seed=10**100)),
        ("dataset.fraction", smallest(dataset={"source": "d", "fraction": 1.5})),
        ("dataset.image_size.0", smallest(dataset={"source": "d", "image_size": [0, 96]})),
        ("model.dropout", smallest(model={"name": "mlp", "dropout": 1})),
        ("early_stopping.min_delta", smallest(early_stopping={"min_delta": -0.1})),
        ("dataset.augment.0", smallest(dataset={"source": "d", "augment": ["shear"]})),  # not one of the choices
        ("early_stopping.monitor", smallest(early_stopping={"monitor": "val_f1"})),
        ("optimizer", smallest(optimizer="rmsprop")),
        ("name", smallest(name="two\nlines")),  # characters that no name, path or database holds
        ("name", smallest(name="ends\n")),
        ("name", smallest(name="")),
        ("name", smallest(name="   ")),
        ("name", smallest(name="a\u202eb")),
        ("project", smallest(project="-x")),
        ("dataset.source", smallest(dataset="digits\u0000")),
        ("dataset.label", smallest(dataset={"source": "d", "label": "a\u0000b"})),
        ("model.name", smallest(model="os;system")),
        ("model.weights", smallest(model={"name": "mlp", "weights": "a\nb"})),
        ("labels.PATH=/tmp.[key]", smallest(labels={"PATH=/tmp": "x"})),
        ("labels.a\n.[key]", smallest(labels={"a\n": "x"})),
        ("labels.team", smallest(labels={"team": "a\u0007b"})),
        ("labels.team", smallest(labels={"team": "a\u009bb"})),
        ("labels.team", smallest(labels={"team": 1})),
        ("probe.largest", smallest(probe={"smallest": 64, "largest": 32})),
        ("probe.batches", smallest(probe={"batches": [8]})),
        ("min_gpus", smallest(min_gpus=3)),  # rules over two fields
        ("batch_size", smallest(batch_size=63, batch_per="global")),
        ("dataset", {"batch_size": 64}),  # what has to be there
        ("dataset.source", smallest(dataset={})),
        ("dataset", smallest(dataset=5)),
        ("dataset", smallest(dataset=None)),
        ("checkpoint", smallest(checkpoint=[])),
        ("", []),  # not an object, or not JSON
        ("", "null"),
        ("", '"digits"'),
        ("", ""),
        ("", "{"),
        ("", '{"dataset": "\\ud800"}'),
        ("", "[" * 100_000),
        ("", '{"dataset": ' * 5000),
        ("", '{"seed": ' + "9" * 5000 + "}"),
    ],
    ids=lambda value: (value if isinstance(value, str) else json.dumps(value))[:50],
)
def test_a_wrong_field_is_refused_by_its_path(field: str, document: Any) -> None:
    assert fields_of(document) == [field]


@pytest.mark.parametrize("name", ["Zoë 訓練", "it's <ok>", "👩\u200d🔬", "../../etc", "x; touch y"])
def test_a_name_and_a_label_hold_any_printable_text(name: str) -> None:
    spec = parse_spec(json.dumps(smallest(name=name, labels={"k": name})))
    assert (spec.name, spec.labels) == (name, {"k": name})


def kinds_of(annotation: Any) -> Iterator[Any]:
    """The types that a field's values may be of."""
    if get_origin(annotation) is Annotated:
        yield from kinds_of(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, UnionType):
        for kind in get_args(annotation):
            yield from kinds_of(kind)
    else:
        yield annotation


def numbers_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The path of each field of a model that takes a number, with those of its parts."""
    for name, field in model.model_fields.items():
        kinds = set(kinds_of(field.annotation))
        if kinds & {int, float}:
            yield f"{prefix}{name}"
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from numbers_of(kind, f"{prefix}{name}.")


NUMBERS = sorted(set(numbers_of(Spec)) - {"early_stopping.min_delta"})  # which is compared with, and nothing else


def test_the_numbers_are_found() -> None:
    assert {"time_limit_s", "seed", "min_gpus", "dataset.validation", "probe.seconds"} <= set(NUMBERS)
    assert len(NUMBERS) > 20


@pytest.mark.parametrize(
    "number", [1e300, math.inf, -math.inf, math.nan, 2**63, 10**400], ids=lambda number: f"{number}"[:20]
)
@pytest.mark.parametrize("field", NUMBERS)
def test_a_number_beyond_what_it_is_kept_in_is_refused_at_its_field(field: str, number: float) -> None:
    document = smallest(dataset={"source": "d"}, model={"name": "mlp"}, early_stopping={}, checkpoint={}, probe={})
    set_field(document, field.split("."), number)
    found = [problem for problem in problems_of(document) if problem.field == field]
    assert found
    for problem in found:
        assert problem.received is not None
        assert re.search("(less|greater) than|finite number|valid (integer|number|string)", problem.message)


def test_a_limit_of_time_is_a_year_at_most() -> None:
    longest = {"time_limit_s": MAX_SECONDS, "stall_timeout_s": MAX_SECONDS}
    spec = parse_spec(json.dumps(smallest(**longest)))
    assert (spec.time_limit_s, spec.stall_timeout_s) == (31_536_000, 31_536_000)
    told = problems_of(smallest(**dict.fromkeys(longest, 1e300)))
    assert [(problem.field, problem.message, problem.received) for problem in told] == [
        (field, "Input should be less than or equal to 31536000", "1e+300") for field in longest
    ]


def test_two_branches_of_a_field_name_the_field_itself() -> None:
    assert set(fields_of(smallest(dataset={"source": "d", "validation": 2}))) == {"dataset.validation"}


def test_every_wrong_field_is_named_at_once() -> None:
    document = smallest(
        gpus=0, batch_size="64", learning_rate=-1, model={"name": "a b"}, extra=1, early_stopping={"patience": 0}
    )
    assert set(fields_of(document)) == {
        "gpus", "batch_size", "learning_rate", "model.name", "extra", "early_stopping.patience",
    }  # fmt: skip


def test_a_problem_says_what_came_and_shortens_it() -> None:
    (problem,) = problems_of(smallest(name="x y" * 1000))
    assert problem.received is not None
    assert problem.received.startswith("x yx y")
    assert len(problem.received) == 80
    (missing,) = problems_of({"gpus": 1})
    assert missing.received is None


@pytest.mark.parametrize(
    "text",
    [
        "dataset: [unclosed", "&a [*a]", "dataset: !!timestamp 2030-01-01", "? [a]\n: b", b"\xff\xfe\x00",
        "a: !!python/name:os.system",
        'a: !!int ""', "a: !!bool x", "a: !!timestamp x", "a: !!binary x", "a: " + "1:" * 300 + "1.0", "[" * 400,
        "a: !!set {b}", "0x" + "f" * 9000, '"\\ud800"', "", "- digits",
    ],
    ids=lambda text: str(text)[:30],
)  # fmt: skip
def test_what_is_not_yaml_or_no_spec_in_yaml_is_refused(text: str) -> None:
    with pytest.raises(InvalidSpec):
        parse_spec(text, syntax="yaml")


def laughing(line: str, *, lines: int = 30) -> str:
    """A document of which every line stands for the line before it, several times."""
    return "a0: &a0 {x: lol}\n" + "".join(line.format(n=n, m=n - 1) for n in range(1, lines))


@pytest.mark.parametrize(
    "text",
    [
        laughing("a{n}: &a{n} [*a{m}, *a{m}, *a{m}]\n"),
        laughing("a{n}: &a{n} {{<<: [*a{m}, *a{m}]}}\n"),
        f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 1000)}]\n",
        "&a {b: {<<: *a}}",
    ],
    ids=["lists", "merges", "one long text", "within itself"],
)
def test_aliases_that_stand_for_more_than_a_spec_may_have_are_refused_at_once(text: str) -> None:
    with pytest.raises(InvalidSpec, match="all aliases are written out"):
        parse_spec(text, syntax="yaml")


def test_aliases_and_merges_may_be_used() -> None:
    spec = parse_spec("labels: &shared {team: vision}\ndataset: &d {source: digits}\n", syntax="yaml")
    assert spec.labels == {"team": "vision"}
    document = load_yaml("base: &b {gpus: 2, epochs: 3}\njob: {<<: *b, epochs: 5}\nsame: *b\n")
    assert document == {"base": {"gpus": 2, "epochs": 3}, "job": {"gpus": 2, "epochs": 5}, "same": document["base"]}


@pytest.mark.parametrize("rate", ["1e-3", "1E-3", "1.0e-3", ".1e-2", "0.001"])
def test_a_rate_in_scientific_notation_is_a_number_in_yaml_too(rate: str) -> None:
    assert parse_spec(f"dataset: digits\nlearning_rate: {rate}", syntax="yaml").learning_rate == 0.001


def test_a_spec_cannot_be_changed() -> None:
    spec = Spec.model_validate({"dataset": "digits"})
    with pytest.raises(ValueError, match="frozen"):
        spec.gpus = 9
