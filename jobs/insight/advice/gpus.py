"""The rules about GPUs: more or fewer of them on one host, and hosts. Called by `jobs.insight.advice.rules`. Pure.

More hardware is advised last: only if nothing else is left to gain, and only from measurements.
"""

from typing import Any

from jobs.insight.advice.batch import batch_and_rate
from jobs.insight.advice.cache import streaming_and_cache
from jobs.insight.advice.changes import changed, half_gpus, is_possible, plan_of, times_gpus
from jobs.insight.advice.evidence import WORTH, Evidence, Proposal, gain, less_time, percent
from jobs.insight.advice.throughput import batch_on
from jobs.insight.advice.warnings import FEWEST_STEPS, HALF_OF_A_DOUBLING
from jobs.lifecycle.attempt_devices import CPU
from jobs.views.advice import Rule
from jobs.views.analysis import FindingKind

_LEAST_WALL_S = 60.0  # a shorter training gains less than the set-up of more ranks costs
_LEAST_WALL_OVER_HOSTS_S = 600.0
_NEAR_IDEAL = 1.7  # the gain of a doubling that leaves room for the cost of a network
_LITTLE = 0.1  # the share of a step in allreduce that more ranks may make half as long again
_FASTER = 1.1  # on one host than on several, to make it worth waiting for a host with room


def gpus(e: Evidence) -> Proposal | None:
    """Propose half the GPUs if the last doubling did not pay, else twice as many if that is known to pay."""
    return _fewer(e) or _more(e)


def hosts(e: Evidence) -> Proposal | None:
    """Propose one host for a job that needs no more, or several hosts for a job that fills one."""
    return _one_host(e) or _more_hosts(e)


def _doubling_gain(e: Evidence, low: int, high: int) -> float | None:
    """Throughput of the same spec on `high` GPUs divided by that on `low`, as trainings measured it."""
    low_batch, high_batch = batch_on(e.spec, low), batch_on(e.spec, high)
    if low_batch is None or high_batch is None:
        return None
    fewer = e.trained.at(low, low_batch, between_gpus=False)
    more = e.trained.at(high, high_batch, between_gpus=False)
    return None if fewer is None or more is None else more.mean / fewer.mean


