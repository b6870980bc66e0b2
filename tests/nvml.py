"""A library that stands in for the NVIDIA driver's, and shows cards that are not there (see the stub for them)."""

import subprocess
from pathlib import Path

_STUB = Path(__file__).parent / "integration/worker/nvml_stub.c"


def build_stub(folder: Path, *options: str) -> Path:
    """Build the library in a new folder. A process whose LD_LIBRARY_PATH is the folder finds it."""
    folder.mkdir(exist_ok=True)
    library = folder / "libnvidia-ml.so.1"
    argv = ["cc", *options, "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", str(library), str(_STUB)]
    subprocess.run(argv, check=True)
    return library
