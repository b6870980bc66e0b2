"""Files of datasets, and the rows of their versions. For the tests of the validators."""

from collections.abc import Callable
from pathlib import Path

from jobs.db.engine import Sessions
from jobs.db.tables import DatasetVersion

Register = Callable[..., int]


def write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def row_of(sessions: Sessions, row_id: int) -> DatasetVersion:
    with sessions() as session:
        return session.get_one(DatasetVersion, row_id)