def _fewer(e: Evidence) -> Proposal | None:
    now = e.spec.gpus
    if e.summary is None or now % 2 or e.plan.gpus != now or e.shares is None:
        return None
    last_gain = _doubling_gain(e, now // 2, now)
    change = half_gpus(e.spec)
    if last_gain is None or last_gain >= HALF_OF_A_DOUBLING or not is_possible(e.spec, change, e.site, e.sizes):
        return None
    figures = {"gpus": now, "doubling_gain": round(last_gain, 3)}
    reason = (
        f"{now} GPUs reached {last_gain:.2f}x the throughput of {now // 2} (ideal: 2x) with the same work, "
        "so the second half of the GPUs brought less than half of what it could."
    )
    text = f"{percent(1 - last_gain / 2)} fewer GPU-hours, for {last_gain:.2f}x the training time."
    action = f"Use {now // 2} GPU{'' if now == 2 else 's'}."
    return Proposal(Rule.GPUS, action, reason, figures, change, gain(text, time=last_gain, gpu_hours=last_gain / 2))


def _nothing_else_to_gain(e: Evidence, least_wall_s: float) -> bool:
    return (
        e.summary is not None
        and e.summary.wall_s >= least_wall_s
        and e.plan.gpus == e.spec.gpus
        and e.shares is not None
        and e.finding(FindingKind.COMPUTE_BOUND) is not None
        and batch_and_rate(e) is None
        and streaming_and_cache(e) is None
    )


def _doubled(e: Evidence) -> dict[str, Any] | None:
    """The change to twice the GPUs; None if the spec would be invalid, or have too few steps an epoch."""
    change = times_gpus(e.spec, 2)
    after = changed(e.spec, change)
    plan = None if after is None else plan_of(after, e.sizes)
    if plan is None or not is_possible(e.spec, change, e.site, e.sizes):
        return None
    steps = plan.steps_per_epoch
    return None if steps is not None and steps < FEWEST_STEPS else change


def _more(e: Evidence) -> Proposal | None:
    now, cluster = e.spec.gpus, e.cluster
    if cluster is None or 2 * now > cluster.largest_host or e.hosts > 1 or not _nothing_else_to_gain(e, _LEAST_WALL_S):
        return None
    change = _doubled(e)
    measured = _doubling_gain(e, now, 2 * now)
    doubling_gain = measured if measured is not None else _predicted_gain(e)
    if change is None or doubling_gain is None or doubling_gain < HALF_OF_A_DOUBLING:
        return None
    figures: dict[str, Any] = {"gpus": now, "largest_host": cluster.largest_host}
    figures["doubling_gain"] = round(doubling_gain, 3)
    if measured is not None:
        reason = f"{2 * now} GPUs reached {measured:.2f}x the throughput of {now} with the same work."
    else:
        assert e.shares is not None
        assert e.shares.allreduce is not None
        figures["allreduce_share"] = round(e.shares.allreduce, 4)
        reason = (
            f"Each step spends {percent(e.shares.compute)} of its time computing and {percent(e.shares.allreduce)} in "
            f"allreduce, so {2 * now} GPUs should reach {doubling_gain:.2f}x the throughput."
        )
    reason += f" One host has {cluster.largest_host}."
    return Proposal(Rule.GPUS, f"Use {2 * now} GPUs.", reason, figures, change, _gain_of(doubling_gain))


def _predicted_gain(e: Evidence) -> float | None:
    """The gain of a doubling, predicted from the steps' own shares. Each GPU keeps its batch.

    A ring allreduce over n ranks sends 2 (n - 1) / n times the gradients (Patarasuk and Yuan 2009). One rank sends
    nothing, so its steps predict nothing. On a GPU the share contains the backward pass.
    """
    n, shares = e.plan.gpus, e.shares
    if n < 2 or shares is None or shares.allreduce is None or e.device != CPU or e.spec.batch_per == "global":
        return None
    growth = ((2 * n - 1) / (2 * n)) / ((n - 1) / n)
    return 2 / (1 + shares.allreduce * (growth - 1))


def _gain_of(ratio: float) -> Any:
    return gain(less_time(1 / ratio, " for the same number of epochs"), time=1 / ratio, gpu_hours=2 / ratio)


def _one_host(e: Evidence) -> Proposal | None:
    cluster, shares = e.cluster, e.shares
    if cluster is None or shares is None or e.hosts < 2 or e.spec.gpus > cluster.largest_host:
        return None
    assert shares.allreduce is not None, "one process has one host"
    change = {"placement": "single_host"}
    if e.spec.placement == "single_host" or e.plan.gpus != e.spec.gpus:
        return None
    own = [job for job in e.alike if job.plan.per_gpu_batch == e.plan.per_gpu_batch and job.plan.gpus == e.plan.gpus]
    speeds: dict[bool, list[float]] = {True: [], False: []}  # by whether they were on one host
    for job in own:
        if job.summary is not None and job.summary.train_samples_per_s and job.hosts in (1, e.hosts):
            speeds[job.hosts == 1].append(job.summary.train_samples_per_s)
    ratio = None
    if speeds[True] and speeds[False]:
        ratio = (sum(speeds[True]) / len(speeds[True])) / (sum(speeds[False]) / len(speeds[False]))
    if ratio is None and (e.device != CPU or shares.allreduce < WORTH):
        return None
    if ratio is not None and ratio < _FASTER:
        return None
    figures = {"hosts": e.hosts, "largest_host": cluster.largest_host, "allreduce_share": round(shares.allreduce, 4)}
    reason = f"It ran on {e.hosts} hosts, and one host has {cluster.largest_host} slots."
    if ratio is not None:
        reason += f" On one host the same work reached {ratio:.2f}x the throughput."
        expected_gain = gain(less_time(1 / ratio), time=1 / ratio)
    else:
        reason += f" Each step spends {percent(shares.allreduce)} of its time in allreduce over the network."
        expected_gain = gain("Less time in allreduce.")
    action = f"Keep its {e.spec.gpus} GPUs on one host."
    return Proposal(Rule.HOSTS, action, reason, figures, change, expected_gain)


def _more_hosts(e: Evidence) -> Proposal | None:
    now, cluster = e.spec.gpus, e.cluster
    if cluster is None or cluster.together is None or e.hosts > 1 or e.spec.placement == "single_host":
        return None
    full = now == cluster.largest_host and 2 * now <= cluster.together
    if not full or not _nothing_else_to_gain(e, _LEAST_WALL_OVER_HOSTS_S):
        return None
    change, measured = _doubled(e), _doubling_gain(e, now, 2 * now)
    last_gain = _doubling_gain(e, now // 2, now) if now % 2 == 0 else None
    if change is None or (measured is not None and measured < HALF_OF_A_DOUBLING):
        return None
    if measured is None and (last_gain is None or last_gain < _NEAR_IDEAL):
        return None
    figures = {"gpus": now, "largest_host": cluster.largest_host, "doubling_gain": round(measured or last_gain or 0, 3)}
    if measured is not None:
        reason = f"{2 * now} GPUs on several hosts reached {measured:.2f}x the throughput of {now} with the same work."
        expected_gain = _gain_of(measured)
    else:
        reason = f"It fills a host, and the last doubling, to {now} GPUs, reached {last_gain:.2f}x the throughput."
        expected_gain = gain("Up to half of the training time. The cost of the network between the hosts is unknown.")
    return Proposal(Rule.HOSTS, f"Use {2 * now} GPUs on several hosts.", reason, figures, change, expected_gain)
