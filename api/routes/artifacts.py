"""Artifacts: list the files of a job, and its media by name and step, and download them: one by one, or as an archive.

They are on the disk of the job's lead host, and if the stack has a store, copies of them are there. This machine's own
disk has the newest ones if it is the lead host. Otherwise the store is asked first: a folder of another host that is
mounted here is only read if the store has nothing of the job.
"""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Path, Query, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import Field

from api.callers import CallerHere, router
from api.deps import CursorText, IfNoneMatch, JobId, PageLimit, Services, ServicesHere
from api.files import sent_files
from api.files.archives import MEDIA_TYPE, Archive, BrokenOff
from api.files.downloads import disk_chunks, media_type_of
from api.files.sent_files import Redirect, WantedHere
from api.openapi import problems
from api.polling.entity_tags import UNCHANGED, answer_or_304, answer_with, is_known, tag_of, unchanged
from api.problems import Problem
from jobs.data import artifact_files, artifacts
from jobs.data.artifact_files import Artifact, ArtifactNotFound, ArtifactsUnseen, OpenArtifact
from jobs.data.artifacts import ArtifactPlace, ArtifactsRemoved, artifact_place
from jobs.data.media import media_among
from jobs.db import cursors
from jobs.db.cursors import Page
from jobs.lifecycle.store import get_job
from jobs.people import audit
from jobs.views.artifacts import ArtifactView
from jobs.views.base import Listed
from jobs.views.media import MediaView

if TYPE_CHECKING:
    from jobs.copies.manifests import ArtifactsManifest, CopiedFile

routes = router("artifacts")

_UNSEEN = "The artifacts are on a host whose disk the api cannot read, and not in the store"
_REMOVED = "The artifacts were removed, by a person or after their retention"
_FILE = sent_files.SENT | problems(
    s404="No such job, or no such file",
    s409=_UNSEEN,
    s410=_REMOVED,
    s416="The range is outside the file",
)

