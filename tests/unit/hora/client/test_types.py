"""The types of the client: generated from the models, shipped, and checked as a user's type checker reads them."""

import subprocess
import sys
import tomllib
from pathlib import Path

import hora
from tests.typed_fields import FILE, source

ROOT = Path(__file__).parents[4]
SCRIPTS = Path(__file__).parent / "typed"
PARTS = ["channel", "checkpoints", "checks", "figures", "given", "media", "phases", "reports", "stopping"]
OF_SCRIPTS = ["hora", "hora.hooks", "hora.hooks.weights", "hora.run", *(f"hora.run.{name}" for name in PARTS)]
BUILD = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]


def test_the_fields_are_those_of_the_models() -> None:
    assert FILE.read_text() == source(), "python -m tests.typed_fields writes it anew"


def test_every_package_of_the_wheel_is_marked_as_typed() -> None:
    assert [name for name in BUILD["targets"]["wheel"]["packages"] if not (ROOT / name / "py.typed").is_file()] == []


def test_a_type_checker_knows_the_client() -> None:
    # What is imported counts as installed: its own errors are not those of the user.
    argv = ["--config-file=", "--strict", "--warn-unused-ignores", "--no-error-summary", "--follow-imports=silent"]
    argv += ["--cache-dir", str(ROOT / ".mypy_cache/of-users"), *map(str, sorted(SCRIPTS.glob("*.py")))]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *argv], cwd=ROOT, env={"PATH": "", "MYPYPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_importing_hora_or_its_part_for_scripts_imports_nothing_else() -> None:
    ask = "import sys; print(sorted(m for m in sys.modules if m.partition('.')[0] in {'hora', 'jobs', 'pydantic'}))"
    for code, modules in (("import hora", ["hora"]), ("from hora import run", OF_SCRIPTS)):
        done = subprocess.run([sys.executable, "-c", f"{code}; {ask}"], capture_output=True, text=True, check=True)
        assert done.stdout == f"{modules}\n"
    assert set(hora.__all__) <= set(dir(hora))  # an editor lists them
