"""What the command line shows of the place of a job in its study. Pure."""

import json
from typing import Any

from hora.errors import Json
from hora.render.text import plain


def place_in_study(job: Json) -> str | None:
    """0abc, cell 3, repeat 2: gpus=2 batch_size=64. People count from 1."""
    if not job.get("study"):
        return None
    place = f"{plain(job['study'])}, cell {job['study_cell'] + 1}, repeat {job['study_repeat'] + 1}"
    values = " ".join(f"{plain(name)}={_text(value)}" for name, value in (job.get("study_values") or {}).items())
    return f"{place}: {values}" if values else place


def _text(value: Any) -> str:
    return plain(value if isinstance(value, str) else json.dumps(value))
