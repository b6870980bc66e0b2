"""Models as rows of a table of pandas, which need not be installed. Used by the lists of `hora.client`."""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

if TYPE_CHECKING:
    import pandas as pd

_REPEATED = "summary.metrics."  # of an ended job: the same as `metrics`


def frame_of(items: Iterable[BaseModel]) -> "pd.DataFrame":
    """A row for each model. An object inside becomes a column for each of its fields: `spec.dataset.source`."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("to_pandas needs pandas, which is not installed: pip install pandas") from error
    return pd.DataFrame([row_of(item) for item in items])


def row_of(item: BaseModel) -> dict[str, object]:
    """The values of a model by their dotted names, which are those of the API's JSON."""
    renamed = {name: field.validation_alias for name, field in type(item).model_fields.items()}
    fields = {str(renamed.get(name) or name): value for name, value in item.model_dump().items()}
    return {name: value for name, value in _flat(fields) if not name.startswith(_REPEATED)}


def _flat(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value.value if isinstance(value, Enum) else value
