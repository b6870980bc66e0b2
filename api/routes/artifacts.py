"""What jobs left: the list, and the files."""

import os
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Header, Path, Query, Response

from api.callers import router
from api.deps import IfNoneMatch, JobId, PageLimit, Services, ServicesHere
from api.downloads import Download, byte_range, download_headers, media_type_of
from api.openapi import problems
from api.polling.entity_tags import UNCHANGED, answer_with, is_known, tag_of, unchanged
from api.problems import Problem
from jobs.data import artifact_files
from jobs.data.artifact_files import Artifact, ArtifactNotFound, ArtifactsUnseen
from jobs.data.artifacts import ArtifactsRemoved, artifact_place
from jobs.db import cursors
from jobs.views.artifacts import ArtifactView
from jobs.views.base import Listed

routes = router("artifacts")

_ELSEWHERE = problems(s404="No such job", s409="They lie on a host whose disk the api does not see")
_BYTES = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
_SENT: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file", **_BYTES},
    206: {"description": "The range of its bytes that was asked for", **_BYTES},
}
_FILE = (
    _SENT
    | UNCHANGED
    | problems(
        s404="No such job, or no such file",
        s409="They lie on a host whose disk the api does not see",
        s410="They are not kept any longer",
        s416="The range has no byte of the file",
    )
)

ArtifactPath = Annotated[str, Path(description="As in the list", examples=["model.weights.h5"])]


@routes.get(
    "/jobs/{job_id}/artifacts",
    response_model=Listed[ArtifactView],
    responses=UNCHANGED | _ELSEWHERE,
)
def list_artifacts(
    job_id: JobId,
    services: ServicesHere,
    limit: PageLimit = 100,
    cursor: Annotated[str | None, Query(max_length=10_000, description="`next_cursor` of the page before")] = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """List the files that a job left so far, by their paths. Of one that ended long ago there are none any more."""
    found = _listed(services, job_id)
    of = f"artifacts {job_id}"
    page = cursors.part_of(found, limit=limit, cursor=cursor, of=of, key=lambda artifact: artifact.path)
    tag = tag_of(page.next_cursor, *(f"{artifact.path} {artifact.etag}" for artifact in page.items))
    if is_known(tag, if_none_match):
        return unchanged(tag)
    views = [
        ArtifactView(path=one.path, bytes=one.bytes, modified_at=one.modified_at, media_type=media_type_of(one.path))
        for one in page.items
    ]
    return answer_with(Listed[ArtifactView](items=views, next_cursor=page.next_cursor), tag)


def _listed(services: Services, job_id: str) -> Sequence[Artifact]:
    with services.sessions() as session:
        where = artifact_place(session, job_id)
    if where.removed_at is not None:
        return []
    try:
        return artifact_files.listed(services.settings.runs_dir, job_id)
    except ArtifactsUnseen:
        if where.host in (None, services.settings.host):
            return []
        raise _elsewhere(job_id, where.host) from None


def _elsewhere(job_id: str, host: str | None) -> Problem:
    detail = f"the api sees no runs/{job_id}/artifacts below its HORA_HOME: what the job left lies there on host {host}"
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
    wanted: Annotated[str | None, Header(alias="Range", max_length=200, description="One range of bytes")] = None,
    if_range: Annotated[str | None, Header(alias="If-Range", max_length=200, description="The ETag it is of")] = None,
) -> Response:
    """Download a file that a job left, or a range of its bytes.

    It is sent as it was when it was opened, whatever takes its place meanwhile.
    """
    file = _opened(services, job_id, path)
    try:
        if is_known(file.artifact.etag, if_none_match):
            headers = download_headers(file)
            os.close(file.descriptor)
            return Response(status_code=304, headers=headers)
        # A date is as good as no match: two files within its second have the same.
        holds = if_range is None or if_range == file.artifact.etag
        part = byte_range(wanted, file.artifact.bytes) if holds else None
        return Download(file, part, only_head=False)
    except Problem:
        os.close(file.descriptor)
        raise


@routes.head("/jobs/{job_id}/artifacts/{path:path}", include_in_schema=False)
def look_at_artifact(job_id: JobId, path: ArtifactPath, services: ServicesHere) -> Response:
    """What a download would say of the file."""
    return Download(_opened(services, job_id, path), None, only_head=True)


def _opened(services: Services, job_id: str, path: str) -> artifact_files.OpenArtifact:
    with services.sessions() as session:
        where = artifact_place(session, job_id)
    artifact_files.parts_of(path)
    if where.removed_at is not None:
        raise ArtifactsRemoved(job_id, where.removed_at)
    try:
        return artifact_files.opened(services.settings.runs_dir, job_id, path)
    except ArtifactsUnseen:
        if where.host in (None, services.settings.host):
            raise ArtifactNotFound(path) from None
        raise _elsewhere(job_id, where.host) from None
