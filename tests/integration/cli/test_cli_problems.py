"""What the command line says, and with which exit code, when something is wrong."""

from pathlib import Path

import pytest

from hora.stack.control import Stack
from tests.commands import hora


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        (("--dataset", "digits", "--gpus", "0", "--set", "colour=red"), ["gpus", "colour"]),
        (("--dataset", "digits", "--model", "no_such_net"), ["model.name"]),
        (("--dataset", "digits", "--gpus", "64", "--batch-size", "1"), ["gpus"]),
        (("-", "--gpus", "two"), []),
        (("/no/such/file",), ["/no/such/file"]),
        ((), []),
    ],
    ids=["by us", "by the service", "more gpus than there are", "usage", "file", "nothing"],
)
def test_what_is_not_valid_is_2_and_names_every_field(
    stack: Stack, arguments: tuple[str, ...], fields: list[str]
) -> None:
    done = hora(stack.home, "submit", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert [line.strip().partition(":")[0] for line in done.stderr.splitlines() if line.startswith("  ")] == fields
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["show", "logs", "metrics", "cancel", "pause", "clone"])
def test_an_unknown_job_is_102(stack: Stack, command: str) -> None:
    done = hora(stack.home, command, "nosuchjob000")
    assert done.returncode == 102
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, "No stack runs in"),
        ({"HORA_URL": "http://127.0.0.1:9", "HORA_TOKEN": "x"}, "http://127.0.0.1:9 gives no answer"),
        ({"HORA_URL": "no address", "HORA_TOKEN": "x"}, "No address gives no answer"),
    ],
)
def test_no_stack_is_one_sentence(short_folder: Path, more: dict[str, str], told: str) -> None:
    done = hora(short_folder, "ls", **more)
    assert done.returncode == 1
    assert done.stderr.startswith(told)
    assert len(done.stderr.splitlines()) == 1


def test_a_wrong_token_is_one_sentence(stack: Stack, short_folder: Path) -> None:
    done = hora(short_folder, "ls", HORA_URL=stack.url, HORA_TOKEN="wrong")
    assert done.returncode == 1
    assert "Check HORA_TOKEN" in done.stderr
    assert len(done.stderr.splitlines()) == 1
