"""Data that is registered under the name chips on host ha, and its rows. For the tests of the validators."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.data import uploads, versions
from jobs.db.engine import Sessions
from jobs.db.tables import DatasetVersion
from jobs.runtime.settings import Settings
from jobs.views.data import NewDataset, NewUpload
from worker.datasets.validator import Validator


def row_of(sessions: Sessions, row_id: int) -> DatasetVersion:
    with sessions() as session:
        return session.get_one(DatasetVersion, row_id)


@dataclass(frozen=True)
class Desk:
    """The versions of chips, and the host that validates them."""

    sessions: Sessions
    settings: Settings
    validator: Validator

    @property
    def data(self) -> Path:
        """The data root of the host."""
        return self.settings.home / "data"

    def register(self, **fields: Any) -> int:
        """Register a version. Returns the id of its row."""
        with self.sessions.begin() as session:
            return versions.register(session, NewDataset(name="chips", **fields), owner="ada").id

    def upload(self, archive: bytes, filename: str = "chips.zip", **fields: Any) -> int:
        """Put an archive where the api does, whole, and register it. Returns the id of its row."""
        with self.sessions.begin() as session:
            new = NewUpload(filename=filename, size_bytes=len(archive))
            upload = uploads.start(session, new, owner="ada", most_open=5)
            uploads.advance(session, upload.id, offset=0, size_bytes=len(archive))
        path = self.settings.datasets / uploads.FOLDER / upload.id
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(archive)
        return self.register(upload=upload.id, **fields)

    def row(self, row_id: int) -> DatasetVersion:
        return row_of(self.sessions, row_id)

    def validate(self) -> bool:
        """Validate a version. Returns whether there was one to do."""
        return self.validator.validate_one()

    def another(self, **settings: Any) -> Validator:
        """A new validator, with other settings."""
        return Validator(self.sessions, self.settings.model_copy(update=settings))
