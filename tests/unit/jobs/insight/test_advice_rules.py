"""Advice: exactly these rules in this order, with figures from the evidence; and nothing for a healthy job."""

from dataclasses import replace
from typing import Any

import pytest

from jobs.insight.advice.evidence import Base, Cluster, Data, Evidence
from jobs.insight.advice.rules import advice_on
from jobs.model.states import Status
from jobs.views.analysis import FindingKind
from tests.unit.jobs.insight.advice_inputs import OVERFIT, SIZES, a_job, only, past, rules, shares

K = FindingKind
FEW: dict[str, Any] = {"model": "mobilenet_v2", "dataset": {"image_size": [96, 96], "fraction": 0.1}}
CACHED: dict[str, Any] = {"model": "convnet7", "dataset": {"cache": "memory"}}
GLOBAL: dict[str, Any] = {"batch_per": "global", "batch_size": 128}
LINEAR = {"lr_scaling": "linear"}  # of 2 GPUs: twice the rate of 64
SPREAD = {"hosts": 2, "steps": shares(allreduce=0.3), "cluster": Cluster(largest_host=4, together=8)}


def test_a_job_without_faults_gets_no_advice() -> None:
    e = a_job()
    bare = replace(
        e, summary=None, data=None, model=None, past=(), cluster=None, status=Status.CANCELLED,
        analysis=e.analysis.model_copy(update={"steps": [], "findings": []}),
    )  # fmt: skip
    neighbours = (
        past("b", 10_400.0, batch_size=128), past("c", 10_600.0, batch_size=512),
        past("d", 5_400.0, gpus=1), past("e", 17_000.0, gpus=4),
    )  # fmt: skip
    not_alike = (
        past("short", 40_000.0, gpus=1, summary={"epochs_run": 1, "best_epoch": 1}),
        past("one", 1_000.0, gpus=1, fields={"device": "H200"}),
        past("two", 40_000.0, batch_size=128, model={"name": "lenet5", "weights": "job:abc"}),
        past("three", 40_000.0, batch_size=128, fields={"even": False}),
    )
    data = Data("images", (96, 96, 3), SIZES)
    cases = {
        "it is healthy": e,
        "there is no evidence": bare,
        "similar jobs gained nothing": a_job(past=neighbours),
        "similar jobs gained nothing, and it is idle": a_job(K.UNDERUSED, past=neighbours),
        "no past job can be compared": a_job(past=not_alike),
        "it had few steps": a_job(K.INPUT_BOUND, steps=shares(0.6, steps=15, step_s=1.0), data=data),
        "it took two seconds": a_job(K.INPUT_BOUND, steps=shares(0.6, steps=200, step_s=0.01), data=data),
        "few steps exchanged": a_job(K.COMMUNICATION_BOUND, steps=shares(0.0, 0.6, steps=15, step_s=1.0)),
        "the accuracy is high": few(summary={"val_accuracy": 0.95}),
        "it ran two epochs": few(summary={"val_accuracy": 0.61, "epochs_run": 2, "best_epoch": 2}),
        "it has a base": few(spec=FEW | {"model": {"name": "mobilenet_v2", "weights": "job:abc"}}),
        "it has 54,000 samples": few(spec=FEW | {"dataset": {"image_size": [96, 96]}}),
        "there is nothing to start from": few(spec={"model": "convnet7", "dataset": {"fraction": 0.1}}),
        "the data is cached": waits(spec={"dataset": {"cache": "memory"}}),
        "the data is in memory": waits(data=Data("arrays", (28, 28, 1), SIZES)),
        "a cache gained nothing": waits(past=(past("c", 10_500.0, **CACHED),)),
    }
    for why, job in cases.items():
        assert advice_on(job) == [], why


def test_advice_is_numbered_in_the_order_in_which_to_try_it() -> None:
    found = advice_on(_everything_at_once())
    assert rules(found) == ["pretrained_base", "early_stopping", "streaming_and_cache", "gpus", "hosts"]
    assert [one.number for one in found] == [1, 2, 3, 4, 5]


def _everything_at_once() -> Evidence:
    changes: dict[str, Any] = {
        "early_stopping": None, "gpus": 4, "model": "resnet50",
        "dataset": {"source": "photos", "image_size": [96, 96], "fraction": 0.5},
    }  # fmt: skip
    e = a_job(
        K.OVERFITS, K.INPUT_BOUND,
        **OVERFIT | {"spec": changes},
        past=(past("half", 9_000.0, **changes | {"gpus": 2}), past("together", 12_000.0, **changes)),
        steps=shares(0.5),
        hosts=2,
        data=Data("images", (96, 96, 3), SIZES),
        cluster=Cluster(largest_host=4, memory_bytes=64_000_000_000),
    )  # fmt: skip
    site = replace(e.site, data_roots=("/data",))
    own = replace(e.past[0], hosts=2)
    return replace(e, past=(own, *e.past[1:]), site=site)


