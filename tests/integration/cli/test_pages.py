"""The Python on the pages and in the notebooks, run as a reader would, from top to bottom."""

import ast
import json
import re
from pathlib import Path

import pytest

import hora.client as client_package
from hora import Client
from hora.service import Service
from hora.stack.control import Stack

ROOT = Path(__file__).parents[3]
PAGES = ("README.md", "docs/client.md")
NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))
ASKED_OTHERWISE = {  # what of a service the typed client has not, or not by this name
    "audit", "clock", "follow_jobs", "login_link", "readiness", "set_user_disabled", "users",
    "code_bytes", "store_code", "import_run",  # the client sends and fetches whole folders
    "fetch_checkpoint",  # `download_checkpoint`
    "download_artifacts", "dry_run_clone", "remove_upload", "send_piece", "start_upload", "upload", "uploads",
    "logs",  # `log_lines`
    "metrics_of",  # of many jobs; the client's jobs have their own
}  # fmt: skip


def blocks(page: str) -> list[str]:
    """The Python of a page, each at its line, so that a failure names it."""
    text = (ROOT / page).read_text()
    found = re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return ["\n" * text[: block.start(1)].count("\n") + block[1] for block in found]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_the_python_examples_of_a_page_run(stack: Stack, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    monkeypatch.setenv("HORA_URL", stack.url)
    monkeypatch.setenv("HORA_TOKEN", stack.token)
    reader: dict[str, object] = {"__name__": "reader"}
    for block in blocks(page):
        exec(compile(block, page, "exec"), reader)  # noqa: S102 - our own page


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_is_stored_without_outputs(
    stack: Stack, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pandas")
    monkeypatch.setenv("HORA_URL", stack.url)
    monkeypatch.setenv("HORA_TOKEN", stack.token)
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


def test_the_client_makes_every_call_of_the_service() -> None:
    sources = "".join(path.read_text() for path in Path(next(iter(client_package.__path__))).glob("*.py"))
    asked = {*re.findall(r"\b(?:self\._service|Service)\.(\w+)", sources)}
    calls = {name for name in dir(Service) if not name.startswith("_") and callable(getattr(Service, name))}
    assert calls - asked == ASKED_OTHERWISE
