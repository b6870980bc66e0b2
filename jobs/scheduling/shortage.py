"""Says which slots a job needs, and why the hosts could not hold it even if they were empty. Pure.

Called by `jobs.scheduling.hosts` for a submission, and by `jobs.scheduling.queue` for a job that waits.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches

from jobs.scheduling.fitting import Cluster
from jobs.scheduling.slots import Counts, SlotClass, SlotRequest

_MOST_NAMED = 5  # models in one sentence


@dataclass(frozen=True)
class Shortage:
    """Why the hosts are too small for a job, and the field of its spec that asks for too much."""

    field: str
    received: str
    text: str


def slots_text(request: SlotRequest, cluster: Cluster) -> str:
    """The slots that a job needs: 2 slots; 1 gpu slot; 4 GPUs of one model whose name contains 'a100'."""
    several = request.gpus > 1 and len({slots.model for slots in cluster.classes(request)}) > 1
    one_model = " of one model" if several and not request.mixed_gpus else ""
    return _counted(request.gpus, request, cluster, one_model)


def slots_asked(request: SlotRequest) -> str:
    """The slots that a job asks for, wherever it may run: 2 cpu slots; 4 GPUs whose name contains 'a100'."""
    plural = "" if request.gpus == 1 else "s"
    if request.chooses_gpus:
        return f"{request.gpus} GPU{plural}{_choice(request)}"
    return f"{request.gpus} {'' if request.device == 'auto' else f'{request.device} '}slot{plural}"


def shortage(cluster: Cluster, request: SlotRequest) -> Shortage | None:
    """Why these hosts can never hold a job. None if they can."""
    if cluster.attainable(request) is not None:
        return None
    return (
        no_such_gpu(cluster.capacity, request)
        or _no_such_kind(cluster, request)
        or Shortage("gpus", str(request.gpus), _too_many(cluster, request))
    )


def _no_such_kind(cluster: Cluster, request: SlotRequest) -> Shortage | None:
    """Why there is no slot of the kind that the job names. None if there is one, or it names none."""
    counts: Counter[str] = Counter()
    for slots, count in cluster.capacity.items():
        counts[slots.kind] += count
    if request.device == "auto" or counts[request.device]:
        return None
    there = " and ".join(f"{count} {kind} slot{'' if count == 1 else 's'}" for kind, count in counts.items() if count)
    return Shortage("device", request.device, f"no host has {request.device} slots: there are {there or 'none'}")


def no_such_gpu(slots: Counts, request: SlotRequest) -> Shortage | None:
    """Why none of the GPUs is one that the job accepts. None if there is one, or if it accepts every GPU."""
    gpus = {one: count for one, count in slots.items() if one.kind == "gpu"}
    if any(map(request.accepts, gpus)) or (request.gpu_model is None and request.gpu_memory_gb is None):
        return None
    by_model = replace(request, gpu_memory_gb=None)
    if request.gpu_model is not None and not any(map(by_model.accepts, gpus)):
        meant = _similar_model(request.gpu_model, {one.model for one in gpus})
        hint = f"; did you mean '{meant}'?" if meant else ""
        return Shortage("gpu_model", request.gpu_model, f"no host has {_a_gpu(by_model)}: {_models(gpus)}{hint}")
    received = f"{request.gpu_memory_gb:g}"
    return Shortage("gpu_memory_gb", received, f"no host has {_a_gpu(request)}: {_models(gpus, with_memory=True)}")


def _too_many(cluster: Cluster, request: SlotRequest) -> str:
    on_one_host, together = cluster.most(request, cluster.capacity)
    ways = other_ways(cluster, request)
    if together is None:
        return f"more than this cluster has: its largest host has {_counted(on_one_host, request, cluster)}{ways}"
    several = _counted(together, request, cluster)
    if together < request.gpus:
        return f"more than this cluster has: its hosts that work together have {several}{ways}"
    return (
        f"a job takes the same number of slots on each of its hosts, and {request.gpus} cannot be divided so: "
        f"of the {several} of hosts that work together, at most {on_one_host} are on one host{ways}"
    )


def other_ways(cluster: Cluster, request: SlotRequest) -> str:
    """Which other fields would let these hosts hold the job; empty if none would."""
    mixed = cluster.attainable(replace(request, mixed_gpus=True)) if cluster.kind_for(request) == "gpu" else None
    if mixed is not None and not request.mixed_gpus:
        count, model = max(_largest_group(cluster, request, model) for model in _models_of(cluster, request))
        group = f"the largest group of one model is {count} x {model}"
        return f"; {group}; mixed_gpus: true would allow {mixed.gpus}"
    on_cpus = replace(request, device="cpu")
    if request.device == "auto" and not request.chooses_gpus and cluster.auto == "gpu" and cluster.attainable(on_cpus):
        return "; device: cpu would use CPU slots"
    return ""


def _models_of(cluster: Cluster, request: SlotRequest) -> set[str]:
    return {slots.model for slots in cluster.classes(request)}


def _largest_group(cluster: Cluster, request: SlotRequest, model: str) -> tuple[int, str]:
    counts = {slots: count if slots.model == model else 0 for slots, count in cluster.capacity.items()}
    on_one_host, together = cluster.most(request, counts)
    return max(on_one_host, together or 0), model


def _counted(count: int, request: SlotRequest, cluster: Cluster, one_model: str = "") -> str:
    """So many slots of those that a job may take: 1 slot; 2 gpu slots; 4 GPUs with at least 80 GB."""
    plural = "" if count == 1 else "s"
    if request.chooses_gpus or one_model:
        return f"{count} GPU{plural}{one_model}{_choice(request)}"
    is_clear = request.device == "auto" and len({slots.kind for slots in cluster.capacity}) < 2
    return f"{count} slot{plural}" if is_clear else f"{count} {cluster.kind_for(request)} slot{plural}"


def _a_gpu(request: SlotRequest) -> str:
    return f"a GPU{_choice(request)}"


def _choice(request: SlotRequest) -> str:
    model = "" if request.gpu_model is None else f" whose name contains '{request.gpu_model}'"
    memory = "" if request.gpu_memory_gb is None else f" with at least {request.gpu_memory_gb:g} GB"
    return f"{model}{' and' if model and memory else ''}{memory}"


def _models(gpus: Counts, *, with_memory: bool = False) -> str:
    """The models of the GPUs, and how many there are of each."""
    counts: Counter[str] = Counter()
    for one, count in gpus.items():
        counts[_named(one, with_memory=with_memory)] += count
    if not counts:
        return "no GPU is in service"
    named = [f"{name} ({count})" for name, count in sorted(counts.items())]
    more = f" and {len(named) - _MOST_NAMED} more models" if len(named) > _MOST_NAMED else ""
    return f"the hosts have {', '.join(named[:_MOST_NAMED])}{more}"


def _named(gpu: SlotClass, *, with_memory: bool) -> str:
    memory = f"{gpu.memory_bytes / 1e9:.1f} GB" if gpu.memory_bytes else "unknown memory"
    return f"{gpu.model} with {memory}" if with_memory else gpu.model


def _similar_model(text: str, models: Iterable[str]) -> str | None:
    """The part of a model's name that was probably meant: `A100-SXM4` for `a100 sxm4`, `A100` for `a10o`."""
    letters = re.sub(r"[^a-z0-9]", "", text.lower())
    between = r"[^a-z0-9]*"
    for model in sorted(models):
        if letters and (found := re.search(between.join(letters), model, re.IGNORECASE)):
            return found.group()
    words = {
        word.lower(): word for model in sorted(models) for word in [model, *model.split(), *re.split(r"[\s-]+", model)]
    }
    # Another first letter is another model: who asks for an H100 did not mean an A100.
    similar = get_close_matches(text.lower(), [word for word in words if word[:1] == text[:1].lower()], n=1)
    return words[similar[0]] if similar else None
