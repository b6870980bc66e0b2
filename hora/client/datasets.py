"""Registered datasets and their versions."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hora.client.reading import read
from hora.errors import Json
from hora.service import Service
from jobs.views.data import DatasetLine, DatasetVersions, DatasetVersionView, NewDataset


class Datasets:
    """`client.datasets`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def list(self) -> Iterator[DatasetLine]:
        """The datasets that a spec can name, by name, each with its newest version."""
        return (read(DatasetLine, one) for one in self._service.datasets())

    def get(self, name: str) -> DatasetVersions:
        """One dataset with its newest versions."""
        return read(DatasetVersions, self._service.dataset(name))

    def version(self, name: str, version: int) -> DatasetVersionView:
        """One version of a dataset."""
        return read(DatasetVersionView, self._service.dataset_version(name, version))

    def register(
        self,
        dataset: NewDataset | Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> DatasetVersionView:
        """Register data below the service's data roots: `name`, `source`, and how to read it. `wait` for its end."""
        given = dataset.model_dump(mode="json", exclude_unset=True) if isinstance(dataset, NewDataset) else dataset
        made = self._service.register_dataset({**(given or {}), **fields}, idempotency_key=idempotency_key)
        return read(DatasetVersionView, made)

    def upload(
        self, path: Path | str, *, on_bytes: Callable[[int], None] | None = None, **fields: Any
    ) -> DatasetVersionView:
        """Send a file or a folder of this machine, and register it: `name`, and how to read it.

        What an upload that broke off has sent already is not sent again. `on_bytes` gets how much has been sent.
        """
        from hora.service.upload_sources import upload_source
        from hora.service.uploads import send_source

        sent = send_source(self._service, upload_source(Path(path)), on_bytes or (lambda _: None))
        return self.register(upload=sent["id"], **fields)

    def wait(
        self,
        name: str,
        version: int,
        *,
        timeout_s: float | None = None,
        on_update: Callable[[DatasetVersionView], None] | None = None,
    ) -> DatasetVersionView:
        """The version when it has been validated, as `ready` or `invalid`. Raises `WaitTimeout`."""

        def tell(seen: Json) -> None:
            if on_update is not None:
                on_update(read(DatasetVersionView, {key: value for key, value in seen.items() if key != "id"}))

        return read(DatasetVersionView, self._service.wait_dataset(name, version, on_update=tell, timeout_s=timeout_s))

    def remove(self, name: str, version: int) -> None:
        """Remove one version."""
        self._service.remove_dataset(name, version)
