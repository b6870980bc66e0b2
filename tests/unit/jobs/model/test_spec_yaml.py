"""A spec in YAML, and properties of every valid spec and of every text that is read as a spec."""

import json
from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from jobs.model.problems import InvalidSpec
from jobs.model.spec import Spec, parse_spec, spec_from
from jobs.model.yaml_text import load_yaml


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
def test_text_that_is_not_a_yaml_spec_is_refused(text: str) -> None:
    with pytest.raises(InvalidSpec):
        parse_spec(text, syntax="yaml")


def laughing(line: str, *, lines: int = 30) -> str:
    """A document in which every line repeats the line before it several times, by aliases."""
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
def test_aliases_that_expand_beyond_the_limit_are_refused(text: str) -> None:
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


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from([*Spec.model_fields, "unknown"])

AUGMENTATIONS: list[Any] = [
    "flip_horizontal", "rotate_90", {"name": "rotate_90", "chance": 0.1}, {"name": "crop", "padding": 2},
    {"name": "resized_crop", "scale": [0.5, 1]}, {"name": "color", "hue": 0.5}, {"name": "erase", "ratio": [1, 2.5]},
]  # fmt: skip
RICH: dict[str, Any] = {
    "name": "Zoë 訓練: 'x'", "labels": {"team/a.b-c": '"\\ # é'}, "gpus": 8, "min_gpus": 2, "batch_size": 64,
    "batch_per": "global", "learning_rate": 1e-12, "seed": 2**32 - 1, "early_stopping": {"min_delta": 1e300},
    "optimizer": {"name": "sgd", "momentum": 0.9, "nesterov": True}, "class_weights": {"crack": 2.5, "whole": 1},
    "schedule": {"name": "step", "epochs": [10, 20], "factor": 0.1}, "goal": {"metric": "val_accuracy", "mode": "max"},
    "allreduce": {"compression": "fp16", "bucket_mb": 12.5}, "alerts": [{"when": "val_loss > 3"}, {"log": "CUDA|NaN"}],
    "idle": {"below": 5, "for_s": 1800, "action": "pause"}, "probe": {"smallest": 8, "largest": 4096, "seconds": 3.0},
    "after": ["3k9v0t2m7x1q"], "pool": "slurm:main",
    "dataset": {
        "source": "/data/a b", "validation": 0.1 + 0.2, "fraction": 0.01, "image_size": [1, 4096],
        "augment": AUGMENTATIONS,
    },
}  # fmt: skip
SHORT = {
    "dataset": {"source": "digits", "validation": "held-out", "image_size": None}, "early_stopping": None,
    "optimizer": "adam", "schedule": "cosine", "class_weights": "balanced", "goal": None, "allreduce": {},
}  # fmt: skip


@pytest.mark.parametrize("document", [RICH, RICH | SHORT], ids=["all fields", "short forms"])
def test_a_spec_survives_a_round_trip_through_json_and_yaml(document: dict[str, Any]) -> None:
    spec = parse_spec(json.dumps(document))
    assert parse_spec(spec.model_dump_json()) == spec
    assert spec_from(spec.model_dump(mode="json")) == spec
    assert parse_spec(yaml.safe_dump(document), syntax="yaml") == spec


@given(st.text() | st.binary())
def test_any_text_parses_or_raises_invalid_spec(text: str | bytes) -> None:
    for syntax in ("json", "yaml"):
        with suppress(InvalidSpec):
            parse_spec(text, syntax=syntax)


@given(st.dictionaries(FIELDS, JSON))
def test_any_document_parses_or_raises_invalid_spec(document: dict[str, Any]) -> None:
    with suppress(InvalidSpec):
        parse_spec(json.dumps(document))
