"""Checkpoints: list those of a job that are in the store, and download their files."""

from typing import TYPE_CHECKING, Annotated

from fastapi import Path, Query, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import TypeAdapter

from api.callers import router
from api.deps import Cursor, IfNoneMatch, JobId, Services, ServicesHere
from api.files import sent_files
from api.files.sent_files import Redirect, WantedHere
from api.openapi import problems
from api.polling.entity_tags import UNCHANGED, answer_or_304
from api.problems import Problem
from jobs.copies.resuming import Key
from jobs.data.checkpoints import CheckpointNotFound, CheckpointRows, CheckpointsRemoved, checkpoint_rows
from jobs.db import cursors
from jobs.db.cursors import RowId
from jobs.views.base import Listed
from jobs.views.checkpoints import CheckpointFileView, CheckpointView

if TYPE_CHECKING:
    from jobs.copies.manifests import CheckpointManifest, CopiedFile

routes = router("checkpoints")

_NO_STORE = "The stack has no store; the checkpoints are only on their host"
_FILE = sent_files.SENT | problems(
    s404="No such job, checkpoint or file",
    s409=_NO_STORE,
    s410="The checkpoints were removed, by a person or after their retention",
    s416="The range is outside the file",
)
_BY_STEP: TypeAdapter[tuple[int, int]] = cursors.positions(RowId, RowId)  # step and attempt

Number = Annotated[int, Path(ge=0, lt=2**63, description="As in the list")]
CheckpointPath = Annotated[
    str,
    Path(
        json_schema_extra={"format": "checkpoint-path"},
        description="The file's path, as in the list",
        examples=["optimizer.pt"],
    ),
]


@routes.get(
    "/jobs/{job_id}/checkpoints",
    response_model=Listed[CheckpointView],
    responses=UNCHANGED | problems(s404="No such job", s409=_NO_STORE),
)
async def list_checkpoints(
    job_id: JobId,
    services: ServicesHere,
    limit: Annotated[int, Query(ge=1, le=100, description="The page size")] = 20,
    cursor: Cursor = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """List the checkpoints of a job that are whole in the store, the newest first.

    Those whose steps a later attempt trained again are left out.
    """
    rows, before = await run_in_threadpool(_rows_and_place, services, job_id, cursor)
    if rows.removed_at is not None:
        return answer_or_304(Listed[CheckpointView](items=[]), if_none_match)
    _require_store(services, rows, job_id)
    if not rows.saved:
        return answer_or_304(Listed[CheckpointView](items=[]), if_none_match)
    found, best = await services.store.checkpoints(job_id, before=before, most=limit + 1)
    next_cursor = await run_in_threadpool(_cursor_after, services, job_id, found[limit - 1]) if found[limit:] else None
    items = [_view(manifest, best) for manifest in found[:limit]]
    return answer_or_304(Listed[CheckpointView](items=items, next_cursor=next_cursor), if_none_match)


@routes.get(
    "/jobs/{job_id}/checkpoints/{attempt}/{step}/{path:path}",
    response_class=Response,
    responses=_FILE,
)
async def download_checkpoint(
    job_id: JobId, attempt: Number, step: Number, path: CheckpointPath, services: ServicesHere, wanted: WantedHere
) -> Response:
    """Download a file of a checkpoint, or a range of its bytes."""
    await run_in_threadpool(_require_checkpoint, services, job_id, attempt, step)

    async def find() -> "CopiedFile":
        return await _copy_of(services, job_id, attempt, step, path)

    return await sent_files.from_store(services.store, await find(), wanted, find)


@routes.head("/jobs/{job_id}/checkpoints/{attempt}/{step}/{path:path}", include_in_schema=False)
async def look_at_checkpoint(
    job_id: JobId,
    attempt: Number,
    step: Number,
    path: CheckpointPath,
    services: ServicesHere,
    redirect: Redirect = False,
) -> Response:
    """Get the headers of a download. It is never redirected: an address at the store is for GET only."""
    del redirect
    await run_in_threadpool(_require_checkpoint, services, job_id, attempt, step)
    return sent_files.headers_of(sent_files.as_artifact(await _copy_of(services, job_id, attempt, step, path)))


def _rows_and_place(
    services: Services, job_id: str, cursor: str | None
) -> tuple[CheckpointRows, tuple[int, int] | None]:
    """What the rows say of the job's newest checkpoints, and the step and attempt before which the page begins."""
    with services.sessions() as session:
        rows = checkpoint_rows(session, job_id)
        place = None if cursor is None else cursors.decode(session, cursor, by=_BY_STEP, of=_list_of(job_id))
    return rows, place


def _cursor_after(services: Services, job_id: str, last: "CheckpointManifest") -> str:
    with services.sessions() as session:
        return cursors.encode(session, (last.step, last.attempt), by=_BY_STEP, of=_list_of(job_id))


def _list_of(job_id: str) -> str:
    return f"checkpoints {job_id}"


def _view(manifest: "CheckpointManifest", best: Key | None) -> CheckpointView:
    is_best = best == (manifest.attempt, manifest.step)
    return CheckpointView(
        attempt=manifest.attempt,
        step=manifest.step,
        epoch=manifest.epoch,
        saved_at=manifest.saved_at,
        bytes=manifest.total_bytes,
        is_best=is_best,
        files=[CheckpointFileView.model_validate(file) for file in manifest.files],
    )


def _require_checkpoint(services: Services, job_id: str, attempt: int, step: int) -> None:
    """Make sure that the rows know a checkpoint, and that no later attempt trained its steps again."""
    with services.sessions() as session:
        rows = checkpoint_rows(session, job_id, [(attempt, step)])
    if rows.removed_at is not None:
        raise CheckpointsRemoved(job_id, rows.removed_at)
    _require_store(services, rows, job_id)
    if not rows.saved:
        raise CheckpointNotFound


def _require_store(services: Services, rows: CheckpointRows, job_id: str) -> None:
    if services.store.is_set:
        return
    if rows.host is None:
        detail = "no rank of the job has started, so there are no checkpoints; they can be had when HORA_STORE is set"
    else:
        detail = (
            f"the checkpoints are on host {rows.host}, in runs/{job_id}/checkpoints below its HORA_HOME; "
            "set HORA_STORE for the api and the workers, and those of later attempts can be had here"
        )
    raise Problem(409, "no-store", "No store", detail)


async def _copy_of(services: Services, job_id: str, attempt: int, step: int, path: str) -> "CopiedFile":
    manifest = await services.store.checkpoint(job_id, attempt, step)
    for copy in manifest.files if manifest is not None else ():
        if copy.path == path:
            return copy
    raise CheckpointNotFound
