"""Data at URLs: on a web server, and the drivers with which workers open them."""

import re
from pathlib import Path

import fsspec
import pytest

from bench import web
from tests import tfrecords
from tests.datasets import one_of_each_format, open_dataset
from trainer.errors import BadData


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data root with one of each format."""
    root = tmp_path_factory.mktemp("data")
    for number in (0, 1):
        examples = [tfrecords.example(x=[float(n), 1.0], label=n % 2) for n in range(20 * number, 20 * number + 20)]
        tfrecords.write(root / "records" / f"{number}.tfrecord", examples)
    return one_of_each_format(root)


@pytest.mark.parametrize(
    ("source", "cache"),
    [
        ("a.npz", "none"),
        ("idx", "none"),
        ("table.parquet", "none"),
        ("tables", "disk"),
        ("images", "disk"),
        ("records", "none"),
        ("records", "disk"),
    ],
)
def test_a_dataset_on_a_web_server_has_the_facts_and_rows_of_one_on_disk(
    root: Path, tmp_path: Path, source: str, cache: str
) -> None:
    here = open_dataset(source, tmp_path, data_roots=[str(root)])
    with web.serving(root, bytes_per_s=1e9) as url:
        there = open_dataset({"source": f"{url}/{source}", "cache": cache}, tmp_path, data_roots=[url])
        assert there.facts == here.facts
        for one, two in zip(*(each.train.rows(0, len(each.train)) for each in (here, there)), strict=True):
            assert (one.features == two.features).all()
            assert (one.labels == two.labels).all()
        with pytest.raises(BadData, match="there is nothing at 'http://"):
            open_dataset(f"{url}/gone/{source}", tmp_path, data_roots=[url])
    copies = [path for path in (tmp_path / "cache").glob("*") if path.name not in {"lock", "used"}]
    assert bool(copies) == (cache == "disk")


ROOT = Path(__file__).parents[3]
DRIVERS = {"s3": "s3fs", "gs": "gcsfs", "abfs": "adlfs", "http": "aiohttp", "https": "aiohttp"}


# Google's packages announce the end of each Python a year ahead.
@pytest.mark.filterwarnings("ignore:You are using a Python version:FutureWarning")
@pytest.mark.parametrize(("protocol", "driver"), DRIVERS.items())
def test_a_worker_can_open_urls_of_each_protocol(protocol: str, driver: str) -> None:
    assert protocol in fsspec.get_filesystem_class(protocol).protocol
    for packages in ("worker.txt", "worker-gpu.txt"):
        assert re.search(rf"^{driver}==", (ROOT / "requirements" / packages).read_text(), re.MULTILINE), packages
