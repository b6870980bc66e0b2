"""How long the copier rests after a copy, so that jobs that use all cores of the host train on at their speed."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

# A copy that uses all cores for one second costs ranks that need them up to 4 s (`bench/store.py`). With this share of
# the cores, copies cost such ranks less than 1 %.
_SHARE = 1 / 500
_LONGEST_REST_S = 300.0  # by so much more a job goes back when its host is lost


class Rest:
    """The rest of a host. All its copies of checkpoints together use a five-hundredth of its cores."""

    def __init__(self, cores: int | None = None) -> None:
        """`cores`: None is all that this process may use."""
        self._cores = cores or len(os.sched_getaffinity(0))
        self._ends_at = 0.0

    @property
    def is_on(self) -> bool:
        """Whether no copy may begin now."""
        return time.monotonic() < self._ends_at

    @contextmanager
    def after_copy(self) -> Iterator[None]:
        """Rest after the copy that is made within. One that fails does not count: it has a pause of its own.

        Copies at the same time count each other's work too, so the rest is longer then.
        """
        began_s = time.process_time()
        yield
        now = time.monotonic()
        rest_s = (time.process_time() - began_s) / self._cores / _SHARE
        self._ends_at = min(max(now, self._ends_at) + rest_s, now + _LONGEST_REST_S)
