"""What each error of the domain and of the database means in HTTP."""

import pytest
from psycopg import errors as postgres
from sqlalchemy.exc import DataError, InternalError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException

from api.problem_answers import problem_of
from api.problems import BodyTooLarge, Unauthorized, UnsupportedBody
from jobs.db.cursors import InvalidCursor
from jobs.lifecycle.store import JobEnded, JobNotFound
from jobs.lifecycle.submission import IdempotencyConflict
from jobs.model.problems import FieldProblem, InvalidSpec
from jobs.model.states import Status


def of_database(kind: type, cause: Exception) -> Exception:
    error: Exception = kind("SELECT", {}, cause)
    return error


@pytest.mark.parametrize(
    ("error", "status", "slug"),
    [
        (JobNotFound("3k9v"), 404, "job-not-found"),
        (JobEnded("3k9v", Status.FAILED), 409, "job-ended"),
        (IdempotencyConflict("key"), 409, "idempotency-conflict"),
        (InvalidSpec([FieldProblem("gpus", "too many")]), 422, "invalid-request"),
        (InvalidCursor(), 422, "invalid-request"),
        (Unauthorized("no"), 401, "unauthorized"),
        (UnsupportedBody(None, "application/json"), 415, "unsupported-media-type"),
        (BodyTooLarge(), 413, "body-too-large"),
        (HTTPException(405), 405, "method-not-allowed"),
        (of_database(OperationalError, postgres.ConnectionFailure()), 503, "unavailable"),
        (of_database(ProgrammingError, postgres.UndefinedTable()), 503, "unavailable"),
        (of_database(ProgrammingError, postgres.SyntaxError()), 500, "internal-error"),
        (of_database(InternalError, postgres.InternalError()), 500, "internal-error"),
        (of_database(DataError, postgres.UntranslatableCharacter()), 422, "invalid-request"),
        (PoolTimeout(), 503, "unavailable"),
        (RecursionError(), 500, "internal-error"),
    ],
)
def test_each_error_maps_to_its_status_and_slug(error: Exception, status: int, slug: str) -> None:
    problem = problem_of(error)

    assert (problem.status, problem.slug) == (status, slug)
    assert problem.title


def test_wrong_fields_are_listed_in_errors_and_detail() -> None:
    problems = [FieldProblem("gpus", "too many", "9"), FieldProblem("", "not JSON")]
    problem = problem_of(InvalidSpec(problems))

    assert problem.errors == problems
    assert problem.detail == "gpus: too many; body: not JSON"


def test_length_of_a_problem_is_limited() -> None:
    problem = problem_of(InvalidSpec([FieldProblem("f" * 10_000, "m" * 10_000)] * 1000))

    assert {(len(error.field), len(error.message)) for error in problem.errors} == {(200, 2000)}
    assert len(problem.errors) == 50
    assert len(problem.detail) < 50 * 2300
