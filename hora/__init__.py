"""Hora: training jobs, run with Horovod. `hora.Client` asks a service; the command line is `hora.cli.app`.

    from hora import Client

    with Client() as client:
        job = client.jobs.submit(dataset="digits", gpus=2).wait(check=True)

Each name is imported when it is first used, so the command line starts without all of them. `hora.run`, for scripts,
imports none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hora.client import Client, Items, Job, Metrics, Pages, Study
    from hora.client.calls import RemoteTraceback
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
    from jobs.model.states import EndReason, Status
    from jobs.views.jobs import EventView, Progress
    from jobs.views.live import EndNews, JobState, LogNews, MetricsNews
    from jobs.views.studies import StudySpec

__all__ = [
    "Client", "Conflict", "EndNews", "EndReason", "EventView", "HoraError", "Items", "Job", "JobFailed", "JobState",
    "LogNews", "Metrics", "MetricsNews", "NotAuthorized", "NotFound", "Pages", "ProblemError", "Progress",
    "QuotaExceeded", "RateLimited", "RemoteTraceback", "ScriptFailed", "ServiceUnavailable", "Spec", "Status", "Study",
    "StudySpec", "UnexpectedAnswer", "WaitTimeout",
]  # fmt: skip

# Where each name comes from. Those that are not here are errors.
_MODULES = {
    "hora.client": ("Client", "Items", "Job", "Metrics", "Pages", "Study"),
    "hora.client.calls": ("RemoteTraceback",),
    "jobs.model.spec": ("Spec",),
    "jobs.model.states": ("EndReason", "Status"),
    "jobs.views.jobs": ("EventView", "Progress"),
    "jobs.views.live": ("EndNews", "JobState", "LogNews", "MetricsNews"),
    "jobs.views.studies": ("StudySpec",),
}

if not TYPE_CHECKING:  # a type checker would take any name

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = next((module for module, names in _MODULES.items() if name in names), "hora.errors")
        return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
