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
    return [path for path in _paths(text) if not ((ROOT / path).exists() if "/" in path else _is_code(path))]


def _paths(text: str) -> Iterator[str]:
    for mention in _MENTION.findall(_BLOCK.sub("", text)):
        path = _FILE.match(mention) or _DOTTED.match(mention)
        if path and mention not in _TAGS_IN_MLFLOW and not _FILE_NAME.match(mention):
            yield path.group()


def _is_code(dotted: str) -> bool:
    """Whether a package or a module has this path, or binds each name behind its own."""
    names = dotted.split(".")
    for length in range(len(names), 0, -1):
        base = ROOT.joinpath(*names[:length])
        module = next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)
        if module is not None:
            return set(names[length:]) <= _names_bound_in(module)
        if base.is_dir():  # a package without an `__init__.py`
            return length == len(names)
    return False


@cache
def _names_bound_in(module: Path) -> set[str]:
    """Every name that a module, a class or a function in it defines, imports or assigns."""
    nodes = list(ast.walk(ast.parse(module.read_text())))
    defined = {node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)}
    imported = {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}
    assigned = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return defined | imported | assigned
