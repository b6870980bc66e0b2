"""The store: a place outside all hosts, named by `HORA_STORE`. Called by workers and the api, never by a rank.

Its files have keys: paths with slashes below the URL. A file appears whole or not at all, under every driver.

    StoreAway       the store does not answer, refuses, or stands still; the text is a sentence without secrets
    NotInStore      no file has this key
"""

import asyncio
import concurrent.futures
import os
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
from fsspec.callbacks import Callback

from jobs.copies.driver_errors import Masks, says_no_bucket
from jobs.copies.local_files import UNFINISHED, NotNeeded, copy_out, copy_whole, remove_folder, write_whole
from jobs.runtime.files import FULL
from jobs.runtime.settings import Settings

_PART_BYTES = 5 * 1024 * 1024  # a file travels in parts of this size, the least of S3, several at once
_PARTS_AT_ONCE = 4
_MOST_PARTS = 9_000  # S3 allows 10,000
_LEAST_BYTES_PER_S = 20_000  # a transfer that is slower than this stands still
_ANSWER_S = 60.0  # for an answer that has no size to speak of
_LISTING_S = 600.0  # for the names of all jobs: S3 gives a thousand at a time
_REMOVED_AT_ONCE = 16
_LOOK_S = 0.5
_CHUNK_BYTES = 1024 * 1024
# Without these an answer may be waited for without end. `HORA_STORE_OPTIONS` can say otherwise.
_S3_CONFIG = {
    "connect_timeout": 10, "read_timeout": 60, "retries": {"max_attempts": 4, "mode": "standard"},
    "signature_version": "s3v4",  # the older one signs no headers of an answer
}  # fmt: skip
_UPLOAD_OPTIONS: dict[str, dict[str, Any]] = {
    "s3": {"max_concurrency": _PARTS_AT_ONCE},
    "abfs": {"max_concurrency": _PARTS_AT_ONCE, "overwrite": True},
}


class StoreAway(RuntimeError):
    """The store does not answer, refuses, or stands still; the text is a sentence without secrets."""


class NotInStore(LookupError):
    """No file has this key."""


@dataclass(frozen=True)
class StoredFile:
    """A file in the store."""

    key: str
    bytes: int


def store_of(settings: Settings) -> "Store | None":
    """The store of this stack, if it has one. Raises `StoreAway` if its driver is not installed."""
    return None if settings.store is None else Store(settings.store, settings.store_driver_options)