# Pre-trained base


def few(**changes: Any) -> Evidence:
    """A large network, trained from scratch on a few photos, with low accuracy."""
    usual: dict[str, Any] = {"summary": {"val_accuracy": 0.61}, "spec": FEW, "data": Data("images", (96, 96, 3), SIZES)}
    return a_job(**usual | changes)


def test_imagenet_weights_are_advised_for_few_samples_and_low_accuracy() -> None:
    advice = only(few())
    assert (advice.rule, advice.change) == ("pretrained_base", {"model": {"weights": "imagenet"}})
    assert "5400 samples" in advice.why
    assert "0.610" in advice.why
    assert (advice.gain.time_factor, advice.gain.gpu_hours_factor, advice.gain.accuracy) == (None, None, None)
    started = past(
        "base", 40_000.0, model={"name": "mobilenet_v2", "weights": "imagenet"},
        dataset=FEW["dataset"], summary={"val_accuracy": 0.91, "wall_s": 60.0},
    )  # fmt: skip
    gain = only(few(past=(started,))).gain
    assert (gain.time_factor, gain.accuracy) == (0.4, 0.3), "as a past job gained"


def test_a_network_without_imagenet_weights_starts_from_a_job_with_more_samples() -> None:
    spec = {"model": "convnet7", "dataset": {"fraction": 0.1}}
    base = Base("0base0", "synthetic", 20_000)
    advice = only(few(spec=spec, bases=(base,)))
    assert advice.change == {"model": {"weights": "job:0base0", "freeze_base": False}}
    assert "20000 samples of other data, synthetic: its figures are no measure for this data" in advice.why
    wasteful = OVERFIT["summary"] | {"val_accuracy": 0.61}
    untried = few(spec=spec | OVERFIT["spec"], summary=wasteful, bases=(base,))
    assert rules(advice_on(untried)) == ["early_stopping", "pretrained_base"]
    tried = past("w", dataset=spec["dataset"], **OVERFIT["spec"], model={"name": "convnet7", "weights": "job:0base0"})
    assert rules(advice_on(replace(untried, past=(*untried.past, tried)))) == ["pretrained_base", "early_stopping"]
    assert advice_on(few(spec=spec, bases=(replace(base, train_samples=8_000),))) == []


# Streaming and cache


def waits(**given: Any) -> Evidence:
    usual: dict[str, Any] = {
        "steps": shares(0.6), "data": Data("images", (96, 96, 3), SIZES), "spec": {"model": "convnet7"},
    }  # fmt: skip
    return a_job(K.INPUT_BOUND, **usual | given)


def test_memory_cache_is_advised_for_images_that_are_decoded_again() -> None:
    advice = only(waits())
    assert (advice.rule, advice.change) == ("streaming_and_cache", {"dataset": {"cache": "memory"}})
    assert "Each step waits for data 60 % of its time (7.5 of 12.5 ms)" in advice.why
    assert "1.7 GB" in advice.why
    assert advice.gain.time_factor == 0.4
    assert advice.gain.gpu_hours_factor == round(1 - 0.6 * 22 / 23, 4)
    assert only(waits(past=(past("c", 20_000.0, **CACHED),))).gain.time_factor == 0.5, "as a past job gained"
    larger_batch = past("b", 20_000.0, model="convnet7", batch_size=128)
    assert rules(advice_on(waits(past=(larger_batch,)))) == ["streaming_and_cache"], "data comes first"


def test_a_cache_is_as_large_as_the_data_if_a_host_has_the_memory_and_the_operator_allows_it() -> None:
    usual = waits()  # 1.7 GB
    assert len(advice_on(replace(usual, site=replace(usual.site, cache_limit_gb=2)))) == 1
    assert advice_on(replace(usual, site=replace(usual.site, cache_limit_gb=1.5))) == []
    large = Data("images", (500, 500, 3), SIZES)  # 45 GB
    assert only(waits(data=large, cluster=Cluster(2, None, 200_000_000_000))).change == {
        "dataset": {"cache": "memory", "cache_limit_gb": 45.0}
    }
    assert advice_on(waits(data=large)) == []  # a host has 64 GB
    assert advice_on(waits(data=large, cluster=None)) == []
    remote = waits(data=Data("parquet", (500, 500, 3), SIZES), spec={"dataset": {"source": "s3://bucket/set"}})
    on_disk = only(replace(remote, site=replace(remote.site, data_roots=("s3://bucket",))))
    assert (on_disk.change, on_disk.gain.time_factor) == ({"dataset": {"cache": "disk"}}, None)


# GPUs and hosts


