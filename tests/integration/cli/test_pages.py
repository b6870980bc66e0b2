"""The Python on the pages and in the notebooks, run as a reader would, from top to bottom."""

import ast
import json
import re
from pathlib import Path

import pytest

from hora import Client
from hora.stack.control import Stack

ROOT = Path(__file__).parents[3]
PAGES = ("README.md", "docs/client.md")
NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))


def blocks(page: str) -> list[str]:
    """The Python of a page, each at its line, so that a failure names it."""
    text = (ROOT / page).read_text()
    found = re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return ["\n" * text[: block.start(1)].count("\n") + block[1] for block in found]


@pytest.fixture(autouse=True)
def _reader(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader has the packages that examples use, and a service."""
    pytest.importorskip("pandas")
    monkeypatch.setenv("HORA_URL", stack.url)
    monkeypatch.setenv("HORA_TOKEN", stack.token)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_the_python_examples_of_a_page_run(page: str) -> None:
    reader: dict[str, object] = {"__name__": "reader"}
    for block in blocks(page):
        exec(compile(block, page, "exec"), reader)  # noqa: S102 - our own page


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_is_stored_without_outputs(path: Path) -> None:
    notebook = json.loads(path.read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [(cell["outputs"], cell["execution_count"]) for cell in cells] == [([], None)] * len(cells)
    reader: dict[str, object] = {"__name__": "__main__"}
    shown = [shown_by("".join(cell["source"]), f"{path.name}[{cell['id']}]", reader) for cell in cells]
    as_tables = [text for text in shown if text.startswith(("<table", "<div"))]
    assert len(as_tables) >= 6, shown  # the advice may be none
    assert any("<svg" in text for text in as_tables)


def shown_by(cell: str, name: str, reader: dict[str, object]) -> str:
    """Run a cell. Returns what a notebook shows of it: its last line, if that is a value, as HTML where it has that."""
    *statements, last = ast.parse(cell).body
    if not isinstance(last, ast.Expr):
        statements.append(last)
    exec(compile(ast.Module(statements, []), name, "exec"), reader)  # noqa: S102 - our own notebook
    if not isinstance(last, ast.Expr):
        return ""
    value = eval(compile(ast.Expression(last.value), name, "eval"), reader)  # noqa: S307 - likewise
    return str(value._repr_html_() if hasattr(value, "_repr_html_") else value)


def test_the_page_lists_every_method_of_the_client() -> None:
    with Client("http://hora.test") as client:
        rows = dict(re.findall(r"^\| `client\.(\w+)` \| (.*) \|$", (ROOT / "docs/client.md").read_text(), re.MULTILINE))
        resources = {name: one for name, one in vars(client).items() if type(one).__module__.startswith("hora.client")}
        assert {name: re.findall(r"`(\w+)`", row) for name, row in rows.items()}.keys() == resources.keys()
        for name, resource in resources.items():
            methods = {method for method in dir(resource) if not method.startswith("_")}
            assert {*re.findall(r"`(\w+)`", rows[name])} == methods, name
