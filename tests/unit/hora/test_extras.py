"""What `hora.extras` says about the packages of pyproject.toml."""

import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from hora.extras import MODULES, NotInstalled, is_installed, require

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]


def packages_of(requirements: list[str]) -> set[str]:
    """The packages of an extra, and of the extras that it contains."""
    packages = set()
    for requirement in requirements:
        name, contained = re.findall(r"^([\w.-]+)(?:\[([\w,-]+)\])?", requirement)[0]
        packages |= packages_of(PROJECT["optional-dependencies"][contained]) if name == "hora" else {name.lower()}
    return packages


@pytest.mark.parametrize("extra", MODULES)
def test_the_modules_of_an_extra_come_with_it_and_not_with_the_client(extra: str) -> None:
    installed_by = packages_distributions()
    of_extra, of_client = packages_of([f"hora[{extra}]"]), packages_of(PROJECT["dependencies"])
    for module in MODULES[extra]:
        names = {name.lower() for name in installed_by[module]}
        assert names & of_extra, module
        assert not names & of_client, module


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODULES, "embedded", ("no_such_module",))
    monkeypatch.setitem(MODULES, "api", ("json",))
    assert (is_installed("embedded"), is_installed("api")) == (False, True)
    require("Nothing is missing", "api")
    with pytest.raises(NotInstalled, match=r"^A stack runs here, but .*: pip install 'hora\[embedded\]'\.$"):
        require("A stack runs here", "api", "embedded")
