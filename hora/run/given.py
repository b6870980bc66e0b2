"""What Hora gives a script: the values of its run file; outside Hora, what the environment says."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any, NamedTuple


class Dataset(NamedTuple):
    """The parts of the data that the spec names, as paths or URLs. None: there is no such part."""

    train: str | None = None
    validation: str | None = None


def _run_file() -> dict[str, Any]:
    path = os.environ.get("HORA_RUN_FILE")
    if path is None:
        return {}
    with open(path, encoding="utf-8") as file:
        content: dict[str, Any] = json.load(file)
    return content


def _variable(*names: str) -> int | None:
    return next((int(os.environ[name]) for name in names if os.environ.get(name, "").isdigit()), None)


values = _run_file()
is_inside = "channel" in values  # to the rank that watches: an exported script has none
spec: dict[str, Any] = values.get("spec", {})
plan: dict[str, Any] = values.get("plan", {})
params: dict[str, Any] = spec.get("params", {})
rank: int = values.get("rank", _variable("HOROVOD_RANK", "RANK") or 0)
size: int = values.get("size", _variable("HOROVOD_SIZE", "WORLD_SIZE") or 1)
local_rank: int = values.get("local_rank", _variable("HOROVOD_LOCAL_RANK", "LOCAL_RANK") or 0)
dataset = Dataset(values.get("train"), values.get("validation"))


@functools.cache
def artifacts_folder() -> Path:
    """The folder for files to keep. It is made when somebody asks for it."""
    folder = Path(values.get("artifacts") or os.environ.get("HORA_ARTIFACTS", "artifacts")).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder
