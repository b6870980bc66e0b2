"""Specs as documents: parsed JSON that is not validated yet, or that a row holds. Pure.

Used by the command line and the api, which change documents before they are validated, and by studies.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from jobs.model.spec import SHORTHAND, Spec


def knows_epochs(spec: Mapping[str, Any]) -> bool:
    """Whether a stored spec says how many epochs there will be. The default says nothing about a script's own loop."""
    return spec.get("code") is None or spec.get("epochs") != Spec.model_fields["epochs"].default


def knows_batch(spec: Mapping[str, Any]) -> bool:
    """Whether a stored spec says which batch is used. Its default says nothing about a script's own loop."""
    if spec.get("code") is None or spec["batch_size"] != Spec.model_fields["batch_size"].default:
        return True
    return any("{batch_size}" in argument or "{global_batch}" in argument for argument in spec["command"])


def set_field(document: dict[str, Any], names: Sequence[str], value: Any) -> None:
    """Set the field at the path `names` of a spec's document, which may have plain strings in place of objects."""
    *parents, last = names
    parent = document
    for name in parents:
        inner = parent.get(name)
        if isinstance(inner, str) and name in SHORTHAND and "params" not in names:
            inner = {SHORTHAND[name]: inner}
        parent[name] = inner if isinstance(inner, dict) else {}
        parent = parent[name]
    parent[last] = value


def merged(document: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The document with the changes applied: objects are merged, every other value replaces the old one.

    Null is a value, as in a spec: `{"early_stopping": None}` turns early stopping off. A plain string of the document
    is merged as the object that it stands for.
    """
    result = dict(document)
    for name, value in changes.items():
        before = result.get(name)
        if isinstance(before, str) and name in SHORTHAND:
            before = {SHORTHAND[name]: before}
        result[name] = _merged(before, value)
    return result


def _merged(before: Any, value: Any) -> Any:
    if not (isinstance(before, Mapping) and isinstance(value, Mapping)):
        return value
    return {**before, **{name: _merged(before.get(name), inner) for name, inner in value.items()}}
