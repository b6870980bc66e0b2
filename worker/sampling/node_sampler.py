"""Samples the ranks of one attempt on a node of Slurm: a thread of the member there, because the node has no worker.

It reads what a host's sampler reads of a slot: the GPU, and the processes of the rank. The supervisor stores the
samples (`worker.attempt.node_samples`). It imports little, as the member does.
"""

import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jobs.telemetry.sampled_metrics import GPU_METRICS
from worker.sampling.rank_processes import RankProcesses

if TYPE_CHECKING:
    from worker.host.gpus import Gpu

_MOST_KEPT = 60  # samples that nobody took

Sample = Mapping[str, Any]  # at, and the values of each rank by the names of the columns: see `member_protocol`


class NodeSampler(threading.Thread):
    """Samples until its process ends. `gpus` are those of the ranks, as CUDA names them; none for CPU ranks.

    Each rank has so many slots. A sample is of a slot, and has its number in the attempt as its rank.
    """

    def __init__(
        self, mark: str, ranks: Sequence[int], gpus: Sequence[str], *, period_s: float, slots_of_rank: int = 1
    ) -> None:
        super().__init__(name="sampler", daemon=True)
        self._mark = mark
        self._slots_of_rank = slots_of_rank
        self._slots = [rank * slots_of_rank + place for rank in ranks for place in range(slots_of_rank)]
        self._named_gpus = gpus
        self._period_s = period_s
        self._processes = RankProcesses()
        self._samples: deque[Sample] = deque(maxlen=_MOST_KEPT)

    def take(self) -> list[Sample]:
        """The samples since the last call."""
        return [self._samples.popleft() for _ in range(len(self._samples))]

    def run(self) -> None:
        """Sample. An error ends one sample, and is written once: a metric is never worth a rank."""
        has_failed, gpus = False, None
        while True:
            time.sleep(self._period_s - time.monotonic() % self._period_s)
            try:
                gpus = self._gpus() if gpus is None else gpus
                self._samples.append(self._sample(gpus))
            except Exception as error:
                if not has_failed:
                    sys.stderr.write(f"a sample failed: {error}\n")
                has_failed = True

    def _gpus(self) -> dict[int, "Gpu"]:
        """The GPU of each slot, as far as NVML finds it."""
        if not self._named_gpus:
            return {}
        from worker.host.gpus import find_gpus

        found = match(self._named_gpus, find_gpus())
        return {slot: gpu for slot, gpu in zip(self._slots, found, strict=False) if gpu is not None}

    def _sample(self, gpus: Mapping[int, "Gpu"]) -> Sample:
        at = time.time()
        of_rank = self._slots_of_rank
        readings = self._processes.read({(self._mark, slot // of_rank) for slot in self._slots})
        values: dict[int, dict[str, float | None]] = {slot: {} for slot in self._slots}
        for slot, gpu in gpus.items():
            reading = gpu.read()
            values[slot] |= {name: getattr(reading, metric.reading_name) for name, metric in GPU_METRICS.items()}
        for slot in self._slots:
            if (processes := readings.get((self._mark, slot // of_rank))) is not None:
                values[slot] |= vars(processes.of_slot(of_rank))
        return {"at": at, "ranks": values}


def match(named: Sequence[str], found: "Sequence[Gpu]") -> list["Gpu | None"]:
    """The GPU of each name in `CUDA_VISIBLE_DEVICES`: a UUID, the beginning of one, or a number.

    Where Slurm hides the others with control groups, NVML finds only these, and Slurm counts from 0. Else the number is
    NVML's own.
    """
    numbers = [int(name) if name.isdecimal() else None for name in named]
    if None not in numbers:
        are_alone = len(found) == len(named)
        by_number = {place if are_alone else gpu.index: gpu for place, gpu in enumerate(found)}
        return [by_number.get(number) for number in numbers if number is not None]
    return [next((gpu for gpu in found if gpu.uuid.startswith(name)), None) for name in named]
