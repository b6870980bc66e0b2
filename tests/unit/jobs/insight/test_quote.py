"""Quotes and warnings: from the nearest past jobs, with figures that can be worked out by hand; else nothing."""

from dataclasses import replace
from typing import Any

import pytest

from jobs.insight.advice.past import PastJob, comparable
from jobs.insight.advice.quote import PlannedJob, planned_job, quoted
from jobs.insight.advice.throughput import Throughput
from jobs.insight.advice.warnings import StorageLimits, warnings_about
from jobs.model.plan import resolve_plan
from jobs.model.spec import Spec
from jobs.scheduling.fitting import Cluster
from jobs.views.advice import Quote, Range
from tests.slot_classes import alike
from tests.unit.jobs.insight.advice_inputs import SIZES, a_probe, a_spec, past


def job_to_quote(**changes: Any) -> PlannedJob:
    """A job that is to be quoted, on one host."""
    spec = a_spec(**changes)
    return PlannedJob(spec, resolve_plan(spec, SIZES), {1: 1, spec.gpus: 1, max(spec.gpus // 2, 1): 1})


def quote(*jobs: PastJob, **changes: Any) -> Quote:
    """The quote for a job with changes to the usual spec."""
    job_quote = quoted(job_to_quote(**changes), jobs)
    assert job_quote is not None
    return job_quote


def wall_s(job_quote: Quote) -> float:
    assert job_quote.wall_s is not None
    return job_quote.wall_s.mean


def epochs(run: int, *, wall_s: float = 150.0, **figures: Any) -> dict[str, Any]:
    """A training that stopped early after so many epochs."""
    return {"epochs_run": run, "wall_s": wall_s, "stopped_early": True, **figures}


def test_past_runs_of_the_same_spec_give_the_quote_directly() -> None:
    runs = (
        past("new", 9_000.0, name="other", seed=7, summary=epochs(20, wall_s=120.0, setup_s=8.0)),
        past("old", 11_000.0, learning_rate=0.5, summary=epochs(24, wall_s=180.0, setup_s=12.0)),
        past("no", 11_000.0, batch_size=128),
    )
    job_quote = quote(*runs)
    assert (job_quote.basis, job_quote.jobs) == ("same_spec", ["new", "old"])
    assert job_quote.wall_s == Range(mean=150, low=120, high=180)
    assert job_quote.setup_s == Range(mean=10, low=8, high=12)
    assert job_quote.samples_per_s == Range(mean=10_000, low=9_000, high=11_000)
    assert job_quote.gpu_hours == Range(mean=2 * 160 / 3600, low=2 * 128 / 3600, high=2 * 192 / 3600)
    assert job_quote.epochs == "20 to 24 epochs, as 2 past jobs of the same spec ran"
    assert (job_quote.speedup, job_quote.efficiency, job_quote.doubling_gain) == (None, None, None)


def test_runs_with_the_same_batch_and_gpus_give_throughput_epochs_and_overhead() -> None:
    # 421 steps of 128 are 53,888 samples: 5.3888 s an epoch at 10,000 samples/s. 23 epochs in 150 s leave 1.1329 s
    # an epoch outside the steps, for 6,000 validation samples.
    job_quote = quote(past("a", 10_000.0, optimizer="sgd", summary=epochs(23)), dataset={"fraction": 0.5}, epochs=50)
    steps = 27_000 // 128 * 128
    beside = (150 / 23 - 421 * 128 / 10_000) * 10_000
    assert job_quote.basis == "same_batch_and_gpus"
    assert wall_s(job_quote) == pytest.approx(23 * (steps + beside) / 10_000)
    assert job_quote.epochs == "23 epochs, the median of one past job with the same early stopping"


@pytest.mark.parametrize(
    ("field", "speeds", "between", "beyond"),
    [
        ("batch_size", {32: 8_000.0, 128: 16_000.0}, 12_000, (256, 16)),  # 64 is half-way, in the logarithm
        ("gpus", {1: 4_000.0, 4: 12_000.0}, (4_000 * 12_000) ** 0.5, (8,)),
    ],
)
def test_throughput_is_interpolated_between_measured_batches_and_gpus_and_not_beyond(
    field: str, speeds: dict[int, float], between: float, beyond: tuple[int, ...]
) -> None:
    runs = [past(f"{value}", speed, **{field: value}) for value, speed in speeds.items()]
    found = quote(*runs)
    assert found.basis == "scaled"
    assert found.samples_per_s is not None
    assert found.samples_per_s.mean == pytest.approx(between)
    assert (found.speedup, found.doubling_gain) == (None, None)  # they would follow from the same interpolation
    for value in beyond:
        assert quoted(job_to_quote(**{field: value}), runs) is None


def test_quote_uses_all_epochs_or_the_median_of_jobs_with_the_same_early_stopping() -> None:
    other = past("other", early_stopping={"patience": 9}, summary=epochs(29))
    runs = (past("a", summary=epochs(10)), past("b", summary=epochs(12)), past("c", summary=epochs(26)), other)
    all_of_them = quote(*runs, early_stopping=None, epochs=40)
    assert all_of_them.epochs == "all 40 epochs, as early stopping is off"
    twelve = quote(*runs, optimizer="sgd")
    assert twelve.epochs == "12 epochs, the median of 3 past jobs with the same early stopping"
    assert wall_s(all_of_them) == pytest.approx(wall_s(twelve) * 40 / 12)
    limited = quote(*runs, optimizer="sgd", epochs=11)
    assert limited.epochs == "11 epochs, the median of 3 past jobs with the same early stopping"
    unknown = quote(past("d", epochs=5, summary=epochs(5, stopped_early=False)), optimizer="sgd")
    assert (unknown.epochs, unknown.wall_s, unknown.samples_per_s is None) == (None, None, False)


def test_a_job_that_continues_another_is_quoted_for_the_epochs_that_are_left() -> None:
    runs = (past("a", summary=epochs(20)), past("b", summary=epochs(20)))
    whole_s = wall_s(quote(*runs, early_stopping=None, epochs=40))
    rest = quote(*runs, early_stopping=None, epochs=40, continue_from="job:a@30")
    assert rest.epochs == "the 10 epochs that are left of 40, as early stopping is off"
    assert wall_s(rest) == pytest.approx(whole_s / 4)
    stopped = quote(*runs, epochs=40, continue_from="job:a@15")
    assert stopped.epochs == "5 more epochs, the median of 2 past jobs with the same early stopping"
    assert wall_s(stopped) == pytest.approx(whole_s / 8)
    assert wall_s(quote(*runs, epochs=40, continue_from="job:a@30")) > 0, "past the end of all past jobs"

    anew, later = past("a", summary=epochs(23)), past("b", continue_from="job:a@23", summary=epochs(46))
    assert later.overhead == anew.overhead
    same = quote(later, continue_from="job:a@23")
    assert same.epochs == "23 epochs, as one past job of the same spec ran"


def test_speedup_and_doubling_gain_compare_measured_runs_with_the_same_per_gpu_batch() -> None:
    runs = (
        past("a", 4_000.0, gpus=1),
        past("b", 7_000.0),
        past("c", 9_100.0, gpus=4),
        past("x", 1.0, gpus=1, batch_size=8),
    )
    found = quote(*runs, gpus=4)
    assert found.speedup == pytest.approx(9_100 / 4_000)
    assert found.efficiency == pytest.approx(9_100 / 16_000)
    assert found.doubling_gain == pytest.approx(1.3)
    assert quote(*runs, gpus=1).speedup == 1

    of_global_batch = (
        past("a", 4_000.0, gpus=1, batch_size=256), past("b", 5_000.0, gpus=2, batch_size=128),
        past("x", 2_500.0, gpus=1, batch_size=128),
    )  # fmt: skip
    found = quote(*of_global_batch, gpus=2, batch_size=256, batch_per="global")
    assert (found.speedup, found.doubling_gain) == (1.25, 1.25)

    short = {"epochs_run": 1, "wall_s": 2.0}
    found = quote(past("a", 40_000.0, gpus=1, summary=short), past("b", 41_000.0, summary=short))
    assert (found.basis, found.doubling_gain) == ("same_spec", None), "too short to compare"


def test_probe_gives_the_quote_only_without_a_past_training() -> None:
    probed = a_probe("p", {64: 9_000.0, 128: 12_000.0})
    assert quote(probed).jobs == ["p"]
    assert quote(probed, past("a", 8_000.0, optimizer="sgd")).samples_per_s == Range(mean=8_000, low=8_000, high=8_000)
    assert quoted(job_to_quote(probe={}), (past("a"),)) is None
    assert quoted(job_to_quote(), ()) is None


def test_runs_on_the_same_number_of_hosts_are_preferred() -> None:
    runs = (past("alone", 10_000.0), past("apart", 6_000.0, fields={"hosts": 2}))
    assert quote(*runs).jobs == ["alone"]
    found = quoted(replace(job_to_quote(), hosts={1: 1, 2: 2}), runs)
    assert found is not None
    assert found.jobs == ["apart"]
    for hosts, jobs in (({}, ("alone",)), ({2: 2}, ("apart",)), ({2: 4}, ("alone", "apart"))):
        reading = Throughput(runs, hosts=hosts).at(2, 64)
        assert reading is not None
        assert reading.jobs == jobs


def test_other_devices_caches_and_frozen_bases_are_not_comparable() -> None:
    jobs = [
        past("same"),
        past("gpu", fields={"device": "H200"}),
        past("uneven", fields={"even": False}),
        past("cached", dataset={"cache": "memory"}),
        past("frozen", model={"name": "lenet5", "weights": "job:abc"}),
        past("thawed", model={"name": "lenet5", "weights": "job:abc", "freeze_base": False}),
    ]
    assert [job.id for job in comparable(jobs, a_spec(), "cpu")] == ["same", "thawed"]


def test_planned_job_counts_the_hosts_that_it_would_fill() -> None:
    cluster = Cluster(alike(name, "cpu", 0, 4, "us") for name in ("a", "b"))
    spec = a_spec(gpus=8)
    found = planned_job(spec, resolve_plan(spec, SIZES), cluster)
    assert found.hosts == {1: 1, 4: 1, 8: 2}


# Warnings


def warned(spec: Spec, found: Quote | None = None, *alike: PastJob, hosts: int = 1) -> list[str]:
    return warnings_about(spec, resolve_plan(spec, SIZES), found, alike, hosts=hosts)


def test_checkpoints_and_a_cache_above_the_operators_limits_get_a_warning() -> None:
    run, spec = past("a", 5_200.0, gpus=1), a_spec(checkpoint={"keep": 100})
    assert run.summary is not None
    checkpoint_gb = (2 * run.summary.model_bytes + 8 * run.summary.trainable_parameters) / 1e9
    artifact_gb = 2 * run.summary.model_bytes / 1e9
    plan = resolve_plan(spec, SIZES)

    def warned_of(checkpoints: float) -> list[str]:
        limits = StorageLimits(job_gb=checkpoints * checkpoint_gb + artifact_gb)
        return warnings_about(spec, plan, None, [run], storage=limits)

    assert warned_of(100.1) == []
    for checkpoints in (99, 1.1):
        (warning,) = warned_of(checkpoints)
        assert warning.startswith(f"100 checkpoints of about {checkpoint_gb:.2g} GB, with the artifacts, are more than")
        assert warning.endswith(": fewer will be kept.")
    (warning,) = warned_of(0.9)
    assert warning.startswith(f"A checkpoint of about {checkpoint_gb:.2g} GB and artifacts of about {artifact_gb:.2g} ")
    assert warning.endswith(": the job will fail before its first step.")
    cached = a_spec(dataset={**spec.dataset.model_dump(mode="json"), "cache": "disk", "cache_limit_gb": 50})
    assert warnings_about(cached, plan, None, [], storage=StorageLimits(cache_gb=30)) == [
        "A host's cache has at most 30 GB here: dataset.cache_limit_gb of 50 is cut to that."
    ]


@pytest.mark.parametrize(
    ("fields", "hosts", "warning"),
    [
        ({}, 1, None),
        ({"schedule": {"name": "step", "epochs": [30, 60]}}, 1,
         "The rate never falls: the schedule's first step is after epoch 30 of 30."),
        ({"schedule": {"name": "plateau", "patience": 3}}, 1,
         "The rate never falls: early stopping ends the job after 3 epochs without an improvement, and a p"),
        ({"schedule": {"name": "step", "epochs": [30, 60, 80]}, "epochs": 90}, 1,
         "it waits 3 epochs for an improvement, but the schedule has up to 30 epochs with the same rate before a step"),
        ({"schedule": {"name": "step", "epochs": [20, 29, 60]}, "early_stopping": {"patience": 20}}, 1, None),
        ({"schedule": {"name": "step", "epochs": [9]}, "early_stopping": None, "epochs": 10}, 1, None),
        ({"schedule": "plateau"}, 1, None),
        ({"schedule": {"name": "plateau", "patience": 9, "monitor": "loss"}}, 1, None),
        ({"schedule": {"name": "plateau", "patience": 9}, "early_stopping": None, "epochs": 10}, 1, None),
        ({"batch_size": 9_000}, 1, "With a global batch of 18000 an epoch of 54000 samples has only 3 steps."),
        ({"batch_size": 9_000, "steps_per_epoch": 3}, 1, None),
        ({"gpus": 8}, 2, "run on 2 hosts"),
        ({"gpus": 8, "placement": "spread"}, 2, None),
        ({"probe": {}, "early_stopping": None, "epochs": 50, "batch_size": 9_000}, 2, None),
    ],
    ids=str,
)  # fmt: skip
def test_a_schedule_few_steps_and_several_hosts_get_a_warning(
    fields: dict[str, Any], hosts: int, warning: str | None
) -> None:
    found = warned(a_spec(**fields), hosts=hosts)
    assert len(found) == (warning is not None)
    assert warning is None or warning in found[0]


def test_a_doubling_a_time_limit_and_a_batch_that_past_jobs_speak_against_get_a_warning() -> None:
    runs = (past("a", 5_200.0, gpus=1), past("b", 10_000.0))
    assert warned(a_spec(), quote(*runs), *runs) == []

    two = past("b", 7_000.0)
    (doubling,) = warned(a_spec(gpus=4), quote(two, past("c", 9_100.0, gpus=4), gpus=4))
    assert doubling.startswith("In past jobs 4 GPUs reached 1.3x the throughput of 2 (ideal: 2x): the second half")
    assert warned(a_spec(gpus=4), quote(two, past("c", 10_600.0, gpus=4), gpus=4)) == []

    found = quote(past("a", summary=epochs(23, wall_s=150.0, setup_s=10.0)))
    assert warned(a_spec(time_limit_s=100), found) == [
        "The job is expected to take 160 s, but time_limit_s ends it after 100 s."
    ]
    assert warned(a_spec(time_limit_s=200), found) == warned(a_spec(time_limit_s=100)) == []

    probed = a_probe("p", {64: 9_000.0, 128: None})
    assert warned(a_spec(batch_size=256), None, probed) == [
        "256 samples per GPU will not fit into its memory: batch probe p found that 64 fit and 128 do not."
    ]
    assert warned(a_spec(batch_size=64), None, probed) == []


def test_many_epochs_without_early_stopping_get_a_warning_unless_past_jobs_needed_them() -> None:
    off = a_spec(early_stopping=None, epochs=40)
    assert len(warned(off)) == 1
    assert warned(a_spec(early_stopping=None, epochs=10)) == []
    early = [past(f"{best}", summary={"best_epoch": best, "epochs_run": 40}) for best in (6, 8, 30)]
    assert "at their best after 8 (median of 3)" in warned(off, None, *early)[0]
    by_loss = a_spec(early_stopping=None, epochs=40, goal={"metric": "val_loss"})
    assert "all 40 epochs will run, even" in warned(by_loss, None, *early)[0], "these were judged by their accuracy"
    late = past("late", summary={"best_epoch": 38, "epochs_run": 40})
    assert warned(off, None, late) == []
