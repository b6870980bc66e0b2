"""Sends archives of code, and fetches them into folders. Used by the command line and the client."""

import hashlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hora.errors import HoraError, Json, NotFound, ProblemError, ServiceUnavailable, UnexpectedAnswer
from hora.service import Service
from hora.service.code_folders import CodeSource, UnsendableCode
from hora.service.transport import PAUSES_S
from hora.service.uploads import Patience, send_source
from jobs.data.code_archives import BadArchive, unpack


def send_code(service: Service, source: CodeSource, on_progress: Callable[[int], None] = lambda _: None) -> Json:
    """Send an archive unless the service has it, and return what is in it. A sending that broke off is resumed.

    `on_progress` gets how many bytes the service has. Raises `UnsendableCode` with the largest files if it is too
    large.
    """
    try:
        return service.code(source.digest)
    except NotFound:
        pass
    try:
        upload = send_source(service, source, on_progress, sha256=source.digest, purpose="code")
    except ProblemError as problem:
        if {error.get("field") for error in problem.errors} != {"size_bytes"}:
            raise
        reason = f"The code has {source.size_bytes} bytes: {problem.errors[0].get('message')}."
        raise UnsendableCode(f"{reason}\n{source.largest_files()}") from None
    return _stored(service, source.digest, upload["id"])


def _stored(service: Service, digest: str, upload_id: str) -> Json:
    """Make code of an upload. If there is no answer, it may have been made all the same."""
    patience = Patience()
    while True:
        try:
            return service.store_code(upload_id)
        except (ServiceUnavailable, ProblemError) as error:
            patience.wait_after(error)
        try:
            return patience.call(lambda: service.code(digest))
        except NotFound:
            pass


def fetch_code(service: Service, digest: str, folder: Path) -> Path:
    """Unpack an archive into a new folder, completely or not at all. Raises `HoraError` if there is such a folder."""
    if folder.exists() or folder.is_symlink():
        raise HoraError(f"{folder} is there already: name a folder that does not exist.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".hora-", dir=folder.parent) as name:
            archive, unpacked = Path(name) / "archive", Path(name) / "code"
            _download(service, digest, archive)
            unpack(archive, unpacked)
            unpacked.rename(folder)
    except BadArchive as error:
        raise HoraError(f"The code {digest} cannot be unpacked: {error}.") from None
    except OSError as error:
        raise HoraError(f"{folder} cannot be written: {error.strerror or error}.") from error
    return folder


def _download(service: Service, digest: str, file: Path) -> None:
    for pause_s in (*PAUSES_S, None):
        sha256 = hashlib.sha256()
        try:
            with file.open("wb") as output:
                for chunk in service.code_bytes(digest):
                    sha256.update(chunk)
                    output.write(chunk)
            break
        except ServiceUnavailable:
            if pause_s is None:
                raise
            time.sleep(pause_s)
    if sha256.hexdigest() != digest:
        raise UnexpectedAnswer(f"The service sent other bytes than those of the code {digest}.")
