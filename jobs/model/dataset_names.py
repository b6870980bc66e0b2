"""Names of registered datasets in `dataset.source` of a spec: `chips`, `chips@3`. Pure.

A path below the data roots may look like a name. A registered name hides it, as the name of a built-in dataset does;
`./chips` is always the path.
"""

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import StringConstraints

from jobs.model.catalog import DATASETS

NAME = r"[a-z0-9][a-z0-9._-]*"
DatasetName = Annotated[str, StringConstraints(pattern=rf"^{NAME}$", max_length=64)]

_REFERENCE = re.compile(rf"(?P<name>{NAME})(@(?P<version>[1-9][0-9]{{0,8}}))?")
_VERSIONED = re.compile(r"[^/:]*@[0-9]+")


@dataclass(frozen=True)
class Reference:
    """A registered dataset and its version. Version None means the newest one that is ready."""

    name: str
    version: int | None

    def __str__(self) -> str:
        return self.name if self.version is None else f"{self.name}@{self.version}"


def reference_of(source: str) -> Reference | None:
    """The registered dataset that a source may name. None if it can only be a path, a URL or a built-in dataset."""
    match = _REFERENCE.fullmatch(source)
    if match is None or len(match["name"]) > 64 or match["name"] in DATASETS:
        return None
    return Reference(match["name"], int(match["version"]) if match["version"] else None)


def is_versioned(source: str) -> bool:
    """Whether a source has the form NAME@N, which is never a path."""
    return _VERSIONED.fullmatch(source) is not None
