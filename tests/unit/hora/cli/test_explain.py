"""The exit code and the message of each error."""

import pytest

from hora.cli.explain import explain
from hora.home import StackError
from hora.service import NotAuthorized, ProblemError, WaitTimeout
from jobs.model.problems import FieldProblem, InvalidSpec


@pytest.mark.parametrize(
    ("error", "code", "first"),
    [
        (InvalidSpec([FieldProblem("gpus", "too few")]), 2, "The spec is not valid:"),
        (NotAuthorized(401, "Not authenticated", "unknown token"), 1, "Not authenticated: unknown token. Check"),
        (ProblemError(409, "Job has ended", "it has already failed"), 1, "Job has ended: it has already failed."),
        (ProblemError(413, "Body too large"), 2, "Body too large."),
        (WaitTimeout({"id": "x", "status": "running"}), 101, "Job x is still running. Come back with `hora show x"),
        (WaitTimeout({"id": "x"}, "study"), 101, "Study x is still running. Come back with `hora studies show x"),
        (StackError("Port 1 is taken."), 1, "Port 1 is taken."),
    ],
)
def test_every_error_has_an_exit_code_and_a_message(error: Exception, code: int, first: str) -> None:
    found, lines = explain(error)
    assert found == code
    assert lines[0].startswith(first)
    _, lines = explain(InvalidSpec([FieldProblem("gpus", "too few"), FieldProblem("", "not an object")]))
    assert lines[1:] == ["  gpus: too few", "  (the whole): not an object"]
    with pytest.raises(KeyError):  # nobody expects it
        explain(KeyError("x"))
