"""From a file and options to the document that is submitted. Pure but for reading the file; called by the CLI."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hora.client import Json
from jobs.spec import MAX_BYTES, FieldProblem, InvalidSpec, load_yaml, spec_from

# A plain string may stand for one of these objects: the field of it that the string is.
_SHORTHAND = {"dataset": "source", "model": "name"}


def read_document(name: str) -> Json:
    """The spec in a file, YAML or JSON; "-" is standard input. Raises `InvalidSpec`."""
    try:
        if name == "-":
            text = sys.stdin.read(MAX_BYTES + 1)
        else:
            with Path(name).open(encoding="utf-8") as file:
                text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidSpec([FieldProblem(name, f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError:
        raise InvalidSpec([FieldProblem(name, "is not text in UTF-8")]) from None
    if len(text) > MAX_BYTES:
        raise InvalidSpec([FieldProblem(name, "is larger than 1 MiB")])
    document = _parsed(text, name)
    if not isinstance(document, dict):
        raise InvalidSpec([FieldProblem(name, "is not an object with the fields of a spec")])
    return document


def with_options(document: Mapping[str, Any], options: Mapping[str, Any], changes: Sequence[str]) -> Json:
    """`document` with options (those that are not None) and then `a.b=value` changes laid over it.

    Raises `InvalidSpec` for a change that is not of that form.
    """
    result: Json = json.loads(json.dumps(document))
    for field, value in options.items():
        if value is not None:
            nested = field in _SHORTHAND and isinstance(result.get(field), dict)
            _set(result, [field, _SHORTHAND[field]] if nested else [field], value)
    for change in changes:
        path, equals, text = change.partition("=")
        names = path.strip().split(".")
        if not equals or not all(names):
            raise InvalidSpec([FieldProblem("--set", "is FIELD=VALUE, such as dataset.validation=0.2", change)])
        _set(result, names, _parsed(text, path))
    return result


def validated(document: Json) -> Json:
    """`document`, once it is known to be a valid spec. Raises `InvalidSpec` with every wrong field."""
    spec_from(document)
    return document


def _set(document: Json, names: Sequence[str], value: Any) -> None:
    *folders, last = names
    here = document
    for name in folders:
        inner = here.get(name)
        if isinstance(inner, str) and name in _SHORTHAND:
            inner = {_SHORTHAND[name]: inner}
        here[name] = inner if isinstance(inner, dict) else {}
        here = here[name]
    here[last] = value


def _parsed(text: str, what: str) -> Any:
    try:
        return load_yaml(text)  # JSON is YAML
    except InvalidSpec as error:
        raise InvalidSpec([FieldProblem(what, error.problems[0].message)]) from None
