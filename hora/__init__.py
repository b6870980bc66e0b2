"""Hora: training jobs, run with Horovod. `hora.Client` asks a service; the command line is `hora.cli.app`.

    from hora import Client

    with Client() as client:
        job = client.jobs.submit(dataset="digits", gpus=2).wait(check=True)

Each name is imported when it is first used, so the command line starts without all of them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hora.client import Client, Job, Study
    from hora.errors import (
        Conflict,
        HoraError,
        JobFailed,
        NotAuthorized,
        NotFound,
        ProblemError,
        QuotaExceeded,
        RateLimited,
        ScriptFailed,
        ServiceUnavailable,
        UnexpectedAnswer,
        WaitTimeout,
    )
    from jobs.model.spec import Spec

__all__ = [
    "Client", "Conflict", "HoraError", "Job", "JobFailed", "NotAuthorized", "NotFound", "ProblemError", "QuotaExceeded",
    "RateLimited", "ScriptFailed", "ServiceUnavailable", "Spec", "Study", "UnexpectedAnswer", "WaitTimeout",
]  # fmt: skip

_OF_CLIENT = frozenset({"Client", "Job", "Study"})


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _OF_CLIENT:
        from hora import client as home
    elif name == "Spec":
        from jobs.model import spec as home  # type: ignore[no-redef]
    else:
        from hora import errors as home  # type: ignore[no-redef]
    return getattr(home, name)