class Store:
    """Files below a URL. Every method raises `StoreAway`.

    A transfer ends with `StoreAway` when `still_needed` says False, or when it stands still.
    """

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self.url = url
        self._scheme = url.partition("://")[0]
        self._masks = Masks(options)
        with self._in_words():
            self._files, self._root = fsspec.core.url_to_fs(url, **_with_defaults(self._scheme, options))

    def write(self, key: str, content: bytes) -> None:
        """Write a small file."""
        with self._in_words():
            if self._is_local:
                write_whole(Path(self._path(key)), lambda file: file.write(content))
            else:
                self._call("pipe_file", self._path(key), content, within_s=_ANSWER_S)

    def read(self, key: str) -> bytes:
        """The content of a small file. Raises `NotInStore`."""
        with self._in_words(key):
            content: bytes = self._call("cat_file", self._path(key), within_s=_ANSWER_S)
            return content

    def upload(self, key: str, source: str, *, still_needed: Callable[[], bool] = lambda: True) -> None:
        """Copy the file at a path of this host to the store, in parts that travel side by side."""
        size_bytes = os.path.getsize(source)
        part_bytes = max(_PART_BYTES, -(-size_bytes // _MOST_PARTS))
        options = dict(_UPLOAD_OPTIONS.get(self._scheme, {}))
        if self._scheme in ("s3", "gs"):
            options["chunksize"] = part_bytes
        with self._in_words():
            if self._is_local:
                copy_whole(Path(source), Path(self._path(key)), still_needed)
            else:
                self._transfer("put_file", source, self._path(key), part_bytes, still_needed, **options)

    def download(self, key: str, target: Path, *, still_needed: Callable[[], bool] = lambda: True) -> None:
        """Copy a file of the store to a new path of this host. What is there of it after an error is not whole.

        Raises `NotInStore`, and `OSError` if this host cannot write it.
        """
        target.touch(mode=0o600)
        with self._in_words(key, may_be_full=True):
            if self._is_local:
                copy_out(Path(self._path(key)), target, still_needed)
            else:
                self._transfer("get_file", self._path(key), str(target), _PART_BYTES, still_needed)

    def chunks(self, key: str, part: range) -> Iterator[bytes]:
        """The bytes of a part of a file, piece by piece. Raises `NotInStore`."""
        for start in range(part.start, part.stop, _CHUNK_BYTES):
            with self._in_words(key):
                end = min(start + _CHUNK_BYTES, part.stop)
                yield self._call("cat_file", self._path(key), start=start, end=end, within_s=_ANSWER_S)

    def files(self, prefix: str) -> list[StoredFile]:
        """The files whose keys begin with `prefix` and a slash, sorted by key.

        None of them is also what a store looks like that was emptied, or is not mounted: see `jobs.copies.marks`.
        """
        above = self._path(prefix)
        with self._in_words(prefix):
            try:
                infos = self._call("find", above, detail=True, within_s=_ANSWER_S)
            except FileNotFoundError:
                return []
        names = {path.removeprefix(self._root.rstrip("/") + "/"): info for path, info in infos.items()}
        return [
            StoredFile(key, int(info["size"] or 0))
            for key, info in sorted(names.items())
            if key.startswith(f"{prefix}/")  # some servers answer with the folder itself if it is empty
            and not key.rpartition("/")[2].startswith(UNFINISHED)
        ]

    def folders(self, prefix: str) -> list[str]:
        """The names of the folders right below a prefix, sorted. What is deeper is not read, however much it is."""
        with self._in_words(prefix):
            try:
                entries = self._call("ls", self._path(prefix), detail=True, within_s=_LISTING_S)
            except FileNotFoundError:
                return []
        paths = [entry["name"].rstrip("/") for entry in entries if entry["type"] == "directory"]
        return sorted(path.rpartition("/")[2] for path in paths)

    def remove(self, keys: Sequence[str]) -> None:
        """Remove files. Those that are gone already are left out."""
        for key in keys:
            with self._in_words(key):
                try:
                    self._call("rm_file", self._path(key), within_s=_ANSWER_S)
                except FileNotFoundError:
                    continue

    def remove_below(self, prefix: str) -> None:
        """Remove all files whose keys begin with `prefix` and a slash."""
        if self._is_local:
            with self._in_words():
                remove_folder(Path(self._path(prefix)))
            return
        keys = [file.key for file in self.files(prefix)]
        with ThreadPoolExecutor(_REMOVED_AT_ONCE, "removing") as pool:
            for start in range(0, len(keys), _REMOVED_AT_ONCE):  # an error ends it, and leaves the rest
                list(pool.map(self.remove, [[key] for key in keys[start : start + _REMOVED_AT_ONCE]]))

    def signed_url(self, key: str, *, expires_s: int, **answer_headers: str) -> str | None:
        """An address that downloads a file without credentials. None if the driver has none.

        S3 answers it with `answer_headers`, such as `ResponseContentDisposition`.
        """
        options = answer_headers if self._scheme == "s3" else {}
        with self._in_words(key):
            try:
                return str(self._files.sign(self._path(key), expiration=expires_s, **options))
            except NotImplementedError:
                return None

    @property
    def folder(self) -> Path | None:
        """Its folder, if it is one of this host. None: it is behind a network."""
        return Path(self._root) if self._is_local else None

    @property
    def bucket(self) -> tuple[str, str] | None:
        """The bucket of an S3 store, and what all keys in it begin with, such as `team/`. None for other drivers."""
        name, _, prefix = self._root.strip("/").partition("/")
        return (name, f"{prefix}/" if prefix else "") if self._scheme == "s3" else None

    def ask_bucket(self, operation: str) -> dict[str, Any]:
        """What S3 answers to an operation on the bucket. If it refuses, the answer has an `Error` with a `Code`."""
        assert self.bucket is not None
        with self._in_words():
            try:
                answer = self._call("call_s3", operation, Bucket=self.bucket[0], within_s=_ANSWER_S)
            except Exception as error:
                answer = getattr(error.__cause__, "response", None)
                if answer is None:
                    raise
            return dict(answer)

    @contextmanager
    def _in_words(self, key: str | None = None, *, may_be_full: bool = False) -> Iterator[None]:
        """Every driver has errors of its own. Say them as `StoreAway`, or `NotInStore` if a file was to be read.

        With `may_be_full` this host's disk is written: that it is full is not the store's fault.
        """
        try:
            yield
        except (StoreAway, NotInStore):
            raise
        except NotNeeded as error:
            raise StoreAway(str(error)) from None
        except FileNotFoundError as error:
            if key is not None and not says_no_bucket(error):
                raise NotInStore(key) from None
            raise StoreAway(self._masks.sentence(error)) from None
        except Exception as error:
            if may_be_full and isinstance(error, OSError) and error.errno in FULL:
                raise
            raise StoreAway(self._masks.sentence(error)) from None

    @property
    def _is_local(self) -> bool:
        return self._scheme == "file"

    def _path(self, key: str) -> str:
        return f"{self._root.rstrip('/')}/{key}"

    def _call(self, name: str, *arguments: Any, within_s: float, **options: Any) -> Any:
        """Call a method of the driver. It gets `within_s` for its answer."""
        if not self._files.async_impl:
            return getattr(self._files, name)(*arguments, **options)
        return self._wait(
            getattr(self._files, f"_{name}")(*arguments, **options), lambda now, began: now - began, within_s
        )

    def _transfer(
        self, name: str, source: str, target: str, part_bytes: int, still_needed: Callable[[], bool], **options: Any
    ) -> None:
        progress = _Progress()
        options["callback"] = progress
        if not self._files.async_impl:
            getattr(self._files, name)(source, target, **options)
            return

        def silent_s(now: float, _began: float) -> float:
            if not still_needed():
                raise NotNeeded
            return now - progress.moved_at

        # A part counts when all of it has arrived.
        within_s = _ANSWER_S + _PARTS_AT_ONCE * part_bytes / _LEAST_BYTES_PER_S
        self._wait(getattr(self._files, f"_{name}")(source, target, **options), silent_s, within_s)

    def _wait(
        self, answer: Coroutine[Any, Any, Any], silent_s: Callable[[float, float], float], within_s: float
    ) -> Any:
        """Wait for an answer in the driver's own loop, and end it when the driver was silent for `within_s`."""
        future = asyncio.run_coroutine_threadsafe(answer, self._files.loop)
        began = time.monotonic()
        try:
            while True:
                try:
                    return future.result(_LOOK_S)
                except concurrent.futures.TimeoutError:
                    if future.done():  # by now, or the error is the driver's own
                        return future.result()
                    if silent_s(time.monotonic(), began) > within_s:
                        raise StoreAway(f"the store stands still: nothing arrived for {within_s:.0f} s") from None
        finally:
            future.cancel()


class _Progress(Callback):  # type: ignore[misc]
    """When the last bytes arrived."""

    def __init__(self) -> None:
        super().__init__()
        self.moved_at = time.monotonic()

    def relative_update(self, inc: int = 1) -> None:
        """Called by the driver for bytes that arrived."""
        self.moved_at = time.monotonic()
        super().relative_update(inc)


def _with_defaults(scheme: str, options: dict[str, Any]) -> dict[str, Any]:
    defaults: dict[str, Any] = {"use_listings_cache": False, "skip_instance_cache": True}
    if scheme == "s3":
        defaults["config_kwargs"] = _S3_CONFIG | options.get("config_kwargs", {})
    if scheme == "file":
        defaults = {}
    return options | defaults
