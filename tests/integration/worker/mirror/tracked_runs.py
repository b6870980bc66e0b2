"""The runs on MLflow's server, read over its public API; for the tests of the mirror."""

from typing import Any

import httpx2 as httpx

from jobs.runtime.settings import Settings

Json = dict[str, Any]
History = dict[str, list[tuple[int, int, float]]]  # (step, milliseconds, value) by metric


class TrackedRuns:
    """The runs of one experiment."""

    def __init__(self, configuration: Settings) -> None:
        self.http = httpx.Client(base_url=f"{configuration.mlflow_url}/api/2.0/mlflow", timeout=30)
        self._experiment = configuration.mlflow_experiment

    def request(self, method: str, path: str, **request: Any) -> Json:
        answer = self.http.request(method, path, **request)
        assert answer.is_success, answer.text
        body: Json = answer.json()
        return body

    def runs(self) -> list[Json]:
        """All runs of the experiment that are not deleted."""
        named = self.request("GET", "/experiments/get-by-name", params={"experiment_name": self._experiment})
        ids = [named["experiment"]["experiment_id"]]
        runs: list[Json] = self.request("POST", "/runs/search", json={"experiment_ids": ids}).get("runs", [])
        return runs

    def run(self) -> Json:
        (run,) = self.runs()
        return run

    def history(self) -> History:
        """All points of the only run."""
        points_by_metric: History = {}
        run_id = self.run()["info"]["run_id"]
        for metric in self.run()["data"].get("metrics", []):
            query = {"run_id": run_id, "metric_key": metric["key"]}
            points = self.request("GET", "/metrics/get-history", params=query)["metrics"]
            points_by_metric[metric["key"]] = sorted(
                (int(p["step"]), int(p["timestamp"]), float(p["value"])) for p in points
            )
        return points_by_metric
