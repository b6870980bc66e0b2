"""Brings the checkpoint of another job, from which a job continues, to where its ranks look for it.

Called by `worker.copies.start` before the ranks start. The checkpoint comes from this host's disk if it is there, else
from the store. A job that has a checkpoint of its own does not need it any more.
"""

import logging
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from jobs.copies.resuming import Key, checkpoints_among
from jobs.db.engine import Sessions, is_away
from jobs.db.tables import Job
from jobs.lifecycle.history import last_lead_host
from jobs.lifecycle.store import get_job
from jobs.model.origins import Origin
from jobs.model.states import EndReason
from jobs.runtime import script_user
from jobs.runtime.checkpoint_folders import OTHER_JOB, LocalCheckpoint, attempt_folder, complete_below
from jobs.runtime.files import make_private
from jobs.runtime.settings import Settings
from worker.attempt.ending import Ending
from worker.attempt.paths import AttemptPaths
from worker.copies.awaited_data import NotStarted
from worker.copies.fetching import CannotFetch, Fetch, Fetched
from worker.copies.on_disk import is_whole, newest_whole, note_script_state, script_states

_log = logging.getLogger(__name__)

_RETRY_S = 1.0
_OWN_FIGURES = ("steps", "steps_s", "rates", "rates_sum", "wall_s")  # of what a script's rank knows: of its job alone

StillNeeded = Callable[[], bool]
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class _Before:
    """What the rows say of the job from which another continues."""

    host: str | None  # that has its files
    has_stopped_early: bool
    steps: Collection[Key]  # folders and steps on this host's disk that are valid checkpoints of the epoch


def bring(
    sessions: Sessions, config: Settings, paths: AttemptPaths, origin: Origin, *,
    is_script: bool, fetch: Fetch | None, still_needed: StillNeeded,
) -> Fetched | None:  # fmt: skip
    """Bring a checkpoint of another job, if the job of the attempt has none yet. Returns it if the store had it.

    Raises `NotStarted` if nobody has it, `CannotFetch`, `OSError`.
    """
    if newest_whole(paths.checkpoints, of_script=is_script) is not None:
        return None
    root = config.runs_dir / origin.job_id / "checkpoints"
    there = [found for found in complete_below(root, of_script=is_script) if found.attempt != OTHER_JOB]
    before = _patiently(sessions, lambda session: _before(session, origin, there), still_needed)
    usable = (one for one in there if (one.attempt, one.step) in before.steps)
    found = next((one for one in usable if is_script or is_whole(one.path)), None)
    if found is not None:
        script_user.take_back([found.path], config.script_user)  # no attempt did, if it lost its lease
        _take(found, paths.checkpoints, is_script=is_script, still_needed=still_needed)
        _log.info("continuing from step %d of job %s", found.step, origin.job_id)
        state = script_states(root).get(str(found.step), {})
        step, fetched = found.step, None
    else:
        fetched = None if fetch is None else fetch.of_other_job(origin.job_id, origin.epoch or 0, is_script=is_script)
        if fetched is None:
            raise NotStarted(Ending(EndReason.LAUNCH_FAILED, _why_missing(config, origin, before)))
        step, state = fetched.manifest.step, fetched.manifest.script or {}
    if is_script:
        note_script_state(paths.checkpoints, step, _for_next_job(state, before))
    return fetched


def _before(session: Session, origin: Origin, there: Sequence[LocalCheckpoint]) -> _Before:
    """A folder may have checkpoints that earlier attempts saved."""
    job = get_job(session, origin.job_id)
    keys = {(number, one.step) for one in there for number in range(1, one.attempt + 1)}
    valid = {one.key for one in checkpoints_among(session, job, keys) if one.epoch == origin.epoch}
    usable = {
        (one.attempt, one.step)
        for one in there
        if any((number, one.step) in valid for number in range(1, one.attempt + 1))
    }
    host = session.scalar(select(last_lead_host()).select_from(Job).where(Job.id == origin.job_id))
    return _Before(host, job.end_reason == EndReason.EARLY_STOPPED, usable)


def _take(found: LocalCheckpoint, root: Path, *, is_script: bool, still_needed: StillNeeded) -> None:
    """Give a checkpoint of Hora's own loop a second name, for it is never changed; copy that of a script."""
    folder = attempt_folder(root, OTHER_JOB)
    make_private(folder)
    place, arrival = folder / found.path.name, folder / f".unfinished-{found.path.name}"
    shutil.rmtree(arrival, ignore_errors=True)
    if not is_script:
        try:
            os.link(found.path, place)
            return
        except OSError:  # the file system has no links
            pass
    copying = subprocess.Popen(["cp", "-a", "--", str(found.path), str(arrival)], stdin=subprocess.DEVNULL)
    while copying.poll() is None:
        if not still_needed():
            copying.kill()
            copying.wait()
            raise CannotFetch("it is not needed any more")
        time.sleep(0.05)
    if copying.returncode != 0:
        raise OSError(f"{found.path.name} could not be copied")
    os.replace(arrival, place)


def _for_next_job(state: dict[str, Any], before: _Before) -> dict[str, Any]:
    """What a script's rank knows of the run at the start of another job, whose times are its own."""
    kept = {name: value for name, value in state.items() if name not in _OWN_FIGURES}
    return kept | {"waited": 0} if before.has_stopped_early else kept


def _why_missing(config: Settings, origin: Origin, before: _Before) -> str:
    what = (
        f"host {config.host} has no checkpoint of epoch {origin.epoch} of job {origin.job_id}, from which it continues"
    )
    if before.host in (None, config.host):
        return f"{what}: it was removed, or is damaged"
    where = "and the store has none either" if config.store is not None else "set HORA_STORE, so that every host can"
    return f"{what}: host {before.host} had it, {where}"


def _patiently(sessions: Sessions, read: Callable[[Session], _Result], still_needed: StillNeeded) -> _Result:
    """Read rows. The lease says for how long a database that is away is waited for."""
    while True:
        if not still_needed():
            raise CannotFetch("it is not needed any more")
        try:
            with sessions() as session:
                return read(session)
        except DBAPIError as error:
            if not is_away(error):
                raise
            _log.warning("the database is away: %s", error.orig)
        time.sleep(_RETRY_S)
