"""The tables of fields, settings and end reasons in docs/. `python -m tests.field_tables` generates them from code."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import UnionType
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from jobs.model.spec import Spec
from jobs.model.states import EndReason
from jobs.runtime.settings import Settings
from jobs.views.studies import StudySpec

DOCS = Path(__file__).parents[1] / "docs"
_TABLE = re.compile(r"^\| (?:(?:field|variable) \| default \| meaning|end reason \| .*) \|\n(?:\|.*\n)*", re.MULTILINE)
# Only the command line reads this variable, and it does not use `Settings`.
_URL = (
    "HORA_URL",
    "",
    "For the command line: where the api is. By default the address that `hora up` wrote to `$HORA_HOME/url`.",
)


def fields_of(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Each field with its dotted path. If a field holds a part, the fields of the part follow it."""
    for name, field in model.model_fields.items():
        yield f"{prefix}{name}", field
        for part in get_args(field.annotation) if isinstance(field.annotation, UnionType) else (field.annotation,):
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from fields_of(part, f"{prefix}{name}.")


def default_of(field: FieldInfo) -> str:
    """The default of a field as JSON. For a part it is the part's name, or `on` if it only has defaults."""
    if field.is_required():
        return "required"
    if not isinstance(field.default, BaseModel):
        return f"`{json.dumps(field.default)}`"
    changed = field.default.model_dump(exclude_defaults=True)
    name = changed if isinstance(changed, str) else changed.get("name")
    return f"`{json.dumps(name)}`" if name else "on"


def _default_setting(value: Any) -> str:
    """The default of a setting as a person would write it. Empty where the description has to explain it."""
    if not isinstance(value, int | float | str) or value == "":
        return ""
    return f"`{value}`" if isinstance(value, str) else f"`{value:.12g}`"


def _table(first: str, rows: Iterable[tuple[str, str, str]]) -> str:
    cells = [(first, "default", "meaning"), ("---", "---", "---")]
    cells += [(f"`{name}`", default, meaning.replace("|", r"\|")) for name, default, meaning in rows]
    lines = "".join(f"| {' | '.join(row)} |\n" for row in cells)
    return lines.replace("| --- | --- | --- |", "|---|---|---|").replace("|  |", "| |")


def _meaning(path: str, field: FieldInfo) -> str:
    assert field.description, f"{path} has no description"
    return field.description


def _of_fields(model: type[BaseModel]) -> str:
    return _table("field", ((path, default_of(field), _meaning(path, field)) for path, field in fields_of(model)))


def _of_settings() -> str:
    settings = (
        (f"HORA_{name.upper()}", _default_setting(field.default), _meaning(name, field))
        for name, field in Settings.model_fields.items()
    )
    return _table("variable", (*settings, _URL))


def _of_end_reasons() -> str:
    lines = ["| end reason | the job becomes | restarted | counts | when |", "|---|---|---|---|---|"]
    for reason in EndReason:
        outcome = reason.outcome
        restarted, counts = ("yes" if is_so else "no" for is_so in (outcome.retried, outcome.counts))
        lines.append(f"| `{reason}` | `{outcome.status}` | {restarted} | {counts} | {reason.meaning} |")
    return "".join(f"{line}\n" for line in lines)


def pages() -> dict[Path, str]:
    """The text of each page that has such a table, with the generated table in it."""
    tables = {
        "spec.md": _of_fields(Spec), "studies.md": _of_fields(StudySpec), "operations.md": _of_settings(),
        "states.md": _of_end_reasons(),
    }  # fmt: skip
    return {DOCS / name: _with_table((DOCS / name).read_text(), table) for name, table in tables.items()}


def _with_table(page: str, table: str) -> str:
    written, tables = _TABLE.subn(lambda _: table, page)
    assert tables == 1, f"{tables} tables of fields"
    return written


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
