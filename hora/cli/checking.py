"""Checks a spec or a study before anything is sent. Of a wrong one the service names what only it can know.

Called by the commands that submit.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from hora.cli.spec_files import validated, validated_study
from hora.errors import HoraError, Json, ProblemError
from hora.home import StackError
from jobs.model.problems import FieldProblem, InvalidSpec

if TYPE_CHECKING:
    from hora.service import Service


def check_spec(document: Json) -> None:
    """Check that this is a spec. Raises `InvalidSpec` with every wrong field."""
    _check(lambda: validated(document), lambda client: client.dry_run(document))


def check_study(document: Json) -> None:
    """Check that this has the form of a study. Raises `InvalidSpec` with every wrong field."""
    _check(lambda: validated_study(document), lambda client: client.dry_run_study(document))


def _check(check: Callable[[], object], ask: "Callable[[Service], object]") -> None:
    try:
        check()
    except InvalidSpec as error:
        raise InvalidSpec([*error.problems, *_told_by_service(ask, error.problems)]) from None


def _told_by_service(ask: "Callable[[Service], object]", problems: list[FieldProblem]) -> list[FieldProblem]:
    """What the service says about the other fields. It stores nothing, and may be away."""
    from hora.connection import connect

    try:
        with connect() as client:
            ask(client)
    except ProblemError as refused:
        known = {problem.field for problem in problems} | {"code", "base.code"}  # an archive is not sent yet
        told = [FieldProblem(one["field"], one["message"], one["received"]) for one in refused.errors]
        return [problem for problem in told if problem.field not in known]
    except (HoraError, StackError):
        pass
    return []
