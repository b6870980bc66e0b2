"""The GPUs of a host and their connections. The agent reads them once, for the host's row.

A pair of cards talks over NVLink if NVLink connects them, else over PCIe. PCIe is slower the further up their common
ancestor is. Every query may fail by itself: a value that a driver does not report is null.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import pynvml

from worker.host.gpus import Gpu

_LEVELS = {
    pynvml.NVML_TOPOLOGY_INTERNAL: "internal",  # of one board
    pynvml.NVML_TOPOLOGY_SINGLE: "single",  # one PCIe switch
    pynvml.NVML_TOPOLOGY_MULTIPLE: "multiple",  # several, without the host bridge
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: "hostbridge",
    pynvml.NVML_TOPOLOGY_NODE: "node",  # several host bridges of a NUMA node
    pynvml.NVML_TOPOLOGY_SYSTEM: "system",  # across NUMA nodes
}
_CPU_WORDS = 64  # of 64 bits each: 4096 processors
_NODE_WORDS = 16


@dataclass
class _Links:
    """Where the active NVLinks of a card end."""

    to_card: dict[str, int] = field(default_factory=dict)  # by bus id
    to_switch: int = 0


def gpu_info(gpus: Sequence[Gpu]) -> dict[str, Any]:
    """The facts about a host's cards: `driver`, `gpus`, and `topology` with one entry per pair. {} without cards."""
    if not gpus:
        return {}
    return {
        "driver": {"version": _query_system(pynvml.nvmlSystemGetDriverVersion), "cuda": _query_system(_cuda_version)},
        "gpus": [
            {
                "index": gpu.index,
                "uuid": gpu.uuid,
                "name": gpu.name,
                "memory_bytes": gpu.memory_bytes,
                "mig": gpu.mig,
                "cpus": gpu.query("CPU affinity", _cpus),
                "numa_node": gpu.query("NUMA node", _numa_node),
            }
            for gpu in gpus
        ],
        "topology": list(_pairs(gpus)),
    }


def _pairs(gpus: Sequence[Gpu]) -> Iterator[dict[str, Any]]:
    bus_ids = {
        gpu.uuid: gpu.query("bus id", lambda handle: str(pynvml.nvmlDeviceGetPciInfo(handle).busId)) for gpu in gpus
    }
    links = {gpu.uuid: gpu.query("NVLinks", lambda handle: _links(handle, bus_ids)) for gpu in gpus}
    for one, other in combinations(gpus, 2):
        yield {
            "gpus": [one.index, other.index],
            "nvlinks": _in_common(links[one.uuid], links[other.uuid], bus_ids[other.uuid]),
            "pcie": one.query("common ancestors", _ancestor_with(other)),
        }


def _in_common(one: _Links | None, other: _Links | None, bus_id_of_other: str | None) -> int | None:
    """The number of NVLinks between two cards, directly or through switches (which connect all to all)."""
    if one is None or other is None:
        return None
    return one.to_card.get(bus_id_of_other or "", 0) + min(one.to_switch, other.to_switch)


def _links(handle: Any, bus_ids: Mapping[str, str | None]) -> _Links:
    links = _Links()
    cards = set(bus_ids.values())
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            active = pynvml.nvmlDeviceGetNvLinkState(handle, link) == pynvml.NVML_FEATURE_ENABLED
        except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_InvalidArgument):
            break  # the card has no more
        if not active:
            continue
        bus_id = str(pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId)
        if bus_id in cards:
            links.to_card[bus_id] = links.to_card.get(bus_id, 0) + 1
        elif pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link) == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            links.to_switch += 1
    return links


def _ancestor_with(other: Gpu) -> Callable[[Any], str]:
    return lambda handle: _LEVELS[pynvml.nvmlDeviceGetTopologyCommonAncestor(handle, other.handle)]


def _cpus(handle: Any) -> str:
    """The processors next to the card, as Linux writes a list of them: `0-15,32-47`."""
    return ranges(_bits(pynvml.nvmlDeviceGetCpuAffinity(handle, _CPU_WORDS)))


def _numa_node(handle: Any) -> int | None:
    scope = pynvml.NVML_AFFINITY_SCOPE_NODE
    return next(iter(_bits(pynvml.nvmlDeviceGetMemoryAffinity(handle, _NODE_WORDS, scope))), None)


def _bits(words: Sequence[int]) -> list[int]:
    return [64 * place + bit for place, word in enumerate(words) for bit in range(64) if word >> bit & 1]


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as `0-3,8`."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][-1] + 1:
            spans[-1][1:] = [number]
        else:
            spans.append([number])
    return ",".join("-".join(map(str, ends)) for ends in spans)


def _cuda_version() -> str:
    """The newest CUDA that the driver supports; NVML gives 12040 for 12.4."""
    number = pynvml.nvmlSystemGetCudaDriverVersion_v2()
    return f"{number // 1000}.{number % 1000 // 10}"


def _query_system(question: Callable[[], str]) -> str | None:
    try:
        return question()
    except Exception:
        return None
