"""A batch probe on one rank: what is measured, where throughput flattens, and what is proposed."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from jobs.model.records import ProbeMeasured, ProbePoint, ProbeStepped
from jobs.model.spec import spec_from
from tests.datasets import open_dataset, plan_of
from tests.unit.trainer.made_up import ListRecorder
from tests.weights import launch
from trainer import probe
from trainer.distributed import Ranks
from trainer.mirrored import Replica
from trainer.models import build_model
from trainer.probe import build, search
from trainer.probing import measuring, memory
from trainer.probing.knee import find_knee
from trainer.probing.measuring import Measuring, Timed, averaged, medians, thirds
from trainer.probing.memory import expected_peak
from trainer.probing.proposal import EndedBy, findings_of
from trainer.session import Opened
from trainer.trainable import build_replicas

RISING = [100.0, 190.0, 350.0, 600.0, 900.0, 950.0, 970.0]  # flat from the fifth on


def test_the_knee_is_where_throughput_is_within_a_tenth_of_the_best() -> None:
    assert find_knee(RISING) == 4
    assert find_knee([100, 180, 200, 190, 150]) == 1  # throughput may fall after the knee
    assert find_knee([200, 190, 180, 150]) == 0
    for growing in ([], [100.0], [100.0, 190.0], [100.0, 190.0, 350.0, 600.0]):
        assert find_knee(growing) is None


def test_one_noisy_point_moves_the_knee_by_no_more_than_one() -> None:
    for position, factor in itertools.product(range(len(RISING)), (0.3, 0.7, 1.4, 3.0)):
        knee = find_knee([value * (factor if place == position else 1) for place, value in enumerate(RISING)])
        assert knee in (3, 4, 5), (position, factor)


def test_expected_memory_is_a_fixed_part_and_a_part_that_doubles() -> None:
    assert [expected_peak(peaks) for peaks in ([], [500], [500, 510], [500, 510, 530])] == [0, 500, 530, 570]
    assert expected_peak([510, 500]) == 500


def test_times_are_medians_of_each_third_averaged_over_ranks() -> None:
    steps = [Timed(0.1 * number, number, 0.5 * number) for number in (9, 9, 9, 2, 8, 2, 7, 5, 5, 5)]
    stretches = [medians(third) for third in thirds(steps)]
    assert [third.step_s for third in stretches] == [9, 4.5, 5]
    assert [medians(third) for third in thirds(steps[:3])] == steps[:3]
    other = [Timed(0, 9, 0), Timed(0, 10, 0), Timed(0, 5, 0)]
    assert [third.step_s for third in averaged([stretches, other])] == [9, 7.25, 5]


def points(*throughputs: float, gpus: int = 2, smallest: int = 8, too_large: bool = False) -> list[ProbePoint]:
    """Points of these throughputs, and one more that does not fit if `too_large`."""
    batches = [smallest << place for place in range(len(throughputs))]
    measured = [
        ProbePoint(
            per_gpu_batch=batch, global_batch=batch * gpus, fits=True, steps=9, step_time_s=batch * gpus / throughput,
            samples_per_s=throughput, data_wait_s=0.0, allreduce_s=0.0, memory_bytes=10**8,
        )
        for batch, throughput in zip(batches, throughputs, strict=True)
    ]  # fmt: skip
    larger = smallest << len(throughputs)
    return measured + [ProbePoint(per_gpu_batch=larger, global_batch=larger * gpus, fits=False)] * too_large


def findings(points: Sequence[ProbePoint], ended_by: EndedBy = "largest", *, samples: int = 60_000, **fields: Any):
    spec = spec_from({"dataset": "digits", "gpus": 2, "batch_size": 32, "learning_rate": 0.001, "probe": {}} | fields)
    return findings_of(points, ended_by, spec, train_samples=samples)


def test_batch_of_the_knee_is_proposed_with_the_figures() -> None:
    found = findings(points(*RISING))
    assert (found.knee_batch, found.largest_batch, found.batch_size) == (128, 512, 128)
    assert found.learning_rate == 0.002  # x4, by the square root
    assert found.why == (
        "Throughput flattens at 900 samples/s with a batch of 128 per GPU; the best was 970 with 512. "
        "The batch changes from 32 per GPU by 4, so the rate by 2 (square root for adam)."
    )
    assert (findings(points(*RISING), optimizer="sgd").why or "").endswith("by 4 (linear for sgd); warm it up.")
    waits = [
        point.model_copy(update={"data_wait_s": point.step_time_s} if point.step_time_s else {})
        for point in points(*RISING)
    ]
    assert (findings(waits).why or "").endswith(
        "50 % of the time goes into waiting for data, which is not in these figures."
    )


@pytest.mark.parametrize(
    ("ended_by", "end"),
    [
        ("largest", "64 was not tried; raise probe.largest to see"),
        ("memory", "a batch of 64 does not fit"),
        ("data", "a batch of 64 per GPU is more than the training data has"),
        ("time", "its steps take longer than probe.seconds; raise it to see further"),
    ],
)
def test_largest_batch_that_fits_is_proposed_without_a_knee(ended_by: EndedBy, end: str) -> None:
    found = findings(points(100, 190, 350, too_large=ended_by == "memory"), ended_by)
    assert (found.knee_batch, found.largest_batch, found.batch_size, found.learning_rate) == (None, 32, 32, 0.001)
    assert found.why == (
        f"Throughput grows to the end: 350 samples/s with a batch of 32 per GPU, 1.84 times that of 16; {end}. "
        "The spec has that batch already."
    )


def test_no_batch_is_proposed_when_none_fits() -> None:
    nothing = findings(points(too_large=True), "memory")
    assert (nothing.largest_batch, nothing.batch_size, nothing.learning_rate) == (None, None, None)
    assert nothing.why == "No batch was measured: the smallest one, 8, does not fit the memory. Lower probe.smallest."
    assert "more than the training data has" in (findings([], "data").why or "")


@pytest.mark.parametrize(
    ("fields", "batch_size", "rate"),
    [
        ({"optimizer": "sgd"}, 128, 0.004),
        ({"optimizer": "nadam"}, 128, 0.002),
        ({"optimizer": "sgd", "batch_size": 4}, 128, 0.008),  # x32, but 8 at most
        ({"optimizer": "sgd", "batch_size": 256}, 128, 0.0005),
        ({"batch_size": 48}, 128, 0.00163),
        ({"batch_per": "global", "batch_size": 64}, 256, 0.002),  # 32 per GPU
        ({"batch_per": "global", "batch_size": 128, "accumulate": 2}, 512, 0.002),  # so is this
        ({"lr_scaling": "linear", "base_batch": 32}, 128, 0.001),  # scaled by the spec itself
        ({"lr_scaling": "linear"}, 128, 0.002),  # scaled from one GPU's batch, whatever its size
    ],
)
def test_proposed_rate_is_scaled_with_the_batch(fields: dict[str, Any], batch_size: int, rate: float) -> None:
    found = findings(points(*RISING), **fields)
    assert (found.batch_size, found.learning_rate) == (batch_size, rate)


def test_proposed_batch_leaves_enough_steps_in_an_epoch() -> None:
    found = findings(points(*RISING), samples=1000)
    assert (found.knee_batch, found.batch_size) == (128, 32)
    assert "But then an epoch would be 3 steps; with 32 it is 15." in (found.why or "")
    assert findings(points(*RISING), samples=2000, accumulate=2).batch_size == 32
    assert findings(points(*RISING), samples=1000, batch_size=64).batch_size == 64  # the batch of the spec
    assert findings(points(*RISING), samples=1000, steps_per_epoch=50).batch_size == 128
    assert findings(points(*RISING), samples=100).batch_size == 32
    assert findings(points(*RISING), samples=100, batch_size=4).batch_size == 8


@pytest.fixture
def opened(connected: None, tmp_path: Path) -> Opened:
    """100 training samples, as one rank has them."""
    dataset = open_dataset({"source": "synthetic:samples=125,shape=8x8x1", "validation": 0.2}, tmp_path)
    spec = spec_from({"dataset": "synthetic", "model": "mlp"})
    return Opened(Ranks(0, 0, 1, 1), dataset, plan_of(dataset, spec))


def measuring_on(opened: Opened, **probe: Any) -> Measuring:
    """A `Measuring` on the opened data."""
    spec = spec_from({"dataset": "synthetic", "model": "mlp", "probe": {"seconds": 0.05} | probe})
    return build(launch(Path("/nowhere"), spec), opened, ListRecorder())


def searched(opened: Opened, measuring: Measuring) -> tuple[list[tuple[int, bool]], str]:
    """Which batches fit, and why no more were tried."""
    points, ended_by = search(measuring.launch.spec, opened, measuring)
    return [(point.per_gpu_batch, point.fits) for point in points], ended_by


def test_batches_double_until_they_exceed_the_data(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "_REPORT_EVERY_S", 0.0)
    made_here = measuring_on(opened, smallest=20)
    points, ended_by = search(made_here.launch.spec, opened, made_here)
    assert ([point.per_gpu_batch for point in points], ended_by) == ([20, 40, 80], "data")
    for point in points:
        assert point.fits
        assert point.steps >= 3
        assert point.step_time_s is not None
        assert point.samples_per_s == pytest.approx(point.global_batch / point.step_time_s)
        assert (point.memory_bytes or 0) > 50e6  # TensorFlow counts too
    records = made_here.recorder.records  # type: ignore[attr-defined]
    assert [record.point for record in records if isinstance(record, ProbeMeasured)] == points
    told = [(record.per_gpu_batch, record.steps) for record in records if isinstance(record, ProbeStepped)]
    assert told == [(point.per_gpu_batch, steps) for point in points for steps in range(point.steps + 1)]


def test_search_ends_at_the_largest_batch_or_when_a_step_takes_too_long(opened: Opened) -> None:
    assert searched(opened, measuring_on(opened, smallest=5, largest=19)) == ([(5, True), (10, True)], "largest")
    assert searched(opened, measuring_on(opened, smallest=5, seconds=1e-9)) == ([(5, True)], "time")


def test_batches_beyond_the_memory_of_the_host_are_not_tried(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_available_bytes", lambda: 1000)
    monkeypatch.setattr(memory, "peak_bytes", lambda device: 10**9 if len(peaks) else peaks.append(0) or 10**6)
    peaks: list[int] = []
    fits, ended_by = searched(opened, measuring_on(opened, smallest=10))
    assert (fits, ended_by) == ([(10, True), (20, True), (40, False)], "memory")


def test_step_without_memory_ends_the_search_and_other_errors_are_raised(opened: Opened) -> None:
    def hungry(features: np.ndarray, *_: Any) -> tf.Tensor:
        if len(features) > 20:
            raise tf.errors.ResourceExhaustedError(None, None, "Graph execution error:\n\nOOM when allocating a tensor")
        return tf.zeros(())

    without_memory = measuring_on(opened, smallest=20)
    without_memory.alone = hungry
    assert searched(opened, without_memory) == ([(20, True), (40, False)], "memory")
    broken = measuring_on(opened)
    broken.alone = lambda *_: tf.zeros([2]) + tf.zeros([3])
    with pytest.raises(tf.errors.InvalidArgumentError):
        searched(opened, broken)


def test_probe_changes_no_weight(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    models = []

    def build_remembered(*of: Any) -> list[Replica]:
        replicas = build_replicas(*of)
        models.extend(replica.model for replica in replicas)
        return replicas

    monkeypatch.setattr(probe, "build_replicas", build_remembered)
    here = measuring_on(opened, largest=8)
    assert searched(opened, here) == ([(8, True)], "largest")
    fresh = build_model(here.launch.spec, opened.dataset.facts)
    for probed, drawn in zip(models[0].weights, fresh.weights, strict=True):
        assert np.array_equal(probed.numpy(), drawn.numpy())
