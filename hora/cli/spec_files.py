"""Makes a spec or study from a file and options. Pure, except for reading the file. Called by the CLI.

`hora.cli.spec_code` sends the folders of code that it names.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hora.cli.spec_code import with_whole_paths
from hora.errors import Json
from jobs.model.documents import set_field
from jobs.model.problems import FieldProblem, InvalidSpec, field_problems
from jobs.model.spec import MAX_BYTES, SHORTHAND, spec_from
from jobs.model.yaml_text import load_yaml


def read_document(name: str) -> Json:
    """The spec in a file, YAML or JSON; "-" is standard input. Raises `InvalidSpec`.

    A folder of code that it names is relative to the file.
    """
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
    with_whole_paths(document, Path() if name == "-" else Path(name).parent)
    return document


def with_options(
    document: Mapping[str, Any], options: Mapping[str, Any], changes: Sequence[str], *, whole_below: Sequence[str] = ()
) -> Json:
    """`document` with the options that are not None, and then with the changes `a.b=value`.

    Below the fields `whole_below` names are kept whole: a study's `grid.dataset.fraction` is `dataset.fraction` of its
    grid. Raises `InvalidSpec` for a change that is not of that form.
    """
    result: Json = json.loads(json.dumps(document))
    for field, value in options.items():
        if value is not None:
            nested = field in SHORTHAND and isinstance(result.get(field), dict)
            set_field(result, [field, SHORTHAND[field]] if nested else [field], value)
    for change in changes:
        path, equals, text = change.partition("=")
        names = path.strip().split(".")
        for holder in (field.split(".") for field in whole_below if all(names)):
            if names[: len(holder)] == holder:
                names = [*holder, *filter(None, [".".join(names[len(holder) :])])]
        if not equals or not all(names):
            raise InvalidSpec([FieldProblem("--set", "is FIELD=VALUE, such as dataset.validation=0.2", change)])
        set_field(result, names, text if _is_plain_text(names, text) else yaml_value(text, path))
    return result


def with_labels(document: Json, labels: Sequence[str]) -> Json:
    """`document` with these labels too, each as `key:value`. Raises `InvalidSpec` for one of another form."""
    wrong = [label for label in labels if ":" not in label]
    if wrong:
        raise InvalidSpec([FieldProblem("--label", "is KEY:VALUE, such as team:vision", label) for label in wrong])
    for key, _, value in (label.partition(":") for label in labels):
        set_field(document, ["labels", key], value)
    return document


def validated(document: Json) -> Json:
    """Check that `document` is a valid spec, and return it. Raises `InvalidSpec` with every wrong field."""
    spec_from(document)
    return document


def validated_study(document: Json) -> Json:
    """Check that `document` has the form of a study, and return it. The service checks its specs.

    Raises `InvalidSpec`.
    """
    from pydantic import ValidationError

    from jobs.views.studies import StudySpec

    try:
        StudySpec.model_validate_json(json.dumps(document))
    except ValidationError as error:
        raise InvalidSpec(field_problems(error, StudySpec)) from None
    return document


def _is_plain_text(names: Sequence[str], text: str) -> bool:
    """Whether a value is text as typed, not YAML: `run #5` and `8: a` are names. A value in quotes is YAML."""
    field = list(names[1:] if names[0] == "base" else names)
    is_text = field == ["name"] or (field[0] in ("labels", "env") and len(field) == 2)
    return is_text and not text.startswith(("'", '"'))


def yaml_value(text: str, path: str) -> Any:
    """The value that a person wrote for the field at a path. Raises `InvalidSpec`."""
    value = _parsed(text, path)
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        raise InvalidSpec([FieldProblem(path, "is not a finite number", text)]) from None
    return value


def _parsed(text: str, what: str) -> Any:
    try:
        return load_yaml(text)  # JSON is YAML
    except InvalidSpec as error:
        raise InvalidSpec([FieldProblem(what, error.problems[0].message)]) from None
