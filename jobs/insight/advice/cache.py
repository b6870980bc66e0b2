"""The rule about streaming and the cache. Called by `jobs.insight.advice.rules`. Pure."""

from math import ceil
from typing import Any

from jobs.insight.advice.evidence import WORTH, Data, Evidence, Proposal, gain, less_time, percent
from jobs.insight.advice.past import PastJob, cache_of, is_frozen
from jobs.insight.advice.throughput import range_of
from jobs.views.advice import Gain, Rule
from jobs.views.analysis import FindingKind, StepShares

_GB = 1e9
_OF_A_HOST = 0.5  # the share of a host's memory for cached samples: they are in the page cache, beside the ranks
_DECODED = frozenset({"images", "parquet", "tfrecord"})  # the formats whose samples are decoded in every epoch


def streaming_and_cache(e: Evidence) -> Proposal | None:
    """Propose a cache if steps wait for samples that are fetched or decoded in every epoch."""
    shares = e.shares
    if shares is None or e.finding(FindingKind.INPUT_BOUND) is None or e.data is None:
        return None
    if e.spec.is_script or e.spec.probe is not None:
        return None
    cached = _in_memory(e, e.data) or _on_disk(e)
    if cached is None or shares.data_wait < WORTH:
        return None
    action, reason, change = cached
    expected_gain = _gain(e, change["dataset"].get("cache", cache_of(e.spec)), shares)
    if expected_gain is None:
        return None
    step_ms, wait_ms = 1000 * shares.step_time_s, 1000 * shares.step_time_s * shares.data_wait
    waits = f"Each step waits for data {percent(shares.data_wait)} of its time ({wait_ms:.3g} of {step_ms:.3g} ms)."
    figures = {"data_wait_share": round(shares.data_wait, 4), "step_time_s": round(shares.step_time_s, 6)}
    return Proposal(Rule.STREAMING_AND_CACHE, action, f"{waits} {reason}", figures, change, expected_gain)


def _in_memory(e: Evidence, data: Data) -> tuple[str, str, dict[str, Any]] | None:
    """A cache of the decoded samples in memory, if they fit."""
    dataset, cluster = e.spec.own_dataset, e.cluster
    if dataset.cache == "memory" or data.format not in _DECODED or cluster is None or cluster.memory_bytes is None:
        return None
    size_bytes = data.decoded_bytes(dataset)
    limit_gb = e.site.cache_limit_gb
    if size_bytes > _OF_A_HOST * cluster.memory_bytes or (limit_gb is not None and size_bytes > limit_gb * _GB):
        return None
    change: dict[str, Any] = {"cache": "memory"}
    if size_bytes > dataset.cache_limit_gb * _GB:
        change["cache_limit_gb"] = float(ceil(size_bytes / _GB))
    size = f"{size_bytes / _GB:.2g} GB" if size_bytes >= _GB else f"{size_bytes / 1e6:.3g} MB"
    read = "decoded" if data.are_images else "read"
    reason = (
        f"Samples are {read} again in every epoch. They take {size}; a host has {cluster.memory_bytes / _GB:.3g} GB."
    )
    return f"Keep the {read} samples in memory.", reason, {"dataset": change}


def _on_disk(e: Evidence) -> tuple[str, str, dict[str, Any]] | None:
    """A cache of the raw files on the host's own disk, if they come over a network."""
    dataset = e.spec.own_dataset
    if dataset.cache != "none" or "://" not in dataset.source:
        return None
    reason = f"Files are fetched from {dataset.source} again in every epoch."
    return "Keep the raw files on the hosts' own disks.", reason, {"dataset": {"cache": "disk"}}


def _gain(e: Evidence, cache: str, shares: StepShares) -> Gain | None:
    """The gain of past jobs with such a cache, else at most the waiting time. None if those jobs were no faster."""
    own = e.trained.at(e.plan.gpus, e.plan.per_gpu_batch)
    cached = [job for job in e.past if _differs_by_cache(e, job, cache)]
    speeds = [job.summary.train_samples_per_s for job in cached if job.summary and job.summary.train_samples_per_s]
    if speeds and own is not None:
        factor = own.mean / range_of(speeds).mean
        text = f"{less_time(factor)} Measured on {len(speeds)} past job{'' if len(speeds) == 1 else 's'}."
        return gain(text, time=factor) if 1 - factor >= WORTH else None
    if cache == "disk":  # files that are fetched once still have to be decoded
        return gain(f"At most {percent(shares.data_wait)} less training time, from the second epoch on.")
    # Before the first step, filling the cache takes about as long as the data of one epoch.
    epochs = max(e.summary.epochs_run if e.summary else 1, 1)
    hours = 1 - shares.data_wait * (1 - 1 / epochs)
    text = f"Up to {percent(shares.data_wait)} less training time: the share that steps wait for data."
    return gain(text, time=1 - shares.data_wait, gpu_hours=hours)


def _differs_by_cache(e: Evidence, job: PastJob, cache: str) -> bool:
    return (
        cache_of(job.spec) == cache
        and (job.device, job.frozen, job.even and job.is_long) == (e.device, is_frozen(e.spec), True)
        and (job.plan.gpus, job.plan.per_gpu_batch) == (e.plan.gpus, e.plan.per_gpu_batch)
    )
