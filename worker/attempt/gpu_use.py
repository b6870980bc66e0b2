"""Whether processes compute on GPUs of this host, before the ranks of an attempt start there and after they have ended.

Used by the launcher, supervisors, members and the agent. NVML is imported only if there are GPUs.
"""

import time
from collections.abc import Sequence

_PERIOD_S = 0.1
_SETTLED_S = 2.0  # the driver still lists a process for a moment after its end


def gpus_are_free(uuids: Sequence[str], *, within_s: float = _SETTLED_S) -> bool:
    """Whether no process computes on any of these GPUs. Waits for that up to `within_s`."""
    return not gpus_in_use(uuids, within_s=within_s)


def gpus_in_use(uuids: Sequence[str], *, within_s: float = _SETTLED_S) -> list[str]:
    """On which of these GPUs a process computes. Waits up to `within_s` until there is none."""
    if not uuids:
        return []
    from worker.host.gpus import is_in_use

    give_up_at = time.monotonic() + within_s
    while in_use := [uuid for uuid in uuids if is_in_use(uuid)]:
        if time.monotonic() > give_up_at:
            break
        time.sleep(_PERIOD_S)
    return in_use


def in_use_text(host: str, uuids: Sequence[str]) -> str:
    """Why no rank can start there."""
    gpus = "GPU" if len(uuids) == 1 else "GPUs"
    return f"a process that is not of this job computes on {gpus} {', '.join(uuids)} of host {host}"
