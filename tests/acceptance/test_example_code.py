"""The scripts of examples/code/ on two ranks, as a person runs them: Keras, TensorFlow 2, PyTorch, and NumPy alone."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from hora.service import Service
from hora.stack.control import Stack
from tests.acceptance.conftest import ended, kinds, points, rank_pids, run_folder
from tests.stack_settings import SYSTEM_PYTHON
from tests.waiting import until

EXAMPLES = Path(__file__).parents[2] / "examples" / "code"
FINAL = ("last", "best", "best_epoch")
EPOCHS = 25


def has_torch() -> bool:
    """Whether the system's Python has PyTorch."""
    argv = [str(SYSTEM_PYTHON), "-c", "import importlib.util as i, sys; sys.exit(not i.find_spec('torch'))"]
    return SYSTEM_PYTHON.exists() and subprocess.run(argv, check=False).returncode == 0


def test_keras_goes_on_from_its_checkpoint_after_a_rank_was_killed(stack: Stack, client: Service) -> None:
    job_id = run_folder(stack, 2, EXAMPLES, "--set", f"params.epochs={EPOCHS}", "--", "python", "keras_digits.py")
    until(lambda: "checkpoint_saved" in kinds(client, job_id), what="a checkpoint")
    os.kill(rank_pids(client, job_id, 1)[0], signal.SIGKILL)
    job = ended(client, job_id)
    assert (job["status"], job["restarts"]) == ("succeeded", 1), job["error"]
    first, second = client.attempts(job_id)
    assert (first["end_reason"], second["resumed_step"] > 0) == ("rank_failed", True)
    assert sorted(points(client, job_id, "val_accuracy", axis="epoch")) == list(range(1, EPOCHS + 1))
    assert job["metrics"]["val_accuracy"]["best"] > 0.9
    final = {name: {field: figures[field] for field in FINAL} for name, figures in job["metrics"].items()}
    assert job["summary"]["metrics"] == final
    assert "model.weights.h5" in [file["path"] for file in client.artifacts(job_id)]


@pytest.mark.long("releases")
@pytest.mark.parametrize(
    ("script", "options", "metric"),
    [
        ("tensorflow2_digits.py", (), "val_accuracy"),
        ("regression.py", ("--set", "goal.metric=val_mae"), "val_mae"),
        pytest.param(
            "pytorch_digits.py", ("--set", "environment=torch"), "val_accuracy",
            marks=pytest.mark.skipif(not has_torch(), reason="the system's Python has no PyTorch"),
        ),
    ],
    ids=["tensorflow2", "regression", "pytorch"],
)  # fmt: skip
def test_an_example_trains_and_its_metric_has_a_curve(
    stack: Stack, client: Service, script: str, options: tuple[str, ...], metric: str
) -> None:
    job_id = run_folder(stack, 2, EXAMPLES, *options, "--", "python", script)
    job = ended(client, job_id)
    assert job["status"] == "succeeded", job["error"]
    curve = points(client, job_id, metric, axis="epoch")
    assert len(curve) >= 3
    assert job["metrics"][metric]["last"] == pytest.approx(curve[max(curve)])
    first, last = curve[min(curve)], curve[max(curve)]
    assert last < first if metric == "val_mae" else last > 0.8
