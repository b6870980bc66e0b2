"""What went wrong, in a sentence, and the exit code that says it to a script. Called by the CLI."""

from collections.abc import Iterator

from hora.errors import HoraError, NotAuthorized, NotFound, ProblemError, ServiceUnavailable, WaitTimeout
from hora.home import StackError

SUCCEEDED, ERROR, USAGE, FAILED, NOT_FINISHED, NOT_FOUND, CANCELLED = 0, 1, 2, 100, 101, 102, 103
OUTCOME = {"succeeded": SUCCEEDED, "failed": FAILED, "cancelled": CANCELLED}  # of a job, or a study
_WRONG_REQUEST = frozenset({400, 413, 415, 422})


def explain(error: Exception) -> tuple[int, list[str]]:  # noqa: PLR0911 - a table, by type
    """The exit code and the lines to print. Raises `error` again where nobody expected it."""
    from jobs.spec import InvalidSpec

    match error:
        case InvalidSpec():
            fields = ((problem.field, problem.message) for problem in error.problems)
            return USAGE, ["The spec is not valid:", *_by_field(fields)]
        case NotFound():
            return NOT_FOUND, [_sentence(error.detail or error.title)]
        case NotAuthorized():
            return ERROR, [_sentence(str(error)) + " Check HORA_TOKEN, or the file token in HORA_HOME."]
        case ProblemError() if error.errors:
            fields = ((str(one.get("field", "")), str(one.get("message", ""))) for one in error.errors)
            return USAGE, [f"{error.title}:", *_by_field(fields)]
        case ProblemError():
            return USAGE if error.status in _WRONG_REQUEST else ERROR, [_sentence(str(error))]
        case ServiceUnavailable():
            return ERROR, [_sentence(str(error)) + " `hora up -d` starts a stack, `hora doctor` looks into it."]
        case WaitTimeout():
            show = "studies show" if error.noun == "study" else "show"
            come_back = f" Come back with `hora {show} {error.seen['id']} --wait`."
            return NOT_FINISHED, [_sentence(str(error)) + come_back]
        case HoraError() | StackError():
            return ERROR, [str(error)]
        case _:
            raise error


def _by_field(fields: Iterator[tuple[str, str]]) -> list[str]:
    return [f"  {field or '(the whole)'}: {message}" for field, message in fields]


def _sentence(text: str) -> str:
    text = text.strip()
    begins = text[:1].upper() if text.partition(" ")[0].isalpha() else text[:1]
    return begins + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
