"""Artifacts: list the files that a job left, and download them."""

import os
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Header, Path, Query, Response
from pydantic import Field

from api.callers import CallerHere, router
from api.deps import CursorText, EntityTags, IfNoneMatch, JobId, PageLimit, Services, ServicesHere
from api.downloads import Download, byte_range, download_headers, media_type_of
from api.openapi import problems
from api.polling.entity_tags import UNCHANGED, answer_with, is_known, tag_of, unchanged
from api.problems import Problem
from jobs.data import artifact_files, artifacts
from jobs.data.artifact_files import Artifact, ArtifactNotFound, ArtifactsUnseen
from jobs.data.artifacts import ArtifactsRemoved, artifact_place
from jobs.db import cursors
from jobs.lifecycle.store import get_job
from jobs.people import audit
from jobs.views.artifacts import ArtifactView
from jobs.views.base import Listed

routes = router("artifacts")

_ELSEWHERE = problems(s404="No such job", s409="The artifacts are on a host whose disk the api cannot read")
_BYTES = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
_SENT: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file", **_BYTES},
    206: {"description": "The requested range of its bytes", **_BYTES},
}
_FILE = (
    _SENT
    | UNCHANGED
    | problems(
        s404="No such job, or no such file",
        s409="The artifacts are on a host whose disk the api cannot read",
        s410="The artifacts were removed, by a person or after their retention",
        s416="The range is outside the file",
    )
)

ArtifactPath = Annotated[
    str,
    Path(
        json_schema_extra={"format": "artifact-path"},
        description="The artifact's path, as in the list",
        examples=["model.weights.h5"],
    ),
]


@routes.get(
    "/jobs/{job_id}/artifacts",
    response_model=Listed[ArtifactView],
    responses=UNCHANGED | _ELSEWHERE,
)
def list_artifacts(
    job_id: JobId,
    services: ServicesHere,
    limit: PageLimit = 100,
    cursor: Annotated[
        CursorText | None, Query(max_length=10_000, description="`next_cursor` of the previous page")
    ] = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """List the artifacts of a job, sorted by path. Artifacts of jobs that ended long ago are removed."""
    of_job = _artifacts_of(services, job_id)
    of = f"artifacts {job_id}"
    with services.sessions() as session:
        page = cursors.part_of(session, of_job, limit=limit, cursor=cursor, of=of, key=lambda artifact: artifact.path)
    tag = tag_of(page.next_cursor, *(f"{artifact.path} {artifact.etag}" for artifact in page.items))
    if is_known(tag, if_none_match):
        return unchanged(tag)
    views = [
        ArtifactView(
            path=artifact.path,
            bytes=artifact.bytes,
            modified_at=artifact.modified_at,
            media_type=media_type_of(artifact.path),
        )
        for artifact in page.items
    ]
    return answer_with(Listed[ArtifactView](items=views, next_cursor=page.next_cursor), tag)


@routes.delete(
    "/jobs/{job_id}/artifacts",
    status_code=204,
    responses=problems(s404="No such job", s409="The job has not ended, or another job starts from its weights"),
)
def remove_artifacts(job_id: JobId, services: ServicesHere, caller: CallerHere) -> None:
    """Remove the artifacts and checkpoints of a job that has ended. Its project may keep as much more at once.

    The hosts remove the files within about an hour. Repeating this changes nothing.
    """
    with services.sessions.begin() as session:
        caller.require_steering(session, "job", get_job(session, job_id))
        if artifacts.remove_artifacts(session, job_id):
            audit.record(session, caller.actor, "job.artifacts_removed", job_id)
    services.hints.dispatch()  # jobs of a project that kept too much may be placed now


def _artifacts_of(services: Services, job_id: str) -> Sequence[Artifact]:
    with services.sessions() as session:
        location = artifact_place(session, job_id)
    if location.removed_at is not None:
        return []
    try:
        return artifact_files.listed(services.settings.runs_dir, job_id)
    except ArtifactsUnseen:
        if location.host in (None, services.settings.host):
            return []
        raise _elsewhere(job_id, location.host) from None


def _elsewhere(job_id: str, host: str | None) -> Problem:
    detail = f"they are on host {host}, in runs/{job_id}/artifacts below its HORA_HOME; the api cannot read that disk"
    return Problem(409, "artifacts-elsewhere", "Artifacts lie elsewhere", detail)


@routes.get(
    "/jobs/{job_id}/artifacts/{path:path}",
    response_class=Response,
    responses=_FILE,
)
def download_artifact(
    job_id: JobId,
    path: ArtifactPath,
    services: ServicesHere,
    if_none_match: IfNoneMatch = None,
    range_header: Annotated[
        Annotated[str, Field(json_schema_extra={"format": "byte-range"})] | None,
        Header(alias="Range", max_length=200, description="One range of bytes"),
    ] = None,
    if_range: Annotated[
        EntityTags | None,
        Header(alias="If-Range", max_length=200, description="The ETag that the range belongs to"),
    ] = None,
) -> Response:
    """Download an artifact, or a range of its bytes.

    If the file is replaced during the download, the old content is still sent to its end.
    """
    file = _opened(services, job_id, path)
    try:
        if is_known(file.artifact.etag, if_none_match):
            headers = download_headers(file)
            os.close(file.descriptor)
            return Response(status_code=304, headers=headers)
        # A date never matches: two versions of a file within one second have the same.
        is_same_file = if_range is None or if_range == file.artifact.etag
        part = byte_range(range_header, file.artifact.bytes) if is_same_file else None
        return Download(file, part, only_head=False)
    except Problem:
        os.close(file.descriptor)
        raise


@routes.head("/jobs/{job_id}/artifacts/{path:path}", include_in_schema=False)
def look_at_artifact(job_id: JobId, path: ArtifactPath, services: ServicesHere) -> Response:
    """Get the headers of a download."""
    return Download(_opened(services, job_id, path), None, only_head=True)


def _opened(services: Services, job_id: str, path: str) -> artifact_files.OpenArtifact:
    with services.sessions() as session:
        location = artifact_place(session, job_id)
    artifact_files.parts_of(path)
    if location.removed_at is not None:
        raise ArtifactsRemoved(job_id, location.removed_at)
    try:
        return artifact_files.opened(services.settings.runs_dir, job_id, path)
    except ArtifactsUnseen:
        if location.host in (None, services.settings.host):
            raise ArtifactNotFound(path) from None
        raise _elsewhere(job_id, location.host) from None
