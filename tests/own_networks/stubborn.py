"""A network whose job cannot be stopped gently. `tests.acceptance.test_failures` trains it.

Rank 1 hangs in a call that holds the interpreter, so that it notices neither the stop file nor SIGTERM. Each rank
starts a child that holds its output open, and another child without its mark and outside its session.
"""

import ctypes
import os
import subprocess
from pathlib import Path

from keras import Model, layers


def build(shape: tuple[int, ...], outputs: int) -> Model:
    """Write the pids of the rank and its children to `stubborn-RANK` in the home of the stack. Rank 1 stays here."""
    children = [subprocess.Popen(["sleep", "600"]), subprocess.Popen(["env", "-i", "setsid", "sleep", "600"])]
    pids = [os.getpid(), *(child.pid for child in children)]
    rank = os.environ["HOROVOD_RANK"]
    Path(os.environ["HORA_HOME"], f"stubborn-{rank}").write_text(" ".join(map(str, pids)) + "\n")
    ctypes.PyDLL(None).sleep(600 if rank == "1" else 0)
    inputs = layers.Input(shape)
    return Model(inputs, layers.Dense(outputs)(layers.Flatten()(inputs)))
