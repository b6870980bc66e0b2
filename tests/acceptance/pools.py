"""Stacks on the login node of a cluster of Slurm, whose worker offers its partition as a pool."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hora.service import Service
from hora.stack.control import Stack
from tests.slurm import PARTITION, Slurm
from tests.waiting import until

POOL = f"slurm:{PARTITION}"


@contextmanager
def stack_on(cluster: Slurm, folder: Path, **settings: str) -> Iterator[Stack]:
    """A stack with these settings and no slots of its own, once it has the pool."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"HORA_SLURM_PARTITION": PARTITION, **cluster.environment, **settings}.items():
            patch.setenv(name, value)
        with Stack(folder, port=0, slots=0) as stack:
            with Service(stack.url, stack.token) as client:
                until(lambda: POOL in {host["name"] for host in client.hosts()}, what="the pool")
            yield stack
