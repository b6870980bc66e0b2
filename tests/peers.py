"""Other people's programs, in an environment beside ours: `make .venv-peers/ready`, which `make test` has run."""

import os
from pathlib import Path

import pytest

_BIN = Path(__file__).parents[1] / ".venv-peers/bin"


def peer(program: str) -> Path:
    """The path of one of them. Without it the test is skipped, but not where everything has to be run."""
    path = _BIN / program
    if not path.exists():
        if os.environ.get("CI"):
            pytest.fail("make .venv-peers/ready was not run")
        pytest.skip(f"{program} is not here: make .venv-peers/ready")
    return path
