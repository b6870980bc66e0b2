"""The usage of the past: GPU-hours, jobs and cost."""

from collections.abc import Sequence
from datetime import date
from typing import Any, TypedDict, Unpack

from hora.errors import Json
from hora.service.calls import Calls
from hora.service.transport import api_path


class UsageQuery(TypedDict, total=False):
    """Which usage to add up, and by what. Both days are included."""

    by: str | Sequence[str] | None  # one or two of project, user, host and device
    from_: date | str | None  # 2026-01-31, in UTC
    until: date | str | None
    period: str | None  # month or day
    project: str | None
    user: str | None


class UsageCalls(Calls):
    """The requests about usage."""

    def usage(self, **query: Unpack[UsageQuery]) -> Json:
        """GPU-hours, jobs and cost: `by`, `from_`, `until`, `period`, `project`, `user`.

        By default of each project in the last 12 months, or 30 days with `period="day"`.
        """
        return self._wire.document("GET", api_path("usage"), params=_parameters(query))

    def usage_csv(self, **query: Unpack[UsageQuery]) -> str:
        """The same as a table for spreadsheets."""
        parameters = _parameters(query) | {"format": "csv"}
        return self._wire.send("GET", api_path("usage"), params=parameters, headers={"Accept": "*/*"}).text


def _parameters(query: UsageQuery) -> dict[str, Any]:
    """The parameters of the request: `from` is a word of Python, and days are sent as texts."""
    return {name.rstrip("_"): str(value) if isinstance(value, date) else value for name, value in query.items()}