_ARCHIVE: dict[int | str, dict[str, Any]] = {
    200: {"description": "The archive", "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}},
    **problems(s404="No such job, or no such file", s409=_UNSEEN, s410=_REMOVED),
}

ArtifactPath = Annotated[
    str,
    Path(
        json_schema_extra={"format": "artifact-path"},
        description="The artifact's path, as in the list",
        examples=["model.weights.h5"],
    ),
]

# Longer than other cursors: it holds the path of a file.
CursorOfPath = Annotated[
    CursorText | None, Query(max_length=10_000, description="The `next_cursor` of the previous page")
]


@routes.get(
    "/jobs/{job_id}/artifacts",
    response_model=Listed[ArtifactView],
    responses=UNCHANGED | problems(s404="No such job", s409=_UNSEEN),
)
async def list_artifacts(
    job_id: JobId,
    services: ServicesHere,
    limit: PageLimit = 100,
    cursor: CursorOfPath = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """List the artifacts of a job, sorted by path. Artifacts of jobs that ended long ago are removed."""
    of_job = await _artifacts_of(services, job_id)
    page = await run_in_threadpool(_page, services, job_id, of_job, limit=limit, cursor=cursor)
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


@routes.get(
    "/jobs/{job_id}/media",
    response_model=Listed[MediaView],
    responses=UNCHANGED | problems(s404="No such job", s409=_UNSEEN),
)
async def list_media(
    job_id: JobId,
    services: ServicesHere,
    limit: PageLimit = 100,
    cursor: CursorOfPath = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """List the pictures, sounds, histograms, tables and curves of a job, with their steps, sorted by name.

    They are artifacts with paths `media/NAME/STEP.ENDING`. Download them as such.
    """
    of_job = await _artifacts_of(services, job_id)
    page = await run_in_threadpool(_media_page, services, job_id, of_job, limit=limit, cursor=cursor)
    return answer_or_304(page, if_none_match)


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


@routes.get(
    "/jobs/{job_id}/artifacts.tar",
    response_class=Response,
    responses=_ARCHIVE,
)
async def download_artifacts(
    job_id: JobId,
    services: ServicesHere,
    path: Annotated[
        list[Annotated[str, Field(json_schema_extra={"format": "artifact-path"})]],
        Query(
            description="The path of a file, as in the list; repeat it for several. Without it: all files",
            max_length=500,
        ),
    ] = [],  # noqa: B006
) -> Response:
    """Download several artifacts, or all of them, as one tar archive, in a folder named like the job's id.

    If a file is removed during the download, the connection breaks.
    """
    place = await run_in_threadpool(_place, services, job_id)
    if place.removed_at is not None:
        raise ArtifactsRemoved(job_id, place.removed_at)
    manifest = await _stored(services, place, job_id)
    known = {file.path for file in await _files_of(services, place, job_id, manifest)}
    for each in path:
        if each not in known:
            raise ArtifactNotFound(each)

    @asynccontextmanager
    async def opened(path: str) -> AsyncIterator[tuple[Artifact, AsyncIterator[bytes]]]:
        if manifest is not None:
            copy = _copy_in(manifest, path)
            content = await services.store.pieces(copy.key, range(copy.bytes))
            if content is None:
                raise BrokenOff(f"the copy of {path} is gone")
            yield sent_files.as_artifact(copy), content
            return
        file = await run_in_threadpool(_opened, services, place, job_id, path)
        try:
            yield file.artifact, disk_chunks(file.descriptor, range(file.artifact.bytes))
        finally:
            os.close(file.descriptor)

    return Archive(job_id, sorted(set(path) or known), opened)


@routes.get(
    "/jobs/{job_id}/artifacts/{path:path}",
    response_class=Response,
    responses=_FILE,
)
async def download_artifact(job_id: JobId, path: ArtifactPath, services: ServicesHere, wanted: WantedHere) -> Response:
    """Download an artifact, or a range of its bytes.

    If the file is replaced during the download, the old content is still sent to its end.
    """
    place = await run_in_threadpool(_place_of_file, services, job_id, path)
    manifest = await _stored(services, place, job_id)
    if manifest is None:
        file = await run_in_threadpool(_opened, services, place, job_id, path)
        return sent_files.from_disk(file, wanted)

    async def find_again() -> "CopiedFile":
        return _copy_in(await _stored(services, place, job_id), path)

    return await sent_files.from_store(services.store, _copy_in(manifest, path), wanted, find_again)


@routes.head("/jobs/{job_id}/artifacts/{path:path}", include_in_schema=False)
async def look_at_artifact(
    job_id: JobId, path: ArtifactPath, services: ServicesHere, redirect: Redirect = False
) -> Response:
    """Get the headers of a download. It is never redirected: an address at the store is for GET only."""
    del redirect
    place = await run_in_threadpool(_place_of_file, services, job_id, path)
    manifest = await _stored(services, place, job_id)
    if manifest is not None:
        return sent_files.headers_of(sent_files.as_artifact(_copy_in(manifest, path)))
    file = await run_in_threadpool(_opened, services, place, job_id, path)
    os.close(file.descriptor)
    return sent_files.headers_of(file.artifact)


def _page(
    services: Services, job_id: str, of_job: Sequence[Artifact], *, limit: int, cursor: str | None
) -> Page[Artifact]:
    of = f"artifacts {job_id}"
    with services.sessions() as session:
        return cursors.part_of(session, of_job, limit=limit, cursor=cursor, of=of, key=lambda artifact: artifact.path)


def _media_page(
    services: Services, job_id: str, of_job: Sequence[Artifact], *, limit: int, cursor: str | None
) -> Listed[MediaView]:
    of, media = f"media {job_id}", media_among(of_job)
    with services.sessions() as session:
        page = cursors.part_of(session, media, limit=limit, cursor=cursor, of=of, key=lambda each: each.key)
    paths = {artifact.path for artifact in of_job}
    return Listed[MediaView](items=[each.view(paths) for each in page.items], next_cursor=page.next_cursor)


async def _artifacts_of(services: Services, job_id: str) -> Sequence[Artifact]:
    place = await run_in_threadpool(_place, services, job_id)
    if place.removed_at is not None:
        return []
    return await _files_of(services, place, job_id, await _stored(services, place, job_id))


async def _files_of(
    services: Services, place: ArtifactPlace, job_id: str, manifest: "ArtifactsManifest | None"
) -> Sequence[Artifact]:
    if manifest is None:
        return await run_in_threadpool(_on_disk, services, place, job_id)
    return [sent_files.as_artifact(copy) for copy in manifest.files if _can_be_asked_for(copy.path)]


async def _stored(services: Services, place: ArtifactPlace, job_id: str) -> "ArtifactsManifest | None":
    """What the store has of the job. None: nothing, or it is not asked, because this machine's disk knows better."""
    if not services.store.is_set or place.host is None:
        return None
    folder = artifact_files.artifacts_dir(services.settings.runs_dir, job_id)
    if place.host == services.settings.host and await run_in_threadpool(folder.is_dir):
        return None
    return await services.store.artifacts(job_id)


def _copy_in(manifest: "ArtifactsManifest | None", path: str) -> "CopiedFile":
    for copy in manifest.files if manifest is not None else ():
        if copy.path == path:
            return copy
    raise ArtifactNotFound(path)


def _can_be_asked_for(path: str) -> bool:
    try:
        return bool(artifact_files.parts_of(path))
    except ArtifactNotFound:
        return False


def _place(services: Services, job_id: str) -> ArtifactPlace:
    with services.sessions() as session:
        return artifact_place(session, job_id)


def _place_of_file(services: Services, job_id: str, path: str) -> ArtifactPlace:
    """Where the job's artifacts are. Raises that they were removed, or that no artifact can have this path."""
    place = _place(services, job_id)
    artifact_files.parts_of(path)
    if place.removed_at is not None:
        raise ArtifactsRemoved(job_id, place.removed_at)
    return place


def _on_disk(services: Services, place: ArtifactPlace, job_id: str) -> Sequence[Artifact]:
    try:
        return artifact_files.listed(services.settings.runs_dir, job_id)
    except ArtifactsUnseen:
        if place.host in (None, services.settings.host):
            return []
        raise _elsewhere(services, job_id, place.host) from None


def _opened(services: Services, place: ArtifactPlace, job_id: str, path: str) -> OpenArtifact:
    try:
        return artifact_files.opened(services.settings.runs_dir, job_id, path)
    except ArtifactsUnseen:
        if place.host in (None, services.settings.host):
            raise ArtifactNotFound(path) from None
        raise _elsewhere(services, job_id, place.host) from None


def _elsewhere(services: Services, job_id: str, host: str | None) -> Problem:
    detail = f"they are on host {host}, in runs/{job_id}/artifacts below its HORA_HOME; the api cannot read that disk"
    if services.store.is_set:
        detail += ", and their copies are not in the store yet"
    return Problem(409, "artifacts-elsewhere", "Artifacts lie elsewhere", detail)
