"""Turns an error into sentences for a person and an exit code for a script. Called by `hora.cli.app`."""

from collections.abc import Iterator

from hora.cli.exit_codes import ERROR, NOT_FINISHED, NOT_FOUND, USAGE
from hora.errors import HoraError, NotAuthorized, NotFound, ProblemError, ServiceUnavailable, WaitTimeout
from hora.extras import NotInstalled
from hora.home import StackError
from hora.render.text import plain

_COME_BACK = {"job": "show {} --wait", "study": "studies show {} --wait", "dataset": "dataset show {}"}
_WRONG_REQUEST = frozenset({400, 413, 415, 422})


def explain(error: Exception) -> tuple[int, list[str]]:  # noqa: PLR0911 - a table, by type
    """The exit code and the lines to print. Raises an unexpected error again."""
    from hora.service.code_folders import UnsendableCode
    from hora.service.sending_runs import BadRun
    from hora.service.transport import NoName
    from jobs.model.problems import InvalidSpec

    match error:
        case InvalidSpec():
            fields = ((problem.field, problem.message, problem.received) for problem in error.problems)
            return USAGE, ["The spec is not valid:", *_by_field(fields)]
        case NotFound():
            return NOT_FOUND, [_sentence(error.detail or error.title)]
        case NotAuthorized():
            check = " Check HORA_TOKEN; `hora config show` says which token is used." if error.status == 401 else ""
            return ERROR, [_sentence(str(error)) + check]
        case ProblemError() if error.errors:
            named = ((wrong.get("field"), wrong.get("message"), wrong.get("received")) for wrong in error.errors)
            return USAGE, [f"{plain(error.title)}:", *_by_field(named)]
        case ProblemError():
            return USAGE if error.status in _WRONG_REQUEST else ERROR, [_sentence(str(error))]
        case ServiceUnavailable():
            return ERROR, [
                _sentence(str(error)) + " `hora up -d` starts a stack here, `hora doctor` looks for the cause."
            ]
        case WaitTimeout():
            come_back = f" Come back with `hora {_COME_BACK[error.noun].format(error.seen['id'])}`."
            return NOT_FINISHED, [_sentence(str(error)) + come_back]
        case HoraError() | StackError():
            code = USAGE if isinstance(error, UnsendableCode | BadRun | NoName | NotInstalled) else ERROR
            return code, [plain(line) for line in str(error).split("\n")]
        case _:
            raise error


def _by_field(fields: Iterator[tuple[object, object, object]]) -> list[str]:
    """A line for each field: what is allowed, and the value received if the message does not contain it."""
    return [
        f"  {plain(field or '(the whole)')}: {plain(message or 'is not valid')}"
        + (f" (got {plain(received)})" if received is not None and str(received) not in str(message) else "")
        for field, message, received in fields
    ]


def _sentence(text: str) -> str:
    text = plain(text.strip())
    begins = text[:1].upper() if text.partition(" ")[0].isalpha() else text[:1]
    return begins + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
