"""Lets the scripts of all ranks stop at the same call of `should_stop()`.

If one rank stopped a step earlier than the others, they would wait for it in a collective for ever. So each rank first
lets further calls of its script wait, then reads how many calls there were. Rank 0 collects these counts. The call
after the largest count is the one that answers yes, on every rank.
"""

import threading
import time

from trainer.script.control import Control
from trainer.script.store import Store

_LAST_CALL_S = 0.05  # for a call that read the file just before it was changed
_COLLECT_S = 10.0
_STOP_AT = "stop-at"  # the key of the call on which the ranks agreed
_STOPS = "stop"  # the key of the reason why a rank wants all to stop
_LONGEST_COUNT = 19  # digits that fit into 64 bits


class Agreement(threading.Thread):
    """Agrees with the other ranks, in a thread of its own. Every rank of the attempt has to start one."""

    def __init__(self, control: Control, store: Store, *, rank: int, size: int) -> None:
        super().__init__(name="agreement", daemon=True)
        self._control = control
        self._store = store
        self._rank = rank
        self._size = size

    def run(self) -> None:
        """Find the call, and let the script stop at it."""
        self._control.hold()
        time.sleep(_LAST_CALL_S)
        calls = self._control.calls
        stop_at = self._settle(calls) if self._size > 1 else calls + 1
        self._control.decide(stop_at)

    def _settle(self, calls: int) -> int:
        if self._rank != 0:
            self._store.put(f"calls-{self._rank}", str(calls))
            return max(_count(self._store.wait_for(_STOP_AT, within_s=2 * _COLLECT_S)), 1)
        give_up_at = time.monotonic() + _COLLECT_S
        for rank in range(1, self._size):
            text = self._store.wait_for(f"calls-{rank}", within_s=max(give_up_at - time.monotonic(), 0.0))
            calls = max(calls, _count(text))
        stop_at = calls + 1
        self._store.put(_STOP_AT, str(stop_at))
        return stop_at


def _count(text: str | None) -> int:
    """A number of calls; 0 if nobody said one."""
    return int(text) if text is not None and text.isdecimal() and len(text) < _LONGEST_COUNT else 0


def leave(control: Control, store: Store, *, rank: int) -> None:
    """Tell the others that this rank's script has ended, so that nobody waits for what it would say."""
    store.put(f"calls-{rank}", str(control.calls))
    if rank == 0:
        store.put(_STOP_AT, "1")


def announce_stop(store: Store, reason: str) -> None:
    """Tell the other ranks that this one wants all to stop."""
    store.put(_STOPS, reason)


def announced_stop(store: Store) -> str | None:
    """The reason why another rank wants all to stop; None if none does."""
    return store.get(_STOPS)
