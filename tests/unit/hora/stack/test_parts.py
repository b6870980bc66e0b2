"""The environment in which the parts of a stack start."""

import os
import sysconfig
from pathlib import Path

import pytest

from hora.stack.parts import with_sources

ROOT = Path(__file__).parents[4]


def test_the_parts_of_a_source_tree_run_its_own_code() -> None:
    """The folder above all packages comes first. The folder of a package would hide modules of the same name."""
    assert with_sources({})["PYTHONPATH"] == str(ROOT)
    assert with_sources({"PYTHONPATH": "/lib"})["PYTHONPATH"] == f"{ROOT}{os.pathsep}/lib"
    assert with_sources({"PYTHONPATH": str(ROOT)})["PYTHONPATH"] == str(ROOT)


def test_the_parts_of_an_installed_package_need_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(ROOT))
    assert "PYTHONPATH" not in with_sources({})
