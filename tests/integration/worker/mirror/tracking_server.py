"""MLflow's own server, for the tests of the mirror. It runs in `.venv-peers`, which has none of our packages.

`python tracking_server.py FOLDER` keeps its data in the folder, prints its port, and serves until its input ends.
"""

import logging
import os
import sys
import threading

folder = sys.argv[1]
url = f"sqlite:///{folder}/mlflow.db"
os.environ |= {
    "_MLFLOW_SERVER_FILE_STORE": url,
    "_MLFLOW_SERVER_ARTIFACT_ROOT": f"{folder}/artifacts",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}

from mlflow.server import app  # noqa: E402 - it reads the environment
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore  # noqa: E402
from werkzeug.serving import make_server  # noqa: E402

logging.disable(logging.CRITICAL)
SqlAlchemyStore(url, f"{folder}/artifacts")  # makes the tables
server = make_server("127.0.0.1", 0, app, threaded=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdout.write(f"{server.server_port}\n")
sys.stdout.flush()
sys.stdin.read()
