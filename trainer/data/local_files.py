"""The files of this host as a filesystem of fsspec that opens regular files only. Made by `trainer.data.location`.

People can put anything into a folder of data. Opening a named pipe would wait for its writer.
"""

import shutil
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from jobs.runtime.files import open_regular


class RegularFiles(LocalFileSystem):  # type: ignore[misc]
    """Opens files for reading, and raises `NotRegular` for everything else that has a name."""

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        return open(open_regular(self._strip_protocol(path)), mode)

    def get_file(self, path: str, target: str, **options: Any) -> None:
        """Copy a file of this host, as `DiskCache` does."""
        with self._open(path) as file, open(target, "wb") as copy:
            shutil.copyfileobj(file, copy, 4 * 1024 * 1024)
