"""MLflow's part of `bench.series`. It runs in an environment of its own, which has none of our packages.

`python mlflow_side.py DATABASE_URL` reads one command a line and answers with a line of JSON. `store COUNT AT_ONCE`
logs so many metrics of a new run by `log_batch`. `read POINTS TIMES` reads the newest run by
`get-history-bulk-interval`, from the store and over HTTP.
"""

import json
import logging
import os
import sys
import tempfile
import threading
import time
from http.client import HTTPConnection

from mlflow.entities import Metric
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from werkzeug.serving import WSGIRequestHandler, make_server

_PATH = "/ajax-api/2.0/mlflow/metrics/get-history-bulk-interval?run_ids={run}&metric_key=loss&max_results={points}"


def main(url: str) -> None:
    """Answer commands until the input ends."""
    logging.disable(logging.CRITICAL)
    os.environ["_MLFLOW_SERVER_FILE_STORE"] = url
    with tempfile.TemporaryDirectory() as artifacts:
        os.environ["_MLFLOW_SERVER_ARTIFACT_ROOT"] = artifacts
        store = SqlAlchemyStore(url, artifacts)
        port = _serve()
        print(json.dumps("ready"), flush=True)
        run = ""
        for line in sys.stdin:
            command, *numbers = line.split()
            if command == "store":
                run, spent_s = _store_points(store, *map(int, numbers))
                print(json.dumps(spent_s), flush=True)
            else:
                points, times = map(int, numbers)
                connection = HTTPConnection("127.0.0.1", port)
                answers = _read_s(store, run, points, times), _request_s(connection, run, points, times)
                print(json.dumps(answers), flush=True)


def _serve() -> int:
    from mlflow.server import app

    class Silent(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"  # connections stay open, as with ours

        def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002 - the name in the base class
            pass

    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Silent)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return int(server.server_port)


def _store_points(store: SqlAlchemyStore, count: int, at_once: int) -> tuple[str, float]:
    name = f"of {time.time_ns()}"
    run = store.create_run(store.create_experiment(name), "me", 0, [], name).info.run_id
    batches = [
        [Metric("loss", step * 7919 % 1000 / 1000, 1_700_000_000_000 + step, step) for step in range(start, end)]
        for start in range(0, count, at_once)
        for end in (min(start + at_once, count),)
    ]
    begun = time.perf_counter()
    for metrics in batches:
        store.log_batch(run, metrics, [], [])
    return run, time.perf_counter() - begun


def _read_s(store: SqlAlchemyStore, run: str, points: int, times: int) -> list[float]:
    spent = []
    for _ in range(times):
        begun = time.perf_counter()
        history = store.get_metric_history_bulk_interval([run], "loss", points, None, None)
        spent.append(time.perf_counter() - begun)
        assert len(history) == points
    return spent


def _request_s(connection: HTTPConnection, run: str, points: int, times: int) -> list[float]:
    spent = []
    for _ in range(times):
        begun = time.perf_counter()
        connection.request("GET", _PATH.format(run=run, points=points))
        answer = json.loads(connection.getresponse().read())
        spent.append(time.perf_counter() - begun)
        assert len(answer["metrics"]) == points, answer
    return spent


if __name__ == "__main__":
    main(sys.argv[1])
