"""The S3 server of the tests, and the faults in front of it, as s3fs sees them."""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import fsspec
import httpx2
import pytest
from aiohttp import ClientError
from botocore.exceptions import BotoCoreError

from tests.s3 import S3Server, s3_server
from tests.store_faults import FaultyLink, faulty
from tests.waiting import slowdown, until

BUCKET = "hora-tests"
ROOT = f"{BUCKET}/store"
T = TypeVar("T")
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


def keys(files: Any, prefix: str) -> list[str]:
    listing = files.call_s3("list_objects_v2", Bucket=BUCKET, Prefix=prefix)
    return [entry["Key"] for entry in listing.get("Contents", [])]


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


def test_files_of_every_size_come_back(through: Any, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for size_bytes in (0, 1000, 30 * 1024 * 1024):
        source.write_bytes(os.urandom(size_bytes))
        through.put_file(str(source), f"{ROOT}/sizes/{size_bytes}", chunksize=PART_BYTES, max_concurrency=4)
        through.get_file(f"{ROOT}/sizes/{size_bytes}", str(target))
        assert through.info(f"{ROOT}/sizes/{size_bytes}")["size"] == size_bytes
        assert target.read_bytes() == source.read_bytes()
    part = through.cat_file(f"{ROOT}/sizes/{size_bytes}", start=PART_BYTES - 3, end=PART_BYTES + 4)
    assert part == source.read_bytes()[PART_BYTES - 3 : PART_BYTES + 4]


def test_keys_are_listed_and_removed(direct: Any) -> None:
    names = ["store/keys/a", "store/keys/a/b", "store/keys/a/ü +%.json"]  # a key may also be a folder
    for name in names:
        direct.pipe_file(f"{BUCKET}/{name}", name.encode())
    assert keys(direct, "store/keys/") == names
    assert [direct.cat_file(f"{BUCKET}/{name}") for name in names] == [name.encode() for name in names]
    direct.rm_file(f"{BUCKET}/{names[0]}")
    assert keys(direct, "store/keys/") == names[1:]
    with pytest.raises(FileNotFoundError):
        direct.cat_file(f"{BUCKET}/{names[0]}")
    direct.rm([f"{BUCKET}/{name}" for name in names[1:]])  # one request
    assert keys(direct, "store/keys/") == []


def test_more_keys_than_a_page_are_listed(direct: Any) -> None:
    direct.pipe({f"{ROOT}/many/{number:04}": b"" for number in range(1001)})
    assert len(direct.find(f"{ROOT}/many")) == 1001


@pytest.mark.parametrize("wrong", [{"key": "nobody"}, {"secret": "wrong"}])
def test_wrong_credentials_are_refused(server: S3Server, wrong: dict[str, str]) -> None:
    files = client(server.options | wrong)
    for request in (lambda: files.pipe_file(f"{ROOT}/evil", b"1"), lambda: files.find(ROOT)):
        with pytest.raises(PermissionError):
            request()
    assert httpx2.get(f"{server.endpoint}/{ROOT}/evil").status_code == 403


def test_a_signed_address_downloads_under_a_name(server: S3Server, link: FaultyLink) -> None:
    files = client(server.options_at(link.endpoint), signature_version="s3v4")
    files.pipe_file(f"{ROOT}/signed", b"0123456789")
    name = 'attachment; filename="a b.txt"'
    url = files.sign(f"{ROOT}/signed", expiration=600, ResponseContentDisposition=name)
    answer = httpx2.get(url, headers={"Range": "bytes=2-4"})
    assert (answer.status_code, answer.content, answer.headers["Content-Disposition"]) == (206, b"234", name)
    assert httpx2.get(url.replace("a%20b", "c")).status_code == 403
    short = files.sign(f"{ROOT}/signed", expiration=1)
    until(lambda: httpx2.get(short).status_code == 403, what="the end of a signed address")


def test_a_server_that_was_killed_comes_back_with_its_data(tmp_path: Path) -> None:
    with s3_server(tmp_path / "s3", bucket="another", prefix="") as server, faulty(server.endpoint) as link:
        assert server.url == "s3://another"
        direct, through = client(server.options), client(server.options_at(link.endpoint))
        through.pipe_file("another/kept", BIG)
        server.stop()
        assert fails(lambda: direct.cat_file("another/kept"))
        assert fails(lambda: through.cat_file("another/kept"))
        assert link.seen["broken"]
        server.start()
        assert direct.cat_file("another/kept") == through.cat_file("another/kept") == BIG
        assert direct.find("another") == ["another/kept"]


def test_a_slow_line_is_shared_by_all_parts(link: FaultyLink, through: Any, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(BIG)
    link.slow(20_000_000)
    began = time.monotonic()
    through.put_file(str(tmp_path / "big"), f"{ROOT}/slow", chunksize=PART_BYTES, max_concurrency=4)
    assert time.monotonic() - began > len(BIG) / 20_000_000
    began = time.monotonic()
    assert through.cat_file(f"{ROOT}/slow") == BIG
    assert time.monotonic() - began > len(BIG) / 20_000_000


def test_a_share_of_the_requests_fails_in_every_way(link: FaultyLink, through: Any) -> None:
    link.fail(1 / 3, seed=5)
    wrong = 0
    for number in range(30):
        name, content = f"{ROOT}/shaky/{number}", BIG[: 300_000 + number]
        _until_it_works(lambda name=name, content=content: through.pipe_file(name, content))
        wrong += _until_it_works(lambda name=name: through.cat_file(name)) != content
    assert not wrong
    failed = [link.seen[outcome] for outcome in ("refused", "half read", "answer cut")]
    assert min(failed) > 2, link.seen
    assert 0.2 < sum(failed) / link.seen.total() < 0.5


def _until_it_works(request: Callable[[], T]) -> T:
    while True:
        with suppress(*LOST):
            return request()


def test_the_same_seed_lets_the_same_requests_fail(server: S3Server) -> None:
    def outcomes(seed: int) -> list[bool]:
        with faulty(server.endpoint) as link, httpx2.Client() as client:
            link.fail(0.5, seed)
            return [_is_answered(client, f"{link.endpoint}/healthz") for _ in range(20)]

    assert outcomes(1) == outcomes(1) != outcomes(2)


def _is_answered(client: httpx2.Client, url: str) -> bool:
    with suppress(httpx2.TransportError):
        return client.get(url).is_success
    return False


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


def test_a_full_store_takes_nothing_but_reads_and_removes(link: FaultyLink, through: Any) -> None:
    through.pipe_file(f"{ROOT}/full/old", b"1")
    link.full()
    assert fails(lambda: through.pipe_file(f"{ROOT}/full/new", b"1"))
    assert fails(lambda: through.pipe_file(f"{ROOT}/full/new", BIG, chunksize=PART_BYTES))
    assert link.seen["full"] == 2
    assert through.cat_file(f"{ROOT}/full/old") == b"1"
    through.rm([f"{ROOT}/full/old"])
    link.normal()
    assert not through.exists(f"{ROOT}/full/new")
    through.pipe_file(f"{ROOT}/full/new", b"2")
    assert through.cat_file(f"{ROOT}/full/new") == b"2"
