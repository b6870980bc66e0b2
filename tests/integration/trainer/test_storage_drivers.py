"""The drivers with which fsspec opens URLs are among the packages of every worker."""

import re
from pathlib import Path

import fsspec
import pytest

ROOT = Path(__file__).parents[3]
DRIVERS = {"s3": "s3fs", "gs": "gcsfs", "abfs": "adlfs", "http": "aiohttp", "https": "aiohttp"}


# Google's packages announce the end of each Python a year ahead.
@pytest.mark.filterwarnings("ignore:You are using a Python version:FutureWarning")
@pytest.mark.parametrize(("protocol", "driver"), DRIVERS.items())
def test_a_worker_can_open_urls_of_each_protocol(protocol: str, driver: str) -> None:
    assert protocol in fsspec.get_filesystem_class(protocol).protocol
    for packages in ("worker.txt", "worker-gpu.txt"):
        assert re.search(rf"^{driver}==", (ROOT / "requirements" / packages).read_text(), re.MULTILINE), packages
