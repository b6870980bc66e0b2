"""`python -m tests.gpu_build`: a Horovod compiled for GPUs, tried on CPUs. For the Python of `.venv-gpu`.

It imports Horovod and TensorFlow, and trains digits on two ranks through the trainer. What runs only on a card stays
unseen: NCCL itself, and CUDA's kernels.
"""

import re
import sys
import tempfile
import time
from pathlib import Path

from jobs.model.records import Summarized
from tests.acceptance.ranks import Run

_PACKAGES = Path(sys.prefix).resolve() / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
_SPEC = {
    "dataset": "digits", "model": "mlp", "batch_size": 64, "batch_per": "global", "learning_rate": 0.001,
    "epochs": 8, "early_stopping": None, "gpus": 2,
}  # fmt: skip
_BEGUN = time.monotonic()


def main() -> None:
    """Check the build, then train with it. Raises `AssertionError`."""
    check_build()
    check_libraries(Path("/proc/self/maps").read_text())
    with tempfile.TemporaryDirectory(prefix="hora-") as folder:
        train(Path(folder))


def check_build() -> None:
    """Horovod and TensorFlow are built for GPUs."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    say(f"TensorFlow {tf.__version__}, is_built_with_cuda(): {tf.test.is_built_with_cuda()}")
    say(f"Horovod nccl_built(): {hvd.nccl_built()}, cuda_built(): {hvd.cuda_built()}")
    assert tf.test.is_built_with_cuda(), "TensorFlow is built for CPUs"
    assert hvd.nccl_built(), "Horovod is built without NCCL"
    assert hvd.cuda_built(), "Horovod is built without CUDA"


def check_libraries(maps: str) -> None:
    """Horovod finds NCCL beside itself, and needs no CUDA library of the compiler's version.

    `maps` are the files that this process has loaded.
    """
    loaded = sorted(set(re.findall(r"/\S+/(?:libnccl|libcudart)\.so\S*", maps)))
    say(f"loaded: {', '.join(loaded)}")
    assert str(_PACKAGES / "nvidia/nccl/lib/libnccl.so.2") in loaded, "NCCL is not the environment's own"
    assert not [path for path in loaded if "libcudart.so.13" in path], "the compiler's library is needed to run"


def train(folder: Path) -> None:
    """Train on two ranks, to a known accuracy. After the first step and at the end they compare their weights."""
    run = Run(folder / "job", _SPEC)
    code = run.train()
    log = run.log(0) if (run.folder / "logs").exists() else ""
    assert code == 0, f"the ranks ended with {code}: {log}"
    (summary,) = (record.summary for record in run.of_job(Summarized))
    say(f"trained digits on 2 ranks: {summary.epochs_run} epochs, val_accuracy {summary.val_accuracy}")
    assert summary.epochs_run == _SPEC["epochs"]
    assert (summary.val_accuracy or 0) >= 0.9, "the network learned too little"


def say(line: str) -> None:
    """Print a line with the time since the start."""
    print(f"gpu-build-test, {time.monotonic() - _BEGUN:.0f} s: {line}", flush=True)


if __name__ == "__main__":
    main()
