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
SPREAD = {"hosts": 2, "steps": shares(allreduce=0.3), "cluster": Cluster(largest_host=4, together=8)}


def test_a_healthy_job_gets_no_advice() -> None:
    assert advice_on(a_job()) == []


def test_a_healthy_job_gets_no_advice_where_similar_jobs_gained_nothing() -> None:
    neighbours = (
        past("b", 10_400.0, batch_size=128), past("c", 10_600.0, batch_size=512),
        past("d", 5_400.0, gpus=1), past("e", 17_000.0, gpus=4),
    )  # fmt: skip
    assert advice_on(a_job(past=neighbours)) == []
    assert advice_on(a_job(K.UNDERUSED, past=neighbours)) == []


def test_a_job_without_any_evidence_gets_no_advice() -> None:
    e = a_job()
    bare = replace(
        e, summary=None, data=None, model=None, past=(), cluster=None, status=Status.CANCELLED,
        analysis=e.analysis.model_copy(update={"steps": [], "findings": []}),
    )  # fmt: skip
    assert advice_on(bare) == []


@pytest.mark.parametrize("short", [shares(0.6, steps=15, step_s=1.0), shares(0.6, steps=200, step_s=0.01)])
def test_a_job_too_short_to_judge_gets_no_advice(short: Any) -> None:
    data = Data("images", (96, 96, 3), SIZES)
    assert advice_on(a_job(K.INPUT_BOUND, steps=short, data=data)) == []
    assert (
        advice_on(a_job(K.COMMUNICATION_BOUND, steps=shares(0.0, 0.6, steps=short.steps, step_s=short.step_time_s)))
        == []
    )


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
    spec = {"model": "mobilenet_v2", "dataset": {"image_size": [96, 96], "fraction": 0.1}}
    usual: dict[str, Any] = {
        "summary": {"val_accuracy": 0.61},
        "spec": spec,
        "data": Data("images", (96, 96, 3), SIZES),
    }
    return a_job(**usual | changes)


def test_imagenet_weights_are_advised_for_few_samples_and_low_accuracy() -> None:
    advice = only(few())
    assert (advice.rule, advice.change) == ("pretrained_base", {"model": {"weights": "imagenet"}})
    assert "5400 samples" in advice.why
    assert "0.610" in advice.why
    assert (advice.gain.time_factor, advice.gain.gpu_hours_factor, advice.gain.accuracy) == (None, None, None)


def test_gain_of_a_pretrained_base_comes_from_past_jobs() -> None:
    started = past(
        "base", 40_000.0, model={"name": "mobilenet_v2", "weights": "imagenet"},
        dataset={"image_size": [96, 96], "fraction": 0.1}, summary={"val_accuracy": 0.91, "wall_s": 60.0},
    )  # fmt: skip
    gain = only(few(past=(started,))).gain
    assert (gain.time_factor, gain.accuracy) == (0.4, 0.3)


def test_no_pretrained_base_is_advised_if_not_needed_or_not_available() -> None:
    assert advice_on(few(summary={"val_accuracy": 0.95})) == []
    assert advice_on(few(summary={"val_accuracy": 0.61, "epochs_run": 2, "best_epoch": 2})) == []
    weights = {"name": "mobilenet_v2", "weights": "imagenet"}
    assert advice_on(few(spec={"model": weights, "dataset": {"fraction": 0.1, "image_size": [96, 96]}})) == []
    assert advice_on(few(spec={"model": "mobilenet_v2", "dataset": {"image_size": [96, 96]}})) == []  # 54,000 samples
    assert advice_on(few(spec={"model": "convnet7", "dataset": {"fraction": 0.1}})) == []  # nothing to start from


def test_a_network_without_imagenet_weights_starts_from_a_job_with_more_samples() -> None:
    spec = {"model": "convnet7", "dataset": {"fraction": 0.1}}
    base = Base("0base0", "synthetic", 20_000, 0.97)
    advice = only(few(spec=spec, bases=(base,)))
    assert advice.change == {"model": {"weights": "job:0base0", "freeze_base": False}}
    assert "20000 samples of synthetic" in advice.why
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


def test_cache_limit_is_raised_to_the_dataset_size_if_a_host_has_the_memory() -> None:
    large = Data("images", (500, 500, 3), SIZES)  # 45 GB
    assert only(waits(data=large, cluster=Cluster(2, None, 200_000_000_000))).change == {
        "dataset": {"cache": "memory", "cache_limit_gb": 45.0}
    }
    assert advice_on(waits(data=large)) == []  # a host has 64 GB
    assert advice_on(waits(data=large, cluster=None)) == []


