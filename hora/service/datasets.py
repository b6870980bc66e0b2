"""Datasets: register, find, remove. And uploads, from which datasets are made."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx2 as httpx

from hora.errors import Json
from hora.service.calls import Calls, key_header
from hora.service.transport import api_path
from hora.service.waiting import wait_for_end

_OCTETS = {"Content-Type": "application/octet-stream"}
_PIECE_TIMEOUT = httpx.Timeout(30.0, read=320.0)  # seconds; the service may have to bring a piece to a slow store


class DatasetCalls(Calls):
    """The requests about datasets and uploads."""

    def datasets(self, *, page_size: int = 100) -> Iterator[Json]:
        """The datasets, sorted by name, each with its newest version."""
        yield from self._wire.pages(api_path("datasets"), {"limit": page_size})

    def dataset(self, name: str) -> Json:
        """One dataset with its newest versions, as `{name, description, builtin, newest_ready, items}`."""
        return self._wire.document("GET", api_path("datasets", name))

    def dataset_version(self, name: str, version: int) -> Json:
        """One version of a dataset."""
        return self._wire.document("GET", api_path("datasets", name, "versions", str(version)))

    def dataset_samples(self, name: str, version: int) -> list[Json]:
        """The samples of a version that can be looked at, as `{number, label, path}`."""
        return self._wire.items(api_path("datasets", name, "versions", str(version), "samples"), "items")

    def dataset_sample(self, name: str, version: int, number: int) -> bytes:
        """A sample, as PNG."""
        path = api_path("datasets", name, "versions", str(version), "samples", str(number))
        return self._wire.send("GET", path).content

    def register_dataset(self, document: Mapping[str, Any], *, idempotency_key: str | None = None) -> Json:
        """Register data as the next version of a dataset: `{name, source}` or `{name, upload}`, and how to read it.

        The same key gives the same version again.
        """
        headers = key_header(idempotency_key)
        return self._wire.document("POST", api_path("datasets"), json=dict(document), headers=headers, repeatable=True)

    def remove_dataset(self, name: str, version: int) -> None:
        """Remove one version."""
        self._wire.send("DELETE", api_path("datasets", name, "versions", str(version)))

    def wait_dataset(
        self,
        name: str,
        version: int,
        *,
        on_update: Callable[[Json], None] | None = None,
        timeout_s: float | None = None,
        period_s: float = 0.5,
    ) -> Json:
        """Return a version when it has been validated, as `ready` or `invalid`. Raises `WaitTimeout`."""
        path, full_name = api_path("datasets", name, "versions", str(version)), f"{name}@{version}"

        def look(etag: str | None) -> tuple[Json | None, str | None]:
            document, tag = self._wire.newer(path, etag)
            return (None if document is None else {"id": full_name, **document}), tag

        validated = wait_for_end(
            look, full_name, noun="dataset", ended=lambda found: found["status"] != "validating",
            on_update=on_update, timeout_s=timeout_s, period_s=period_s,
        )  # fmt: skip
        return {field: value for field, value in validated.items() if field != "id"}

    def start_upload(self, *, filename: str, size_bytes: int, sha256: str | None = None, purpose: str = "data") -> Json:
        """Begin an upload. Its `chunk_bytes` is the largest size of a piece. `purpose` is `data`, `code` or `run`."""
        document = {"filename": filename, "size_bytes": size_bytes, "sha256": sha256, "purpose": purpose}
        return self._wire.document("POST", api_path("uploads"), json=document)

    def uploads(self, *, page_size: int = 100) -> Iterator[Json]:
        """Your uploads that are not a dataset yet."""
        yield from self._wire.pages(api_path("uploads"), {"limit": page_size})

    def upload(self, upload_id: str) -> Json:
        """One upload. Its next piece begins at `received_bytes`."""
        return self._wire.document("GET", api_path("uploads", upload_id))

    def send_piece(self, upload_id: str, offset: int, piece: bytes) -> Json:
        """Send the piece of an upload that begins at `offset`, and return the upload. Safe to repeat."""
        query = {"offset": offset}
        path = api_path("uploads", upload_id, "content")
        return self._wire.document(
            "PUT", path, params=query, content=piece, headers=_OCTETS, repeatable=True, timeout=_PIECE_TIMEOUT
        )

    def remove_upload(self, upload_id: str) -> None:
        """Delete an upload. Safe to repeat."""
        self._wire.send("DELETE", api_path("uploads", upload_id), repeatable=True)
