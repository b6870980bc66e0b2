"""An MLflow tracking server, by its REST interface 2.0. Called by `worker.outward.mirror`; it knows nothing of rows.

Refused     the server answers, but not to this: the request or what it is about is wrong
Away        it does not answer, or to nothing at all: away, overloaded, or not letting us in
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import httpx2 as httpx

from jobs.outward.mirroring.points import Point

_Item = TypeVar("_Item")

_TIMEOUT_S = 20.0
_PREFIX = "/api/2.0/mlflow"
# The server's own limits of one request; a part of them is what older versions have.
_METRICS_AT_ONCE = 1000
_OTHERS_AT_ONCE = 100
_LONGEST_KEY, _LONGEST_VALUE = 250, 500
_NOT_OURS = (401, 403, 408, 429)  # of the server or its door, whatever was asked


class Refused(Exception):
    """The server does not take this."""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class Away(Exception):
    """The server cannot be asked now."""


@dataclass(frozen=True)
class NewRun:
    """A run as it begins; its tags tell it from all others."""

    name: str
    start_ms: int
    tags: Mapping[str, str]


class MlflowServer:
    """One server and one experiment on it."""

    def __init__(self, url: str, *, token: str | None, experiment: str) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=_TIMEOUT_S)
        self._experiment = experiment
        self._experiment_id: str | None = None

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def find_run(self, *, tag: str, value: str) -> str | None:
        """The run of the experiment that has this tag; the value is one of our own ids."""
        assert value.isalnum()
        query = {"experiment_ids": [self._experiment_there()], "filter": f"tags.`{tag}` = '{value}'", "max_results": 1}
        runs = self._ask("POST", "runs/search", json=query).get("runs", [])
        return str(runs[0]["info"]["run_id"]) if runs else None

    def create_run(self, run: NewRun) -> str:
        """Make a run; says its id."""
        asked = {
            "experiment_id": self._experiment_there(),
            "run_name": run.name,
            "start_time": run.start_ms,
            "tags": _pairs(run.tags),
        }
        return str(self._ask("POST", "runs/create", json=asked)["run"]["info"]["run_id"])

    def set_params(self, run_id: str, params: Mapping[str, str]) -> None:
        """Set params, which can never be changed."""
        for some in _at_once(_pairs(params), _OTHERS_AT_ONCE):
            self._ask("POST", "runs/log-batch", json={"run_id": run_id, "params": some})

    def set_tags(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Set tags, also such that are there."""
        for some in _at_once(_pairs(tags), _OTHERS_AT_ONCE):
            self._ask("POST", "runs/log-batch", json={"run_id": run_id, "tags": some})

    def log(self, run_id: str, points: Iterable[Point]) -> None:
        """Append points. One that is there already stays there once."""
        for some in _at_once(points, _METRICS_AT_ONCE):
            metrics = [
                {"key": point.key, "value": point.value, "timestamp": point.at_ms, "step": point.step} for point in some
            ]
            self._ask("POST", "runs/log-batch", json={"run_id": run_id, "metrics": metrics})

    def set_status(self, run_id: str, status: str, *, end_ms: int | None) -> None:
        """Say how the run is doing."""
        ended = {} if end_ms is None else {"end_time": end_ms}
        self._ask("POST", "runs/update", json={"run_id": run_id, "status": status, **ended})

    def delete_run(self, run_id: str) -> None:
        """Delete a run, unless that has been done."""
        try:
            found = self._ask("GET", "runs/get", params={"run_id": run_id})
        except Refused as error:
            if error.code == "RESOURCE_DOES_NOT_EXIST":
                return
            raise
        if found["run"]["info"]["lifecycle_stage"] != "deleted":
            self._ask("POST", "runs/delete", json={"run_id": run_id})

    def _experiment_there(self) -> str:
        """The id of the experiment, which is made where it is missing."""
        if self._experiment_id is None:
            name = self._experiment
            try:
                found = self._ask("GET", "experiments/get-by-name", params={"experiment_name": name})["experiment"]
            except Refused as error:
                if error.code != "RESOURCE_DOES_NOT_EXIST":
                    raise
                found = self._ask("POST", "experiments/create", json={"name": name})
            self._experiment_id = str(found["experiment_id"])
        return self._experiment_id

    def _ask(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        try:
            answer = self._http.request(method, f"{_PREFIX}/{path}", **request)
            document = answer.json() if answer.content else {}
        except httpx.HTTPError as error:
            raise Away(f"{type(error).__name__}: {error}") from error
        except ValueError:
            raise Away(f"{path} was answered with status {answer.status_code}, and no JSON") from None
        if answer.is_success:
            return dict(document)
        code, message = str(document.get("error_code", "")), str(document.get("message", ""))
        if not code or answer.status_code >= 500 or answer.status_code in _NOT_OURS:
            raise Away(f"{path} was answered with status {answer.status_code}: {message[:300]}")
        raise Refused(f"{path}: {message[:1000]}", code=code)


def _pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key[:_LONGEST_KEY], "value": value[:_LONGEST_VALUE]} for key, value in values.items()]


def _at_once(items: Iterable[_Item], most: int) -> Iterator[list[_Item]]:
    rest = iter(items)
    while some := list(islice(rest, most)):
        yield some