def test_no_cache_is_advised_that_is_larger_than_the_operator_allows() -> None:
    usual = waits()  # 1.7 GB
    assert rules(advice_on(replace(usual, site=replace(usual.site, cache_limit_gb=2)))) == ["streaming_and_cache"]
    assert advice_on(replace(usual, site=replace(usual.site, cache_limit_gb=1.5))) == []


def test_data_in_memory_or_cached_gets_no_advice_to_cache() -> None:
    assert advice_on(waits(spec={"dataset": {"cache": "memory"}})) == []
    assert advice_on(waits(data=Data("arrays", (28, 28, 1), SIZES))) == []


def test_disk_cache_is_advised_for_remote_data_too_large_for_memory() -> None:
    e = waits(data=Data("parquet", (500, 500, 3), SIZES), spec={"dataset": {"source": "s3://bucket/set"}})
    e = replace(e, site=replace(e.site, data_roots=("s3://bucket",)))
    advice = only(e)
    assert advice.change == {"dataset": {"cache": "disk"}}
    assert advice.gain.time_factor is None


def test_gain_of_a_cache_comes_from_past_jobs() -> None:
    cached = {"model": "convnet7", "dataset": {"cache": "memory"}}
    assert only(waits(past=(past("c", 20_000.0, **cached),))).gain.time_factor == 0.5
    assert advice_on(waits(past=(past("c", 10_500.0, **cached),))) == []


def test_input_bound_job_is_not_advised_a_larger_batch() -> None:
    faster = past("b", 20_000.0, model="convnet7", batch_size=128)
    assert rules(advice_on(waits(past=(faster,)))) == ["streaming_and_cache"]


# GPUs and hosts


def test_advice_halves_gpus_whose_doubling_did_not_pay() -> None:
    advice = only(a_job(past=(past("one", 7_500.0, gpus=1),), spec={"min_gpus": 2}))
    assert (advice.rule, advice.change) == ("gpus", {"gpus": 1, "min_gpus": 1})
    assert (advice.gain.time_factor, advice.gain.gpu_hours_factor) == (1.3333, 0.6667)


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


def test_more_gpus_are_not_advised_before_the_batch_is_at_its_knee() -> None:
    faster = past("b", 20_000.0, batch_size=128)
    assert rules(advice_on(a_job(cluster=Cluster(largest_host=8), past=(faster,)))) == ["batch_and_rate"]


def test_global_batch_is_compared_with_the_same_global_batch_on_fewer_gpus() -> None:
    spec = {"batch_per": "global", "batch_size": 128}
    same_work = past("one", 7_500.0, gpus=1, batch_size=128)
    per_gpu = past("other", 5_000.0, gpus=1, batch_size=64)
    assert only(a_job(spec=spec, past=(same_work, per_gpu))).change == {"gpus": 1}


def test_a_global_batch_keeps_its_rate_on_more_gpus_and_on_fewer() -> None:
    spec = {"batch_per": "global", "batch_size": 128, "lr_scaling": "linear"}  # of 2 GPUs: twice the rate of 64
    fewer = past("one", 7_500.0, gpus=1, **spec)
    assert only(a_job(spec=spec, past=(fewer,))).change == {"gpus": 1, "base_batch": 64}
    more = past("four", 18_000.0, gpus=4, **spec)
    assert only(a_job(spec=spec, past=(more,), cluster=Cluster(largest_host=4))).change == {"gpus": 4, "base_batch": 64}


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


def test_past_jobs_too_short_to_judge_are_ignored() -> None:
    short = past("one", 40_000.0, gpus=1, summary={"epochs_run": 1, "best_epoch": 1})
    assert advice_on(a_job(past=(short,))) == []


def test_past_jobs_on_other_devices_or_with_frozen_bases_are_ignored() -> None:
    elsewhere = past("one", 1_000.0, gpus=1, fields={"device": "H200"})
    frozen = past("two", 40_000.0, batch_size=128, model={"name": "lenet5", "weights": "job:abc"})
    uneven = past("three", 40_000.0, batch_size=128, fields={"even": False})
    assert advice_on(a_job(past=(elsewhere, frozen, uneven))) == []
