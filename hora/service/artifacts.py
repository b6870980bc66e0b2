"""The files of jobs: list and download."""

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from hora.errors import Json
from hora.service.calls import Calls
from hora.service.transport import api_path


class ArtifactCalls(Calls):
    """The requests about artifacts."""

    def artifacts(self, job_id: str, *, page_size: int = 500) -> Iterator[Json]:
        """The files of a job, sorted by path: `{path, bytes, modified_at, media_type}`."""
        yield from self._wire.pages(api_path("jobs", job_id, "artifacts"), {"limit": page_size})

    def media(self, job_id: str, *, page_size: int = 500) -> Iterator[Json]:
        """What a job kept by step, sorted by name: `{name, kind, steps: [{step, path, bytes, ...}]}`."""
        yield from self._wire.pages(api_path("jobs", job_id, "media"), {"limit": page_size})

    def artifact_content(self, job_id: str, path: str) -> bytes:
        """The bytes of a file of a job."""
        with self._wire.download(api_path("jobs", job_id, "artifacts", *path.split("/")), {}) as answer:
            return answer.read()

    def remove_artifacts(self, job_id: str) -> None:
        """Remove the artifacts and checkpoints of a job that has ended."""
        self._wire.send("DELETE", api_path("jobs", job_id, "artifacts"))

    def download_artifact(
        self, job_id: str, path: str, into: Path | str, *, on_bytes: Callable[[int], None] | None = None
    ) -> Path:
        """Download a file of a job to the file `into`. An interrupted download continues where it stopped.

        `on_bytes` gets the number of bytes so far. Raises `HoraError` if `into` cannot be written.
        """
        from hora.service.downloads import fetch_file

        return fetch_file(self._wire, job_id, path, Path(into), on_bytes or (lambda _: None))

    def download_artifacts(
        self,
        job_id: str,
        folder: Path | str,
        *,
        patterns: Sequence[str] = (),
        on_bytes: Callable[[str, int, int], None] | None = None,
    ) -> list[Path]:
        """Download all files of a job into `folder`, except those that are there already. Returns their paths.

        With `patterns`, such as `checkpoints/*`, only the files whose path matches one of them. `on_bytes` gets a
        file's path, its number of bytes so far, and its size. A name that leads out of `folder` raises `HoraError`.
        """
        from hora.service.downloads import fetch_all

        files = [file for file in self.artifacts(job_id) if matches(file["path"], patterns)]
        return fetch_all(self._wire, job_id, files, Path(folder), on_bytes or (lambda *_: None))


def matches(path: str, patterns: Sequence[str]) -> bool:
    """Whether a path matches one of the patterns, or there is none. A `*` stands for any text, also with slashes."""
    return not patterns or any(fnmatchcase(path, pattern) for pattern in patterns)
