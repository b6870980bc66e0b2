"""Datasets: register, look up, remove; and the uploads that some are made of."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hora.errors import Json
from hora.service.calls import Calls, key_header
from hora.service.transport import at
from hora.service.waiting import wait_for_end

_OCTETS = {"Content-Type": "application/octet-stream"}


class DatasetCalls(Calls):
    """What is asked of datasets and uploads."""

    def datasets(self, *, page_size: int = 100) -> Iterator[Json]:
        """The datasets that a spec can name, by name, each with its newest version."""
        yield from self._wire.pages(at("datasets"), {"limit": page_size})

    def dataset(self, name: str) -> Json:
        """One dataset with its newest versions, as `{name, description, builtin, newest_ready, items}`."""
        return self._wire.document("GET", at("datasets", name))

    def dataset_version(self, name: str, version: int) -> Json:
        """One version of a dataset."""
        return self._wire.document("GET", at("datasets", name, "versions", str(version)))

    def register_dataset(self, document: Mapping[str, Any], *, idempotency_key: str | None = None) -> Json:
        """Register data as the next version of a name: `{name, source}` or `{name, upload}`, and how to read it.

        The same key gives the same version again.
        """
        headers = key_header(idempotency_key)
        return self._wire.document("POST", at("datasets"), json=dict(document), headers=headers, again=True)

    def remove_dataset(self, name: str, version: int) -> None:
        """Remove one version."""
        self._wire.send("DELETE", at("datasets", name, "versions", str(version)))

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
        path, told = at("datasets", name, "versions", str(version)), f"{name}@{version}"

        def look(etag: str | None) -> tuple[Json | None, str | None]:
            seen, tag = self._wire.newer(path, etag)
            return (None if seen is None else {"id": told, **seen}), tag

        seen = wait_for_end(
            look, told, noun="dataset", ended=lambda seen: seen["status"] != "validating", on_update=on_update,
            timeout_s=timeout_s, period_s=period_s,
        )  # fmt: skip
        return {field: value for field, value in seen.items() if field != "id"}

    def start_upload(self, *, filename: str, size_bytes: int, sha256: str | None = None) -> Json:
        """Begin an upload; its `chunk_bytes` is the most that a piece may have."""
        asked = {"filename": filename, "size_bytes": size_bytes, "sha256": sha256}
        return self._wire.document("POST", at("uploads"), json=asked)

    def uploads(self, *, page_size: int = 100) -> Iterator[Json]:
        """The caller's own uploads that became no dataset yet."""
        yield from self._wire.pages(at("uploads"), {"limit": page_size})

    def upload(self, upload_id: str) -> Json:
        """One upload; its next piece begins at `received_bytes`."""
        return self._wire.document("GET", at("uploads", upload_id))

    def send_piece(self, upload_id: str, offset: int, piece: bytes) -> Json:
        """Send the piece of an upload that begins at `offset`; how the upload is after it. Sending it twice is fine."""
        query = {"offset": offset}
        path = at("uploads", upload_id, "content")
        return self._wire.document("PUT", path, params=query, content=piece, headers=_OCTETS, again=True)

    def remove_upload(self, upload_id: str) -> None:
        """Give an upload up. Asking twice does no harm."""
        self._wire.send("DELETE", at("uploads", upload_id), again=True)
