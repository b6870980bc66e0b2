"""Gives the ranks precedence over a process that shares their cores. Used by supervisors and members."""

import os
from contextlib import suppress

# A third of the weight of a rank. With much less, a renewal on a busy host could take longer than a short lease lasts.
_POLITENESS = 5


def be_polite() -> None:
    """Make this process's share of the cores small.

    Where the kernel groups processes by session, niceness counts within the group alone, and the group has its own.
    """
    os.nice(_POLITENESS)
    with suppress(OSError), open("/proc/self/autogroup", "w") as autogroup:
        autogroup.write(str(_POLITENESS))
