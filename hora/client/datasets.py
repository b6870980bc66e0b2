"""Registered datasets and their versions."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from hora.client.resource import Resource, reads, reads_list, reads_pages, returns
from hora.errors import Json
from hora.service import Service
from jobs.views.data import DatasetLine, DatasetSampleView, DatasetVersions, DatasetVersionView, NewDataset

if TYPE_CHECKING:
    from hora.client.fields import DatasetFields, UploadFields


class Datasets(Resource):
    """`client.datasets`."""

    list = reads_pages(DatasetLine, Service.datasets)
    get = reads(DatasetVersions, Service.dataset)
    version = reads(DatasetVersionView, Service.dataset_version)
    samples = reads_list(DatasetSampleView, Service.dataset_samples)
    sample = returns(Service.dataset_sample)
    remove = returns(Service.remove_dataset)

    def register(
        self,
        dataset: NewDataset | Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
        **fields: "Unpack[DatasetFields]",
    ) -> DatasetVersionView:
        """Register data below the service's data roots: `name`, `source`, and how to read it. Then `wait` for it."""
        given = dataset.model_dump(mode="json", exclude_unset=True) if isinstance(dataset, NewDataset) else dataset
        made = self._service.register_dataset({**(given or {}), **fields}, idempotency_key=idempotency_key)
        return self._read(DatasetVersionView, made)

    def upload(
        self, path: Path | str, *, on_bytes: Callable[[int], None] | None = None, **fields: "Unpack[UploadFields]"
    ) -> DatasetVersionView:
        """Upload a file or a folder of this machine, and register it: `name`, and how to read it.

        An upload that broke off continues where it stopped. `on_bytes` gets the number of bytes sent so far.
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
        """Return a version when it has been validated, as `ready` or `invalid`. Raises `WaitTimeout`."""

        def update(document: Json) -> None:
            if on_update is not None:
                without_id = {key: value for key, value in document.items() if key != "id"}
                on_update(self._read(DatasetVersionView, without_id))

        document = self._service.wait_dataset(name, version, on_update=update, timeout_s=timeout_s)
        return self._read(DatasetVersionView, document)
