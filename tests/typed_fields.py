"""The fields that the client's methods take, as types: `python -m tests.typed_fields` generates them from the models.

An editor completes them, and a type checker refuses a name that is not one of them.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from jobs.model.job_changes import JobChanges
from jobs.model.spec import Spec
from jobs.views.data import NewDataset
from jobs.views.projects import NewProject, ProjectChanges
from jobs.views.studies import StudySpec

FILE = Path(__file__).parents[1] / "hora/client/fields.py"
_HEAD = '''"""The fields of documents that the client sends, for type checkers and editors. No code reads them.

`python -m tests.typed_fields` writes this file from the models of the service. A class named `...Part` is an object
inside another one. No field is required here: the service says what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict
'''
_LONGEST_DOC = 120 - len('    """"""')


@dataclass(frozen=True)
class Fields:
    """A class to generate: all fields of a model, but those that a method sets itself."""

    name: str
    model: type[BaseModel]
    doc: str
    left_out: tuple[str, ...] = ()
    extends: str | None = None  # which has all fields but `left_out`


_CALL = ("gpus", "code", "command")
_UPLOAD = ("source", "upload")
CLASSES = (
    Fields("CallFields", Spec, "The fields of a spec that `client.jobs.run` takes.", left_out=_CALL),
    Fields("SpecFields", Spec, "The fields of a spec: docs/spec.md.", left_out=_CALL, extends="CallFields"),
    Fields("ChangeFields", JobChanges, "What can be changed of a job."),
    Fields("StudyFields", StudySpec, "The fields of a study: docs/studies.md."),
    Fields("UploadFields", NewDataset, "How to read the data that `client.datasets.upload` sends.", left_out=_UPLOAD),
    Fields("DatasetFields", NewDataset, "The fields of a dataset.", left_out=_UPLOAD, extends="UploadFields"),
    Fields("ProjectFields", NewProject, "The fields of a new project, beside its name.", left_out=("name",)),
    Fields("ProjectChangeFields", ProjectChanges, "What can be changed of a project."),
)


def source() -> str:
    """The text of the generated file."""
    parts: dict[str, Mapping[str, Any]] = {}
    bodies = []
    for one in CLASSES:
        schema = one.model.model_json_schema()
        for name, part in schema.get("$defs", {}).items():
            if "properties" in part and parts.setdefault(name, part) != part:
                raise ValueError(f"two parts are called {name}")
        chosen = one.left_out if one.extends else [name for name in schema["properties"] if name not in one.left_out]
        fields = {name: schema["properties"][name] for name in chosen}
        bodies.append(_class(one.name, one.extends or "TypedDict", one.doc, fields))
    nested = [_class(_part(name), "TypedDict", _first_line(part), part["properties"]) for name, part in parts.items()]
    return _formatted("\n\n".join([_HEAD, *nested, *bodies]))


def _formatted(text: str) -> str:
    argv = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(FILE), "-"]
    return subprocess.run(argv, input=text, capture_output=True, text=True, check=True).stdout


def _class(name: str, base: str, doc: str, properties: Mapping[str, Any]) -> str:
    lines = [f"    {field}: {' | '.join(_types(schema))}\n" for field, schema in properties.items()]
    return f'class {name}({base}, total=False):\n    """{doc}"""\n\n{"".join(lines)}'


def _types(schema: Mapping[str, Any]) -> Iterator[str]:
    """The types of a value. A union has several."""
    for union in ("anyOf", "oneOf"):
        if union in schema:
            yield from dict.fromkeys(each for one in schema[union] for each in _types(one))
            return
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        yield "Any" if name == "JsonValue" else _part(name)
        return
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        yield f"Literal[{', '.join(json.dumps(value) for value in values)}]"
        return
    yield _plain(schema)


def _plain(schema: Mapping[str, Any]) -> str:
    match schema.get("type"):
        case "array" if "prefixItems" in schema:
            each = [" | ".join(_types(one)) for one in schema["prefixItems"]]
            return f"list[{' | '.join(dict.fromkeys(each))}] | tuple[{', '.join(each)}]"
        case "array":
            return f"list[{' | '.join(_types(schema['items']))}]"
        case "object":
            values = schema.get("additionalProperties") or next(iter(schema.get("patternProperties", {}).values()), {})
            return f"Mapping[str, {' | '.join(_types(values))}]"
        case None:
            return "Any"
        case kind:
            return {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}[kind]


def _part(name: str) -> str:
    return f"{name.removesuffix('Spec').removesuffix('Step')}Part"


def _first_line(part: Mapping[str, Any]) -> str:
    line = str(part["description"]).strip().partition("\n")[0]
    return line if len(line) <= _LONGEST_DOC else line.partition(". ")[0] + "."


if __name__ == "__main__":
    FILE.write_text(source())
