"""Archives of code, which jobs name by their digest."""

from collections.abc import Callable
from pathlib import Path

from hora.client.resource import Resource, reads
from hora.service import Service
from jobs.views.code import CodeDifferenceView, CodeView


class Code(Resource):
    """`client.code`."""

    get = reads(CodeView, Service.code)
    diff = reads(CodeDifferenceView, Service.code_difference)

    def text(self, digest: str, path: str) -> str:
        """The text of a file in an archive of code, up to 512 KiB."""
        return self._service.code_text(digest, path)

    def send(self, folder: Path | str = ".", *, on_bytes: Callable[[int], None] | None = None) -> CodeView:
        """Send a folder of code: its `digest` is the `code` of a spec. What the service has is not sent again.

        `.gitignore` and `.horaignore` are honoured. A sending that broke off continues where it stopped. `on_bytes`
        gets the number of bytes sent so far. Raises `HoraError` if the folder cannot be sent.
        """
        from hora.service.code_folders import code_folder
        from hora.service.sending_code import send_code

        return self._read(CodeView, send_code(self._service, code_folder(Path(folder)), on_bytes or (lambda _: None)))

    def download(self, digest: str, folder: Path | str) -> Path:
        """Unpack an archive of code into a new folder, completely or not at all."""
        from hora.service.sending_code import fetch_code

        return fetch_code(self._service, digest, Path(folder))
