"""How much of the steps' time the exchange of gradients takes. Pure; called by `analyse`.

Without a GPU it is measured: the rank that comes to the allreduce last waits for nobody. On a GPU the same seconds
contain the rest of the backward pass, so a further figure is needed; without one there is no share.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from jobs.insight.analysis.evidence import Evidence, SlotSamples
from jobs.insight.analysis.steps import Pattern
from jobs.insight.analysis.utilization import mean_busy


class Basis(StrEnum):
    """What a share of communication follows from."""

    MEASURED = "measured"
    ONE_GPU = "one_gpu"  # the same work with the same batch took less time on one GPU
    UTILIZATION = "utilization"  # the GPUs were idle


@dataclass(frozen=True)
class Communication:
    """The share of the steps' time. In three of four steps it is at least `most_steps`."""

    share: float
    most_steps: float
    basis: Basis


def communication_of(
    pattern: Pattern, evidence: Evidence, samples: Sequence[SlotSamples], *, ranks: int
) -> Communication | None:
    """The share of communication; None if it is unknown, and for one rank."""
    if ranks < 2:
        return None
    if not evidence.on_gpu:
        return Communication(pattern.exchange, pattern.exchange_p25, Basis.MEASURED)
    waits = pattern.split.data_wait
    if evidence.one_gpu_step_s is not None:
        alone = evidence.one_gpu_step_s / pattern.step_time_s
        return _concluded(min(pattern.exchange, 1 - waits - alone), Basis.ONE_GPU)
    busy = mean_busy(one for one in samples if one.metric == "gpu_percent")
    if busy is None:
        return None
    # Time in which a rank computes is not the network's, whether its GPU is busy or not.
    return _concluded(min(pattern.exchange, 1 - busy / 100 - waits - pattern.split.compute), Basis.UTILIZATION)


def _concluded(share: float, basis: Basis) -> Communication:
    share = max(0.0, share)
    return Communication(share, share, basis)