def test_advice_halves_gpus_whose_doubling_did_not_pay() -> None:
    advice = only(a_job(past=(past("one", 7_500.0, gpus=1),), spec={"min_gpus": 2}))
    assert (advice.rule, advice.change) == ("gpus", {"gpus": 1, "min_gpus": 1})
    assert (advice.gain.time_factor, advice.gain.gpu_hours_factor) == (1.3333, 0.6667)


@pytest.mark.parametrize(
    ("spec", "others", "change"),
    [
        (GLOBAL, [(1, 7_500.0, {"batch_size": 128}), (1, 5_000.0, {"batch_size": 64})], {"gpus": 1}),
        (GLOBAL | LINEAR, [(1, 7_500.0, GLOBAL | LINEAR)], {"gpus": 1, "base_batch": 64}),
        (GLOBAL | LINEAR, [(4, 18_000.0, GLOBAL | LINEAR)], {"gpus": 4, "base_batch": 64}),
        ({"steps_per_epoch": 100}, [(1, 9_000.0, {"steps_per_epoch": 100})], {"gpus": 1, "steps_per_epoch": 200}),
    ],
)
def test_a_job_on_other_gpus_is_compared_by_the_same_global_batch_and_keeps_rate_and_samples(
    spec: dict[str, Any], others: list[tuple[int, float, dict[str, Any]]], change: dict[str, Any]
) -> None:
    jobs = tuple(past(f"{speed}", speed, **fields | {"gpus": gpus}) for gpus, speed, fields in others)
    assert only(a_job(spec=spec, past=jobs, cluster=Cluster(largest_host=4))).change == change


def test_twice_the_gpus_are_advised_within_one_host_if_past_jobs_gained() -> None:
    more = (past("one", 5_400.0, gpus=1), past("four", 18_000.0, gpus=4))
    e = a_job(past=more, cluster=Cluster(largest_host=4))
    advice = only(e)
    assert advice.rule == "gpus"
    assert advice.change == {"gpus": 4, "lr_scaling": "sqrt", "base_batch": 128, "warmup_epochs": 3}
    assert (advice.gain.time_factor, advice.gain.gpu_hours_factor) == (round(1 / 1.8, 4), round(2 / 1.8, 4))
    assert advice_on(replace(e, cluster=Cluster(largest_host=3))) == []
    assert advice_on(replace(e, cluster=None)) == []


def test_gain_of_a_doubling_is_predicted_only_from_steps_of_several_ranks() -> None:
    roomy = Cluster(largest_host=8)
    advice = only(a_job(cluster=roomy, steps=shares(0.0, 0.1)))
    assert advice.evidence["doubling_gain"] == round(2 / 1.05, 3)
    assert advice_on(a_job(cluster=roomy, spec={"gpus": 1}, steps=shares(0.0, 0.0))) == []
    assert advice_on(a_job(cluster=roomy, device="H200", past=())) == []
    assert advice_on(a_job(cluster=roomy, summary={"wall_s": 30.0})) == []
    larger_batch = past("b", 20_000.0, batch_size=128)
    assert rules(advice_on(a_job(cluster=roomy, past=(larger_batch,)))) == ["batch_and_rate"], "that comes first"


def test_one_host_is_advised_for_a_spread_job_that_fits_on_one() -> None:
    advice = only(a_job(**SPREAD))
    assert (advice.rule, advice.change, advice.gain.time_factor) == ("hosts", {"placement": "single_host"}, None)
    e = a_job(**SPREAD)
    own = replace(e.past[0], hosts=2)
    measured = replace(e, past=(own, past("together", 13_000.0)))
    assert only(measured).gain.time_factor == round(10 / 13, 4)
    assert advice_on(replace(e, past=(own, past("together", 10_200.0)))) == []
    assert advice_on(replace(e, cluster=Cluster(largest_host=1, together=2))) == []
    assert advice_on(a_job(**SPREAD | {"spec": {"placement": "single_host"}})) == []


def test_several_hosts_are_advised_to_a_job_that_fills_one_and_scales() -> None:
    two_hosts = Cluster(largest_host=2, together=4)
    on_one_gpu = past("one", 5_200.0, gpus=1)
    long = {"summary": {"wall_s": 900.0}, "cluster": two_hosts}
    advice = only(a_job(past=(on_one_gpu,), **long))
    assert (advice.rule, advice.change["gpus"], advice.gain.time_factor) == ("hosts", 4, None)
    on_four_gpus = past("four", 17_000.0, gpus=4, fields={"hosts": 2})
    assert only(a_job(past=(on_one_gpu, on_four_gpus), **long)).gain.time_factor == round(1 / 1.7, 4)
    assert advice_on(a_job(past=(past("one", 6_300.0, gpus=1),), **long)) == []
    assert advice_on(a_job(past=(on_one_gpu,), **long | {"cluster": Cluster(largest_host=2)})) == []
    assert advice_on(a_job(past=(on_one_gpu,), **long | {"summary": {"wall_s": 150.0}})) == []
