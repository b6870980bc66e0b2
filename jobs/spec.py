"""Where `Spec` was before `hora.Spec`: this name still works for one release, and warns."""

import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobs.model.spec import Spec

__all__ = ["Spec"]


def __getattr__(name: str) -> Any:
    from jobs.model import spec

    value = getattr(spec, name)
    warnings.warn("jobs.spec has moved: use `from hora import Spec`", DeprecationWarning, stacklevel=2)
    return value
