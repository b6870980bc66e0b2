"""A client made by a public generator from /openapi.json submits, waits and reads without any of our packages."""

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx2 as httpx
import pytest

from hora.service import Service
from hora.stack.control import Stack
from tests.peers import peer

LIMIT_S = 240.0  # only what never ends reaches it
SCRIPT = """
import json, sys, time
from hora_generated import AuthenticatedClient
from hora_generated.api.jobs import get_job, submit_job
from hora_generated.api.series import get_metrics
from hora_generated.models import GetMetricsAxis, JobView, Problem, Spec, Status

url, token = sys.argv[1], sys.stdin.read()
with AuthenticatedClient(base_url=url, token=token) as client:
    wrong = submit_job.sync(client=client, body=Spec.from_dict({"dataset": "digits", "gpus": 0}))
    assert isinstance(wrong, Problem), wrong
    spec = {"dataset": "digits", "batch_size": 64, "learning_rate": 0.001, "gpus": 1, "model": "mlp", "epochs": 2}
    job = submit_job.sync(client=client, body=Spec.from_dict(spec))
    assert isinstance(job, JobView), job
    give_up_at = time.monotonic() + 120
    while job.status not in (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED) and time.monotonic() < give_up_at:
        time.sleep(0.2)
        job = get_job.sync(job.id, client=client)
    metrics = get_metrics.sync(job.id, client=client, name=["loss"], axis=GetMetricsAxis.EPOCH)
    (loss,) = [series for series in metrics.series if series.rank == -1]
    print(json.dumps({"id": job.id, "status": job.status, "wrong": wrong.errors[0].field, "x": loss.x, "y": loss.y}))
"""


@pytest.fixture(scope="module")
def generated(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the generated package. The generator gave no warning about the document."""
    folder = tmp_path_factory.mktemp("generated")
    document = folder / "openapi.json"  # the generator itself waits five seconds for it at most
    document.write_bytes(httpx.get(f"{stack.url}/openapi.json", timeout=LIMIT_S).raise_for_status().content)
    process = subprocess.run(
        [
            peer("openapi-python-client"), "generate", "--path", document, "--meta", "none",
            "--output-path", folder / "hora_generated", "--fail-on-warning",
        ],
        env={"PATH": f"{Path(sys.executable).parent}:{os.defpath}"},  # it formats with ruff
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout + process.stderr
    return folder


def test_a_generated_client_submits_waits_and_reads(stack: Stack, client: Service, generated: Path) -> None:
    done = subprocess.run(
        [peer("python"), "-c", SCRIPT, stack.url], input=stack.token, env={"PYTHONPATH": str(generated)},
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["status"], found["wrong"], found["x"]) == ("succeeded", "gpus", [1.0, 2.0])
    (series,) = [s for s in client.metrics(found["id"], name="loss", axis="epoch") if s["rank"] == -1]
    assert found["y"] == series["y"]
