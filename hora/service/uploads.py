"""Uploads: sent in pieces, and resumed where one broke off. Used for datasets and by `hora.service.sending_code`."""

import time
from collections.abc import Callable

from hora.errors import Conflict, Json, ProblemError, ServiceUnavailable, UnexpectedAnswer
from hora.service import Service
from hora.service.upload_sources import UploadSource

_AWAY_LIMIT_S = 60.0  # for a service, or its store, that does not answer
_PAUSE_S = 1.0


def send_source(service: Service, source: UploadSource, on_progress: Callable[[int], None], **fields: str) -> Json:
    """Upload all of a source, and return the complete upload. `on_progress` gets how many bytes the service has.

    An earlier upload with the same name and size is resumed. A new one has these `fields` too.
    """
    upload = _earlier_upload(service, source) or service.start_upload(
        filename=source.filename, size_bytes=source.size_bytes, **fields
    )
    upload_id, patience = upload["id"], Patience()
    while upload["received_bytes"] < source.size_bytes:
        received_bytes = upload["received_bytes"]
        on_progress(received_bytes)
        piece = source.read(received_bytes, upload["chunk_bytes"])
        try:
            upload = service.send_piece(upload_id, received_bytes, piece)
            patience.renew()
        except (ServiceUnavailable, ProblemError) as error:
            patience.wait_after(error)
            upload = patience.call(lambda: service.upload(upload_id))  # it knows how far this has come
        else:
            if upload["received_bytes"] <= received_bytes:
                raise UnexpectedAnswer("The service took a piece of the upload, and has not got it.")
    on_progress(source.size_bytes)
    return upload


class Patience:
    """How long a service that does not answer is asked again."""

    def __init__(self) -> None:
        self._give_up_at = 0.0
        self.renew()

    def renew(self) -> None:
        """Begin anew: it has answered."""
        self._give_up_at = time.monotonic() + _AWAY_LIMIT_S

    def wait_after(self, error: ServiceUnavailable | ProblemError) -> None:
        """Wait a little. Raises the error if it does not pass, or has lasted for too long."""
        if not _passes(error) or time.monotonic() > self._give_up_at:
            raise error
        time.sleep(_PAUSE_S)

    def call(self, request: Callable[[], Json]) -> Json:
        """The answer to a request that may be sent again. Raises its error if there is none for too long."""
        while True:
            try:
                return request()
            except (ServiceUnavailable, ProblemError) as error:
                self.wait_after(error)


def _passes(error: ServiceUnavailable | ProblemError) -> bool:
    if isinstance(error, Conflict):  # with an earlier request that this client does not wait for any more
        return error.type.endswith(("upload-busy", "wrong-offset"))
    return isinstance(error, ServiceUnavailable) or error.is_away


def _earlier_upload(service: Service, source: UploadSource) -> Json | None:
    for upload in service.uploads():
        if (upload["filename"], upload["size_bytes"]) == (source.filename, source.size_bytes):
            return upload
    return None
