"""Uploads: sent in pieces, and resumed where one broke off. Used for datasets and by `hora.service.sending_code`."""

import time
from collections.abc import Callable

from hora.errors import Conflict, Json, ServiceUnavailable
from hora.service import Service
from hora.service.upload_sources import UploadSource

_AWAY_LIMIT_S = 60.0  # with a service that does not answer


def send_source(service: Service, source: UploadSource, on_progress: Callable[[int], None], **fields: str) -> Json:
    """Upload all of a source, and return the complete upload. `on_progress` gets how many bytes the service has.

    An earlier upload with the same name and size is resumed. A new one has these `fields` too.
    """
    upload = _earlier_upload(service, source) or service.start_upload(
        filename=source.filename, size_bytes=source.size_bytes, **fields
    )
    upload_id, last_answer_at = upload["id"], time.monotonic()
    while upload["received_bytes"] < source.size_bytes:
        on_progress(upload["received_bytes"])
        piece = source.read(upload["received_bytes"], upload["chunk_bytes"])
        try:
            upload = service.send_piece(upload_id, upload["received_bytes"], piece)
            last_answer_at = time.monotonic()
        except (ServiceUnavailable, Conflict):
            if time.monotonic() - last_answer_at > _AWAY_LIMIT_S:
                raise
            time.sleep(1)
            upload = service.upload(upload_id)  # it knows how far this has come
    on_progress(source.size_bytes)
    return upload


def _earlier_upload(service: Service, source: UploadSource) -> Json | None:
    for upload in service.uploads():
        if (upload["filename"], upload["size_bytes"]) == (source.filename, source.size_bytes):
            return upload
    return None
