"""Check that code exists which a page names by its path: `jobs.lifecycle.store.transition`, `worker/app.py`.

`tests.unit.test_docs` calls this. It reads modules and never imports them: TensorFlow alone would take seconds.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
_PACKAGES = "api|bench|hora|jobs|migrations|tests|trainer|worker"
_FOLDERS = f"{_PACKAGES}|dashboard|docs|examples|monitoring|requirements"
_MENTION = re.compile(r"`([^`\n]+)`")
_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_FILE = re.compile(rf"(?:{_FOLDERS})/[\w./-]*$")
_DOTTED = re.compile(rf"(?:{_PACKAGES})(?:\.[A-Za-z_]\w*)+(?=(?:\(.*\))?$)")
_FILE_NAME = re.compile(r"\w+\.(?:json|log|md|py|sock|toml|txt|yaml|yml)$")
_TAGS_IN_MLFLOW = {
    "hora.attempts", "hora.best_epoch", "hora.end_reason", "hora.error", "hora.job", "hora.project", "hora.study",
    "hora.study_cell", "hora.study_repeat", "hora.test_accuracy", "hora.test_loss",
}  # fmt: skip


def missing_code(text: str) -> list[str]:
    """The paths between backticks in a page's Markdown that name neither a file nor code."""
    return [path for path in _paths(text) if not (_is_file(path) if "/" in path else _is_code(path))]


def _paths(text: str) -> Iterator[str]:
    for mention in _MENTION.findall(_BLOCK.sub("", text)):
        path = _FILE.match(mention) or _DOTTED.match(mention)
        if path and mention not in _TAGS_IN_MLFLOW and not _FILE_NAME.match(mention):
            yield path.group()


def _is_file(path: str) -> bool:
    return (ROOT / path).exists()


def _is_code(dotted: str) -> bool:
    """Whether a package, a module, or a name inside a module has this path."""
    names = dotted.split(".")
    for length in range(len(names), 0, -1):
        base = ROOT.joinpath(*names[:length])
        module = next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)
        if module is not None:
            return _defines(_tree(module).body, names[length:])
        if base.is_dir():  # a package without an `__init__.py`
            return length == len(names)
    return False


@cache
def _tree(module: Path) -> ast.Module:
    return ast.parse(module.read_text())


def _defines(body: list[ast.stmt], names: list[str]) -> bool:
    """Whether the body of a module or class defines the first name, and a class of that name the next one."""
    if not names:
        return True
    for statement in body:
        if isinstance(statement, ast.ClassDef) and statement.name == names[0]:
            return _defines(statement.body, names[1:])
    return names[0] in {name for statement in body for name in _bound(statement)}


def _bound(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.Import(names=imported) | ast.ImportFrom(names=imported):
            yield from (alias.asname or alias.name for alias in imported)
        case ast.Assign(targets=targets):
            yield from (node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.If(body=body, orelse=orelse):  # `if TYPE_CHECKING:`
            yield from (name for inner in (*body, *orelse) for name in _bound(inner))
