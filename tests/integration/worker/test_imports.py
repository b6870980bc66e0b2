"""Processes do not import heavy libraries that they do not need: imports cost start time and memory."""

import json
import subprocess
import sys

import pytest

LOOK = """
import json, sys
import {module}
print(json.dumps(sorted(name for name in {unwanted} if name in sys.modules)))
"""
TENSORFLOW = ["tensorflow", "keras", "horovod"]


def imported(module: str, unwanted: list[str]) -> list[str]:
    """Which of `unwanted` a process has imported once it has imported `module`."""
    program = LOOK.format(module=module, unwanted=unwanted)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("module", ["api.main", "worker.app", "worker.attempt.supervision", "hora.cli.app"])
def test_only_ranks_import_tensorflow(module: str) -> None:
    assert imported(module, TENSORFLOW) == []


def test_a_supervisor_starts_its_ranks_before_it_imports_anything_slow() -> None:
    slow = ["sqlalchemy", "psycopg", "pydantic", "celery", "yaml", "psutil", "structlog", "numpy", "jobs"]
    assert imported("worker.supervisor", [*slow, *TENSORFLOW]) == []


def test_the_records_of_ranks_are_imported_without_database_and_tensorflow() -> None:
    assert imported("jobs.model.records", ["sqlalchemy", "psycopg", "celery", "redis", "fastapi", *TENSORFLOW]) == []
