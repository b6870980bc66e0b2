"""What the command line says, and with which exit code, when something is wrong."""

from pathlib import Path

import pytest

from hora.stack.control import Stack
from tests.commands import hora


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        (("--dataset", "digits", "--gpus", "0", "--set", "colour=red"), ["gpus", "colour"]),
        (
            ("--dataset", "digit", "--gpus", "64", "--set", "learning_rate=-1", "--model", "mpl"),
            ["learning_rate", "model.name", "dataset.source", "gpus"],
        ),
        (("--dataset", "digits", "--gpus", "64", "--batch-size", "1"), ["gpus"]),
        (("/no/such/file",), ["/no/such/file"]),
    ],
    ids=["by us", "by both", "more gpus than there are", "file"],
)
def test_an_invalid_spec_exits_with_2_and_names_every_field(
    stack: Stack, arguments: tuple[str, ...], fields: list[str]
) -> None:
    result = hora(stack.home, "submit", *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert named_in(result.stderr) == fields


def named_in(stderr: str) -> list[str]:
    """The fields that the lines of a refusal name."""
    return [line.strip().partition(":")[0] for line in stderr.splitlines() if line.startswith("  ")]


def test_an_invalid_study_names_what_we_and_what_the_service_find(stack: Stack, tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    study.write_text("{base: {dataset: digit, learning_rate: -1}, grid: {gpuz: [1]}, repeats: 0}")
    result = hora(stack.home, "study", str(study))
    assert result.returncode == 2
    assert named_in(result.stderr) == ["repeats", "grid.gpuz", "base.learning_rate", "base.dataset.source"]


def test_without_a_service_an_invalid_spec_is_told_by_us(short_folder: Path) -> None:
    result = hora(short_folder, "submit", "--dataset", "digit", "--set", "epcohs=3")
    assert result.returncode == 2
    assert result.stderr.splitlines() == [
        "The spec is not valid:", "  epcohs: no such field `epcohs`; did you mean `epochs`? (got 3)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("more", "expected_error"),
    [
        ({}, "No stack runs in"),
        ({"HORA_URL": "http://127.0.0.1:9", "HORA_TOKEN": "x"}, "http://127.0.0.1:9 gives no answer"),
        ({"HORA_URL": "no address", "HORA_TOKEN": "x"}, "no address is not the address of a service."),
        ({"HORA_TOKEN": "wrong"}, "Not authenticated: "),
    ],
)
def test_a_missing_stack_and_a_wrong_token_are_reported_in_one_sentence(
    stack: Stack, short_folder: Path, more: dict[str, str], expected_error: str
) -> None:
    result = hora(short_folder, "ls", **({"HORA_URL": stack.url} if more.get("HORA_TOKEN") == "wrong" else {}), **more)
    assert result.returncode == 1
    assert result.stderr.startswith(expected_error)
    assert len(result.stderr.splitlines()) == 1
