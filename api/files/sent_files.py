"""Answers with files that jobs left, from the disk of this machine or from the store. Called by their routes."""

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Header, Query, Response
from pydantic import Field

from api.deps import EntityTags, IfNoneMatch
from api.files.downloads import DiskDownload, Download, attachment, byte_range, download_headers, media_type_of
from api.polling.entity_tags import UNCHANGED, is_known
from api.problems import Problem
from api.store_calls import StoreCalls
from jobs.data.artifact_files import Artifact, OpenArtifact

if TYPE_CHECKING:
    from jobs.copies.manifests import CopiedFile

_BYTES = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
_LOCATION = {"Location": {"description": "The file at the store, for five minutes", "schema": {"type": "string"}}}
_SENT: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file", **_BYTES},
    206: {"description": "The requested range of its bytes", **_BYTES},
    307: {"description": "With `redirect`: where the store itself sends the file", "headers": _LOCATION},
}
SENT = _SENT | UNCHANGED

ByteRange = Annotated[str, Field(json_schema_extra={"format": "byte-range"})]
Redirect = Annotated[
    bool,
    Query(
        description="Answer 307 with an address at the store itself, if the file is there and the store can give one. "
        "The caller must reach the store"
    ),
]


@dataclass(frozen=True)
class Wanted:
    """What a request says of the file that it wants: which version, which bytes, and from where."""

    if_none_match: IfNoneMatch = None
    range_header: Annotated[
        ByteRange | None, Header(alias="Range", max_length=200, description="One range of bytes")
    ] = None
    if_range: Annotated[
        EntityTags | None,
        Header(alias="If-Range", max_length=200, description="The ETag that the range belongs to"),
    ] = None
    redirect: Redirect = False

    def unchanged(self, file: Artifact) -> Response | None:
        """304, if the caller has the file already."""
        if not is_known(file.etag, self.if_none_match):
            return None
        return Response(status_code=304, headers=download_headers(file))

    def part_of(self, file: Artifact) -> range | None:
        """The bytes to send; None: all. Raises `Problem`."""
        # A date never matches: two versions of a file within one second have the same.
        is_same_file = self.if_range is None or self.if_range == file.etag
        return byte_range(self.range_header, file.bytes) if is_same_file else None


WantedHere = Annotated[Wanted, Depends()]


def from_disk(file: OpenArtifact, wanted: Wanted) -> Response:
    """The answer with an open file. It closes the file."""
    try:
        unchanged = wanted.unchanged(file.artifact)
        if unchanged is None:
            return DiskDownload(file, wanted.part_of(file.artifact))
    except Problem:
        os.close(file.descriptor)
        raise
    os.close(file.descriptor)
    return unchanged


async def from_store(
    store: StoreCalls, copy: "CopiedFile", wanted: Wanted, find_again: Callable[[], Awaitable["CopiedFile"]]
) -> Response:
    """The answer with a file of the store, as a manifest names it.

    The file may go after the manifest was read, because a newer copy replaces it. Then `find_again` reads the manifest
    once more, or raises that the file is not in it now.
    """
    for is_first in (True, False):
        copy = copy if is_first else await find_again()
        file = as_artifact(copy)
        answer = wanted.unchanged(file) or await _sent(store, copy.key, file, wanted)
        if answer is not None:
            return answer
    await store.require_mark()
    raise Problem(404, "copy-lost", "Copy is lost", "the store has lost this file: its manifest names it")


async def _sent(store: StoreCalls, key: str, file: Artifact, wanted: Wanted) -> Response | None:
    """The answer with the bytes of a file, or the address of the file. None: it is gone."""
    part = wanted.part_of(file)
    if wanted.redirect:
        if await store.pieces(key, range(min(1, file.bytes))) is None:
            return None
        url = await store.signed_url(
            key,
            ResponseContentDisposition=attachment(file.path.rpartition("/")[2]),
            ResponseContentType=media_type_of(file.path),
        )
        if url is not None:
            return Response(status_code=307, headers={"Location": url, "Cache-Control": "no-store"})
    content = await store.pieces(key, range(file.bytes) if part is None else part)
    return None if content is None else Download(file, part, content)


def headers_of(file: Artifact) -> Response:
    """The answer to HEAD."""
    headers = download_headers(file) | {"Content-Length": str(file.bytes)}
    return Response(headers=headers, media_type=media_type_of(file.path))


def as_artifact(copy: "CopiedFile") -> Artifact:
    """A file of the store, as if it were on disk. Its tag says what is in it."""
    modified_at = copy.modified_at.replace(microsecond=0)  # as those on disk
    return Artifact(copy.path, copy.bytes, modified_at, f'"sha256-{copy.sha256}"')
