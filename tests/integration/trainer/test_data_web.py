"""Data behind a web server."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from bench import web
from tests.datasets import one_of_each_format, open_dataset
from tests.tables import collections, numbered, seen, write
from trainer.errors import BadData


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data root with one of each format."""
    from tests import tfrecords  # TensorFlow

    for number in (0, 1):
        examples = [tfrecords.example(x=[float(n), 1.0], label=n % 2) for n in range(20 * number, 20 * number + 20)]
        tfrecords.write(tmp_path / "records" / f"{number}.tfrecord", examples)
    return one_of_each_format(tmp_path)


@pytest.mark.parametrize("cache", ["none", "disk"])
def test_records_are_read_from_a_web_server_by_their_numbers(root: Path, cache: str) -> None:
    with serving_ranges(root) as url:
        train = open_dataset({"source": f"{url}/records", "cache": cache}, root, data_roots=[url]).train
        seen = [value for batch in train.rows(0, len(train)) for value in batch.features[:, 0].tolist()]
    assert len(set(seen)) == 36


@pytest.mark.parametrize("source", ["a.npz", "table.parquet", "tables", "images", "records"])
def test_a_dataset_on_a_web_server_has_the_same_facts_as_on_disk(root: Path, source: str) -> None:
    here = open_dataset(source, root, data_roots=[str(root)]).facts
    with web.serving(root, bytes_per_s=1e9) as url:
        assert open_dataset(f"{url}/{source}", root, data_roots=[url]).facts == here


class RangeHandler(SimpleHTTPRequestHandler):
    """Serves files, and parts of them."""

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        byte_range = self.headers.get("Range")
        if not byte_range or not path.is_file():
            super().do_GET()
            return
        start, stop = byte_range.removeprefix("bytes=").split("-")
        content = path.read_bytes()[int(start) : int(stop) + 1]
        self.send_response(206)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Say nothing."""


@pytest.fixture
def web_server(tmp_path: Path) -> Iterator[str]:
    """The address of a server of numbered rows in set/."""
    folder = tmp_path / "served"
    write(folder / "set" / "a.parquet", numbered(300), [100, 100, 100])
    write(folder / "set" / "b.parquet", numbered(200, first=300), [200])
    with serving_ranges(folder) as url:
        yield url


@contextmanager
def serving_ranges(folder: Path) -> Iterator[str]:
    """The address of a server of the files of a folder, and of parts of them."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(RangeHandler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("cache", ["none", "disk"])
def test_rows_are_read_from_a_web_server_and_missing_files_are_reported(
    web_server: str, tmp_path: Path, cache: str
) -> None:
    assert sorted(seen(f"{web_server}/set", web_server, cache=cache, cache_dir=tmp_path / "cache")) == list(range(500))
    copies = [path for path in (tmp_path / "cache").glob("*") if path.name not in {"lock", "used"}]
    assert len(copies) == (2 if cache == "disk" else 0)
    shutil.rmtree(tmp_path / "served" / "set")
    with pytest.raises(BadData, match="there is nothing at 'http://"):
        collections(f"{web_server}/set/a.parquet", web_server)
