"""Archives of code: store one that was uploaded, look at it, and get its bytes."""

from collections.abc import Iterator

from hora.errors import Json
from hora.service.calls import Calls
from hora.service.transport import api_path

_CHUNK_BYTES = 1024 * 1024


class CodeCalls(Calls):
    """The requests about archives of code. `hora.service.sending_code` sends one, and fetches one into a folder."""

    def store_code(self, upload_id: str) -> Json:
        """Store a complete upload as code, and return what is in it. The upload is used up."""
        return self._wire.document("POST", api_path("code"), json={"upload": upload_id})

    def code(self, digest: str) -> Json:
        """What is in an archive of code."""
        return self._wire.document("GET", api_path("code", digest))

    def code_text(self, digest: str, path: str) -> str:
        """The text of a file in an archive of code."""
        with self._wire.download(api_path("code", digest, "files", *path.split("/")), {}) as answer:
            return answer.read().decode()

    def code_difference(self, digest: str, other: str) -> Json:
        """The files that differ between two archives of code, with their lines."""
        return self._wire.document("GET", api_path("code", digest, "diff", other))

    def code_bytes(self, digest: str) -> Iterator[bytes]:
        """The bytes of an archive: a .tar.gz, .tar or .zip. They can break off, with `ServiceUnavailable`."""
        with self._wire.download(api_path("code", digest, "archive"), {}) as answer:
            yield from answer.iter_bytes(_CHUNK_BYTES)
