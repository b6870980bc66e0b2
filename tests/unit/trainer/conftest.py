"""What several tests of the trainer need."""

from collections.abc import Iterator

import horovod.tensorflow as hvd
import pytest


@pytest.fixture
def connected() -> Iterator[None]:
    """Horovod, for one rank."""
    hvd.init()
    yield
    hvd.shutdown()
