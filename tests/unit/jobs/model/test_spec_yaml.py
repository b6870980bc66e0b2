"""A spec in YAML: aliases, merges and numbers are read, and text that is not a spec is refused."""

import pytest

from jobs.model.problems import InvalidSpec
from jobs.model.spec import parse_spec
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
