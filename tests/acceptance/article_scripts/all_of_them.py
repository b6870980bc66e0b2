"""Runs each script as it is, in one process: TensorFlow is imported once."""

import runpy

for name in ("keras_fit", "gradient_tape", "horovod_runner", "variants"):
    runpy.run_path(f"{name}.py", run_name="__main__")
