"""The parts of a job besides its curves: spec and plan as params, identity and outcome as tags."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from jobs.db.tables import Job

JOB_TAG = "hora.job"
_NOT_IN_A_KEY = re.compile(r"[^A-Za-z0-9_.\- ]")


def identity(job: Job) -> dict[str, str]:
    """The tags with which a run is created. The first one identifies its job."""
    tags = {JOB_TAG: job.id, "hora.project": job.project, "mlflow.user": job.owner, "mlflow.source.name": "hora"}
    if job.study_id is not None:
        tags |= {
            "hora.study": job.study_id, "hora.study_cell": str(job.study_cell),
            "hora.study_repeat": str(job.study_repeat),
        }  # fmt: skip
    return tags | {f"label.{_NOT_IN_A_KEY.sub('_', key)}": str(value) for key, value in job.labels.items()}


def params(job: Job) -> dict[str, str]:
    """The spec with every default, by dotted field, and the plan with the prefix `plan.`."""
    spec = {key: value for key, value in job.spec.items() if key not in ("labels", "name", "project")}
    return dict([*_flat(spec, ""), *_flat(job.plan, "plan.")])


def outcome(job: Job) -> dict[str, str]:
    """The tags about its end."""
    summary = job.summary or {}
    tags = {"hora.end_reason": job.end_reason, "hora.error": job.error, "hora.attempts": job.attempt}
    tags |= {f"hora.{name}": summary.get(name) for name in ("best_epoch", "test_accuracy", "test_loss")}
    if job.code is None:
        measured = {name: value for name, value in summary.get("metrics", {}).items() if name.startswith("test_")}
        tags |= {f"hora.{name}": value["last"] for name, value in measured.items()}
    return {key: str(value) for key, value in tags.items() if value is not None}


def _flat(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, str) else json.dumps(value)
