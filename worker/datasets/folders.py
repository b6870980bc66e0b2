"""The folder of uploads and the datasets that they became, `settings.datasets`, as workers see it.

    .uploads/ID             the bytes of an upload, which the api writes
    .unpacking/ID.ATTEMPT   what a validation is at; ID is that of the version's row
    NAME/VERSION/...        a dataset; it is never changed

Used by `worker.datasets.validator`, and by `worker.retention` for what nothing needs any more.
"""

import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from jobs.data import uploads, validation
from jobs.db.engine import Sessions
from jobs.model.dataset_names import NAME

_UPLOAD_ID = re.compile(r"[0-9a-z]{1,32}")
_SCRATCH = re.compile(r"(?P<id>[0-9]{1,18})\.[0-9]{1,9}")
_NAME = re.compile(NAME)
_VERSION = re.compile(r"[1-9][0-9]{0,8}")


class DatasetFiles:
    """Paths below the folder, and what is done there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def archive(self, upload_id: str) -> Path:
        """The bytes of an upload."""
        return self._folder / uploads.FOLDER / upload_id

    def scratch(self, version_id: int, attempt: int) -> Path:
        """A folder for one attempt at a version; those of earlier attempts are removed."""
        for path in self._scratches():
            if path.name.partition(".")[0] == str(version_id):
                shutil.rmtree(path, ignore_errors=True)
        return self._folder / ".unpacking" / f"{version_id}.{attempt}"

    def put(self, content: Path, name: str, version: int) -> None:
        """Give what was unpacked its place; what an earlier attempt left there goes."""
        self.remove(name, version)
        place = self._folder / name / str(version)
        place.parent.mkdir(exist_ok=True)
        content.rename(place)

    def remove(self, name: str, version: int) -> None:
        """Remove a dataset's files."""
        shutil.rmtree(self._folder / name / str(version), ignore_errors=True)
        with suppress(OSError):  # others are there
            (self._folder / name).rmdir()

    def remove_archive(self, upload_id: str) -> None:
        """Remove the bytes of an upload."""
        self.archive(upload_id).unlink(missing_ok=True)

    def archives(self) -> list[str]:
        """The ids of uploads whose bytes are there."""
        return [path.name for path in _inside(self._folder / uploads.FOLDER) if _UPLOAD_ID.fullmatch(path.name)]

    def scratches(self) -> dict[int, list[Path]]:
        """What is left of attempts at versions, by the id of the version."""
        found: dict[int, list[Path]] = {}
        for path in self._scratches():
            found.setdefault(int(path.name.partition(".")[0]), []).append(path)
        return found

    def versions(self) -> dict[str, list[int]]:
        """The versions of which there are files, by name."""
        names = [path for path in _inside(self._folder) if _NAME.fullmatch(path.name)]
        return {
            path.name: [int(inner.name) for inner in _inside(path) if _VERSION.fullmatch(inner.name)] for path in names
        }

    def _scratches(self) -> list[Path]:
        return [path for path in _inside(self._folder / ".unpacking") if _SCRATCH.fullmatch(path.name)]


class OldDatasets:
    """What nothing needs any more in the folder: called by `worker.retention`."""

    def __init__(self, sessions: Sessions, folder: Path, *, keep_uploads_days: float) -> None:
        self._sessions = sessions
        self._files = DatasetFiles(folder)
        self._keep_uploads_days = keep_uploads_days

    def remove_some(self) -> bool:
        """Look at all of it; False, because nothing is left for this pass. What no row is known of stays."""
        files, there = self._files, self._files.versions()
        scratches = files.scratches()
        with self._sessions.begin() as session:
            uploads.remove_stale(session, after_days=self._keep_uploads_days)
        with self._sessions() as session:
            archives = uploads.unneeded(session, files.archives())
            gone = {name: validation.removable(session, name, versions) for name, versions in there.items()}
            left = validation.abandoned(session, list(scratches))
        for upload_id in archives:
            files.remove_archive(upload_id)
        for name, versions in gone.items():
            for version in versions:
                files.remove(name, version)
        for version_id in left:
            for path in scratches[version_id]:
                shutil.rmtree(path, ignore_errors=True)
        return False


def _inside(folder: Path) -> Iterable[Path]:
    """What lies in a folder, links left out."""
    try:
        with os.scandir(folder) as entries:
            return [Path(entry.path) for entry in entries if not entry.is_symlink()]
    except (FileNotFoundError, NotADirectoryError):
        return []
