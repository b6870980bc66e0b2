"""What jobs left: list it, and fetch it to this machine's disk."""

from collections.abc import Callable, Iterator
from pathlib import Path

from hora.errors import Json
from hora.service.calls import Calls
from hora.service.transport import at


class ArtifactCalls(Calls):
    """What is asked of artifacts."""

    def artifacts(self, job_id: str, *, page_size: int = 500) -> Iterator[Json]:
        """The files that a job left, by their paths: `{path, bytes, modified_at, media_type}`."""
        yield from self._wire.pages(at("jobs", job_id, "artifacts"), {"limit": page_size})

    def download_artifact(
        self, job_id: str, path: str, into: Path | str, *, on_bytes: Callable[[int], None] | None = None
    ) -> Path:
        """Fetch a file that a job left to the file `into`. What a broken download left beside it is gone on with.

        `on_bytes` is told how many bytes there are so far. Raises `HoraError` where it cannot be written.
        """
        from hora.service.downloads import fetch_file

        return fetch_file(self._wire, job_id, path, Path(into), on_bytes or (lambda _: None))

    def download_artifacts(
        self, job_id: str, folder: Path | str, *, on_bytes: Callable[[str, int, int], None] | None = None
    ) -> list[Path]:
        """Fetch all that a job left to below `folder`, but for what is there already; says where each file is.

        `on_bytes` is told a file's path, how many of its bytes there are, and how many it has. Nothing is written
        outside of `folder`, whatever the names: `HoraError`.
        """
        from hora.service.downloads import fetch_all

        files = list(self.artifacts(job_id))
        return fetch_all(self._wire, job_id, files, Path(folder), on_bytes or (lambda *_: None))
