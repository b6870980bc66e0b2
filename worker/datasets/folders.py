"""The folder `settings.datasets`, with uploads and the datasets made from them, for workers.

    .uploads/ID             the bytes of an upload, which the api writes
    .unpacking/ID.ATTEMPT   where a validation works; ID is that of the version's row
    .fetching/HOST/ID       where a host makes a dataset again from its upload in the store
    NAME/VERSION/...        a dataset; it is never changed

Used by `worker.datasets.validator`, and by `worker.retention` to remove files that are not needed any more.
"""

import errno
import logging
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from jobs.data import host_datasets, uploads, validation
from jobs.db.engine import Sessions
from jobs.model.dataset_names import NAME
from jobs.runtime.files import make_private
from jobs.runtime.settings import Settings

_log = logging.getLogger(__name__)

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

    def fetching(self, host: str, version_id: int) -> Path:
        """A new folder in which a host makes a version again. What an earlier try left there is removed."""
        folder = self._folder / ".fetching" / host / str(version_id)
        shutil.rmtree(folder, ignore_errors=True)
        make_private(folder)
        return folder

    def remove_fetching(self, host: str) -> None:
        """Remove what a worker that died left while it fetched."""
        shutil.rmtree(self._folder / ".fetching" / host, ignore_errors=True)

    def has(self, name: str, version: int) -> bool:
        """Whether a dataset is here. It is whole then: it comes to its place in one step."""
        return (self._folder / name / str(version)).is_dir()

    def place(self, content: Path, name: str, version: int) -> None:
        """Move the unpacked files to their place, unless another host that shares the folder was faster."""
        target = self._folder / name / str(version)
        make_private(target.parent)
        try:
            content.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise

    def take_away(self, host: str, name: str, version: int) -> Path | None:
        """Move a dataset in one step to where it can be removed. None if it is not here."""
        with suppress(FileNotFoundError):
            aside = self.fetching(host, 0) / f"{name}-{version}"
            (self._folder / name / str(version)).rename(aside)
            return aside
        return None

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

    def __init__(self, sessions: Sessions, settings: Settings) -> None:
        self._sessions = sessions
        self._settings = settings
        self._files = DatasetFiles(settings.datasets)

    def remove_some(self) -> bool:
        """Check the whole folder. Returns False, because nothing is left for this pass. Files without a row stay."""
        files, versions_by_name = self._files, self._files.versions()
        scratches = files.scratches()
        with self._sessions.begin() as session:
            uploads.remove_stale(session, after_days=self._settings.keep_uploads_days)
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
        self._remove_unused(versions_by_name)
        return False

    def _remove_unused(self, versions_by_name: Mapping[str, Sequence[int]]) -> None:
        """Remove what no job needed for days and can be fetched from the store again."""
        with self._sessions() as session:
            unused = host_datasets.unused(session, versions_by_name, keep_days=self._settings.keep_files_days)
        for version_id, name, version in unused:
            with self._sessions.begin() as session:
                if not host_datasets.release(session, version_id):
                    continue
            # A job that was submitted since may have found the files. It holds them by a row.
            with self._sessions.begin() as session:
                aside = None
                if host_datasets.is_released(session, version_id):
                    aside = self._files.take_away(self._settings.host, name, version)
            if aside is not None:
                shutil.rmtree(aside, ignore_errors=True)
                _log.info("dataset %s@%d was not used for long and is removed here", name, version)


def _entries_in(folder: Path) -> Iterable[Path]:
    """The entries of a folder without links."""
    try:
        with os.scandir(folder) as entries:
            return [Path(entry.path) for entry in entries if not entry.is_symlink()]
    except (FileNotFoundError, NotADirectoryError):
        return []
