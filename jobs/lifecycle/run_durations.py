"""Durations of the newest runs of each kind of job. From them backfill estimates how long the next one takes.

`key_of` is called at submission, `record` when an attempt has succeeded. `jobs.scheduling.placement_rows` reads the
rows.
"""

import json
from functools import cache
from hashlib import sha256
from typing import Any
from typing import cast as cast_type

from sqlalchemy import ARRAY, Float, Table, bindparam, cast, func, select
from sqlalchemy.dialects.postgresql import Insert, array, insert
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt, Job, RunTime
from jobs.model.spec import Spec
from jobs.model.stored_spec import stored_spec

MOST_DURATIONS = 5  # stored for each kind of job
# Fields that do not change how long a job takes: names, placement, and what happens after a failure. Also some numbers
# that hardly change it.
_IRRELEVANT = {
    "name", "project", "labels", "goal", "priority", "after", "placement", "pool", "min_gpus", "max_restarts",
    "time_limit_s", "stall_timeout_s", "learning_rate", "lr_scaling", "base_batch", "warmup_epochs", "schedule",
    "weight_decay", "clip_norm", "label_smoothing", "class_weights", "seed", "idle", "alerts",
}  # fmt: skip

_WORK: Any = {
    "code": True,
    "command": True,
    "params": True,
    "env": True,
    "environment": True,
    "requirements": True,
    "dataset": {"source", "format", "text", "text_length", "vocabulary", "image_size", "augment"},
    "model": {"name", "freeze_base"},
    "precision": True,
    "device": True,
    "jit": True,
    "allreduce": True,
    "accumulate": True,
    "strategy": True,
}


def key_of(spec: Spec) -> str:
    """SHA-256, in hex, of those fields of a spec that decide how long a run takes."""
    return _digest(spec, exclude=_IRRELEVANT)


def work_key_of(spec: Spec) -> str:
    """SHA-256, in hex, of those fields that decide what is done with a sample (glossary: work).

    Jobs with equal work differ in speed only by their GPUs, batch and cache.
    """
    return _digest(spec, include=_WORK)


def _digest(spec: Spec, **chosen: Any) -> str:
    return sha256(json.dumps(stored_spec(spec, **chosen), sort_keys=True).encode()).hexdigest()


def record(session: Session, attempt_id: int) -> None:
    """Store how long an attempt that has just succeeded held its slots, if it ran from the start."""
    session.execute(_record(), {"attempt_id": attempt_id})


@cache
def _record() -> Insert:
    took_s = cast(func.extract("epoch", func.now() - Attempt.created_at), Float(53))
    from_the_start = func.coalesce(Attempt.resumed_step, 0) == 0
    # With the mapped class itself, the parameter would be read as one of its rows.
    newest = insert(cast_type("Table", RunTime.__table__)).from_select(
        ["run_key", "durations_s"],
        select(Job.run_key, array([took_s]))
        .join(Attempt, Attempt.job_id == Job.id)
        .where(Attempt.id == bindparam("attempt_id"), Job.run_key.is_not(None), from_the_start),
    )
    both = func.array_cat(newest.excluded.durations_s, RunTime.durations_s, type_=ARRAY(Float(53)))
    kept = {"durations_s": both[1:MOST_DURATIONS], "updated_at": func.now()}
    return newest.on_conflict_do_update(index_elements=[RunTime.run_key], set_=kept)
