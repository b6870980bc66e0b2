"""Only ranks import TensorFlow: the api has none in its container, and for others it costs start time and memory."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["api.main", "worker.app", "worker.attempt.supervision", "hora.cli.app"])
def test_only_ranks_import_tensorflow(module: str) -> None:
    heavy = ["tensorflow", "keras", "horovod"]
    program = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"
