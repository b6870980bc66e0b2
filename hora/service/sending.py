"""Sends cargo to the service in pieces, and goes on with an upload that was cut off. Used by `hora.cli.datasets`."""

import time
from collections.abc import Callable

from hora.errors import Conflict, Json, ServiceUnavailable
from hora.service import Service
from hora.service.cargo import Cargo

_PATIENCE_S = 60.0  # with a service that does not answer


def send(service: Service, cargo: Cargo, on_progress: Callable[[int], None]) -> Json:
    """Upload all of it; the upload, complete. `on_progress` gets how many bytes the service has.

    Of uploads that were begun before, the one with the same name and size is gone on with.
    """
    upload = _begun_before(service, cargo) or service.start_upload(filename=cargo.filename, size_bytes=cargo.size_bytes)
    upload_id, last_answer_at = upload["id"], time.monotonic()
    while upload["received_bytes"] < cargo.size_bytes:
        on_progress(upload["received_bytes"])
        piece = cargo.read(upload["received_bytes"], upload["chunk_bytes"])
        try:
            upload = service.send_piece(upload_id, upload["received_bytes"], piece)
            last_answer_at = time.monotonic()
        except (ServiceUnavailable, Conflict):
            if time.monotonic() - last_answer_at > _PATIENCE_S:
                raise
            time.sleep(1)
            upload = service.upload(upload_id)  # it knows how far this has come
    on_progress(cargo.size_bytes)
    return upload


def _begun_before(service: Service, cargo: Cargo) -> Json | None:
    wanted = (cargo.filename, cargo.size_bytes)
    return next((one for one in service.uploads() if (one["filename"], one["size_bytes"]) == wanted), None)
