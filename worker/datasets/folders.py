"""The folder `settings.datasets`, with uploads and the datasets made from them, for workers.

    .uploads/ID             the bytes of an upload, which the api writes
    .unpacking/ID.ATTEMPT   where a validation works; ID is that of the version's row
    NAME/VERSION/...        a dataset; it is never changed

Used by `worker.datasets.validator`, and by `worker.retention` to remove files that are not needed any more.
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
from jobs.runtime.files import make_private

_UPLOAD_ID = re.compile(r"[0-9a-z]{1,32}")
_SCRATCH = re.compile(r"(?P<id>[0-9]{1,18})\.[0-9]{1,9}")
_NAME = re.compile(NAME)
_VERSION = re.compile(r"[1-9][0-9]{0,8}")


class DatasetFiles:
    """Paths below the folder, and the operations there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def archive(self, upload_id: str) -> Path:
        """The bytes of an upload."""
        return self._folder / uploads.FOLDER / upload_id

    def scratch(self, version_id: int, attempt: int) -> Path:
        """A folder for one try to validate a version. The folders of earlier tries are removed."""
        for path in self._scratches():
            if path.name.partition(".")[0] == str(version_id):
                shutil.rmtree(path, ignore_errors=True)
        return self._folder / ".unpacking" / f"{version_id}.{attempt}"

    def put(self, content: Path, name: str, version: int) -> None:
        """Move the unpacked files to their place. Files of an earlier try there are removed."""
        self.remove(name, version)
        target = self._folder / name / str(version)
        make_private(target.parent)
        content.rename(target)

    def remove(self, name: str, version: int) -> None:
        """Remove a dataset's files."""
        shutil.rmtree(self._folder / name / str(version), ignore_errors=True)
        with suppress(OSError):  # other versions are there
            (self._folder / name).rmdir()

    def remove_archive(self, upload_id: str) -> None:
        """Remove the bytes of an upload. What cannot be removed now is left to a later pass."""
        with suppress(OSError):
            self.archive(upload_id).unlink()

    def archives(self) -> list[str]:
        """The ids of uploads whose bytes exist."""
        return [path.name for path in _entries_in(self._folder / uploads.FOLDER) if _UPLOAD_ID.fullmatch(path.name)]

    def scratches(self) -> dict[int, list[Path]]:
        """Folders that validations left, by the id of the version."""
        by_version: dict[int, list[Path]] = {}
        for path in self._scratches():
            by_version.setdefault(int(path.name.partition(".")[0]), []).append(path)
        return by_version

    def versions(self) -> dict[str, list[int]]:
        """The versions that have files, by name."""
        names = [path for path in _entries_in(self._folder) if _NAME.fullmatch(path.name)]
        return {
            path.name: [int(inner.name) for inner in _entries_in(path) if _VERSION.fullmatch(inner.name)]
            for path in names
        }

    def _scratches(self) -> list[Path]:
        return [path for path in _entries_in(self._folder / ".unpacking") if _SCRATCH.fullmatch(path.name)]


class OldDatasets:
    """Removes files in the folder that are not needed any more. Called by `worker.retention`."""

    def __init__(self, sessions: Sessions, folder: Path, *, keep_uploads_days: float) -> None:
        self._sessions = sessions
        self._files = DatasetFiles(folder)
        self._keep_uploads_days = keep_uploads_days

    def remove_some(self) -> bool:
        """Check the whole folder. Returns False, because nothing is left for this pass. Files without a row stay."""
        files, versions_by_name = self._files, self._files.versions()
        scratches = files.scratches()
        with self._sessions.begin() as session:
            uploads.remove_stale(session, after_days=self._keep_uploads_days)
        with self._sessions() as session:
            archives = uploads.unneeded(session, files.archives())
            removable = {
                name: validation.removable(session, name, versions) for name, versions in versions_by_name.items()
            }
            abandoned_ids = validation.abandoned(session, list(scratches))
        for upload_id in archives:
            files.remove_archive(upload_id)
        for name, versions in removable.items():
            for version in versions:
                files.remove(name, version)
        for version_id in abandoned_ids:
            for path in scratches[version_id]:
                shutil.rmtree(path, ignore_errors=True)
        return False


def _entries_in(folder: Path) -> Iterable[Path]:
    """The entries of a folder without links."""
    try:
        with os.scandir(folder) as entries:
            return [Path(entry.path) for entry in entries if not entry.is_symlink()]
    except (FileNotFoundError, NotADirectoryError):
        return []
