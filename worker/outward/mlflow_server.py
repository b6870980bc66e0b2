"""An MLflow tracking server, by its REST interface 2.0. Called by `worker.outward.mirror`; it knows nothing of rows.

Refused     the server refuses this request
Away        the server does not answer, is overloaded, or refuses our access
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
# The server's own limits for one request; some are those of older versions.
_METRICS_PER_REQUEST = 1000
_ITEMS_PER_REQUEST = 100
_LONGEST_KEY, _LONGEST_VALUE = 250, 500
_SERVER_TROUBLE = (401, 403, 408, 429)  # not about this request: no access, or too much load


class Refused(Exception):
    """The server refuses this request."""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class Away(Exception):
    """The server does not answer now."""


@dataclass(frozen=True)
class NewRun:
    """A new run; its tags identify it."""

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
        query = {
            "experiment_ids": [self._ensured_experiment_id()],
            "filter": f"tags.`{tag}` = '{value}'",
            "max_results": 1,
        }
        runs = self._request("POST", "runs/search", json=query).get("runs", [])
        return str(runs[0]["info"]["run_id"]) if runs else None

    def create_run(self, run: NewRun) -> str:
        """Make a run; returns its id."""
        fields = {
            "experiment_id": self._ensured_experiment_id(),
            "run_name": run.name,
            "start_time": run.start_ms,
            "tags": _pairs(run.tags),
        }
        return str(self._request("POST", "runs/create", json=fields)["run"]["info"]["run_id"])

    def set_params(self, run_id: str, params: Mapping[str, str]) -> None:
        """Set params, which can never be changed."""
        for batch in _batches(_pairs(params), _ITEMS_PER_REQUEST):
            self._request("POST", "runs/log-batch", json={"run_id": run_id, "params": batch})

    def set_tags(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Set tags; existing ones are replaced."""
        for batch in _batches(_pairs(tags), _ITEMS_PER_REQUEST):
            self._request("POST", "runs/log-batch", json={"run_id": run_id, "tags": batch})

    def log(self, run_id: str, points: Iterable[Point]) -> None:
        """Append points. The server keeps a repeated one once."""
        for batch in _batches(points, _METRICS_PER_REQUEST):
            metrics = [
                {"key": point.key, "value": point.value, "timestamp": point.at_ms, "step": point.step}
                for point in batch
            ]
            self._request("POST", "runs/log-batch", json={"run_id": run_id, "metrics": metrics})

    def set_status(self, run_id: str, status: str, *, end_ms: int | None) -> None:
        """Set the status of the run."""
        ended = {} if end_ms is None else {"end_time": end_ms}
        self._request("POST", "runs/update", json={"run_id": run_id, "status": status, **ended})

    def delete_run(self, run_id: str) -> None:
        """Delete a run, if it still exists."""
        try:
            answer = self._request("GET", "runs/get", params={"run_id": run_id})
        except Refused as error:
            if error.code == "RESOURCE_DOES_NOT_EXIST":
                return
            raise
        if answer["run"]["info"]["lifecycle_stage"] != "deleted":
            self._request("POST", "runs/delete", json={"run_id": run_id})

    def _ensured_experiment_id(self) -> str:
        """The id of the experiment, which is created if it does not exist."""
        if self._experiment_id is None:
            name = self._experiment
            try:
                answer = self._request("GET", "experiments/get-by-name", params={"experiment_name": name})
                experiment = answer["experiment"]
            except Refused as error:
                if error.code != "RESOURCE_DOES_NOT_EXIST":
                    raise
                experiment = self._request("POST", "experiments/create", json={"name": name})
            self._experiment_id = str(experiment["experiment_id"])
        return self._experiment_id

    def _request(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        try:
            answer = self._http.request(method, f"{_PREFIX}/{path}", **request)
            document = answer.json() if answer.content else {}
        except httpx.HTTPError as error:
            raise Away(f"{type(error).__name__}: {error}") from error
        except ValueError:
            raise Away(f"the answer to {path} has status {answer.status_code} and is not JSON") from None
        if answer.is_success:
            return dict(document)
        code, message = str(document.get("error_code", "")), str(document.get("message", ""))
        if not code or answer.status_code >= 500 or answer.status_code in _SERVER_TROUBLE:
            raise Away(f"the answer to {path} has status {answer.status_code}: {message[:300]}")
        raise Refused(f"{path}: {message[:1000]}", code=code)


def _pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key[:_LONGEST_KEY], "value": value[:_LONGEST_VALUE]} for key, value in values.items()]


def _batches(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch
