"""Programs of other projects, in the environment `.venv-peers`. `make .venv-peers/ready` sets it up for `make test`."""

import os
from pathlib import Path

import pytest

_BIN = Path(__file__).parents[1] / ".venv-peers/bin"


def peer(program: str) -> Path:
    """The path of a program. Without the program the test is skipped, or fails if `CI` is set."""
    path = _BIN / program
    if not path.exists():
        if os.environ.get("CI"):
            pytest.fail("run make .venv-peers/ready first")
        pytest.skip(f"{program} is not installed: run make .venv-peers/ready")
    return path
