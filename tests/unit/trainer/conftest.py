"""What networks leave behind in the process that builds them: a rank builds one, these tests hundreds."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def full_precision() -> Iterator[None]:
    """Each test begins with Keras's own precision, whatever the one before trained with."""
    yield
    if keras := sys.modules.get("keras"):
        keras.config.set_dtype_policy("float32")
