"""The S3 server of the tests, and the faults in front of it that `worker/copies/test_faults.py` does not count."""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import pytest
from aiohttp import ClientError
from botocore.exceptions import BotoCoreError

from tests.s3 import S3Server, s3_server
from tests.store_faults import FaultyLink, faulty
from tests.waiting import slowdown, until

ROOT = "hora-tests/store"
PART_BYTES = 5 * 1024 * 1024
LOST = (OSError, BotoCoreError, ClientError)  # what s3fs raises, according to how far it came
BIG = os.urandom(2 * PART_BYTES + 1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def link(server: S3Server) -> Iterator[FaultyLink]:
    with faulty(server.endpoint) as link:
        yield link


def client(options: dict[str, Any], **config: Any) -> Any:
    """A client that tries everything once."""
    limits = {"retries": {"total_max_attempts": 1}, "connect_timeout": 5, "read_timeout": 60}
    files = fsspec.filesystem(
        "s3", **options, config_kwargs=limits | config, skip_instance_cache=True, use_listings_cache=False
    )
    files.retries = 1
    return files


def fails(request: Callable[[], object]) -> bool:
    try:
        request()
    except LOST:
        return True
    return False


@pytest.fixture
def direct(server: S3Server) -> Any:
    return client(server.options)


@pytest.fixture
def through(server: S3Server, link: FaultyLink) -> Any:
    return client(server.options_at(link.endpoint))


def test_a_slow_line_is_shared_by_all_parts(link: FaultyLink, through: Any, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(BIG)
    link.slow(20_000_000)
    began = time.monotonic()
    through.put_file(str(tmp_path / "big"), f"{ROOT}/slow", chunksize=PART_BYTES, max_concurrency=4)
    assert time.monotonic() - began > len(BIG) / 20_000_000
    began = time.monotonic()
    assert through.cat_file(f"{ROOT}/slow") == BIG
    assert time.monotonic() - began > len(BIG) / 20_000_000


def test_an_answer_that_is_cut_is_still_done(link: FaultyLink, server: S3Server, direct: Any) -> None:
    files = client(server.options_at(link.endpoint))
    link.fail(1.0, seed=1)
    until(lambda: fails(lambda: files.pipe_file(f"{ROOT}/done", b"1")) and link.seen["answer cut"], what="a cut answer")
    assert direct.cat_file(f"{ROOT}/done") == b"1"


def test_a_cut_line_ends_transfers_until_it_is_mended(link: FaultyLink, through: Any, direct: Any) -> None:
    link.slow(100_000)
    with ThreadPoolExecutor(1) as pool:
        transfer = pool.submit(fails, lambda: through.pipe_file(f"{ROOT}/cut", BIG))
        until(lambda: link.under_way, what="a transfer")
        link.cut()
        assert transfer.result(10 * slowdown())
    assert fails(lambda: through.find(ROOT))
    assert not direct.exists(f"{ROOT}/cut")
    link.normal()
    through.pipe_file(f"{ROOT}/cut", BIG)
    assert direct.cat_file(f"{ROOT}/cut") == BIG
