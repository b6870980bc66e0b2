"""How busy slots were: duty cycle, spikiness and period, each checked on a signal with a known answer."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given as draws
from hypothesis import strategies as st

from jobs.insight.analysis.utilization import slot_use
from tests.unit.jobs.insight import analysis_inputs as inputs

near = pytest.approx


def square(*, period: int, on: int, count: int = 600, high: float = 100.0) -> npt.NDArray[np.float64]:
    """So many samples of each period are `high`, the others 0."""
    return np.where(np.arange(count) % period < on, high, 0.0)


@pytest.mark.parametrize(("period", "on"), [(10, 5), (10, 2), (24, 12), (7, 3)])
def test_a_square_wave_is_spiky_with_its_period_and_duty_cycle(period: int, on: int) -> None:
    use = slot_use(inputs.samples(square(period=period, on=on)))

    assert use.duty_cycle == near(on / period, abs=0.01)
    assert use.spikiness > 0.95
    assert use.period_s == near(period, rel=0.02)


def test_steady_load_is_not_spiky() -> None:
    noise = np.random.default_rng(1).normal(0, 2, 600)

    use = slot_use(inputs.samples(90 + noise))

    assert (use.duty_cycle, use.period_s) == (1.0, None)
    assert use.spikiness < 0.1
    assert use.spread.p5 == near(86.7, abs=1)
    assert use.spread.p95 == near(93.3, abs=1)
    assert (use.samples, use.seconds) == (600, 599.0)
    drift = np.linspace(20, 100, 600)
    drift[::60] = 0.0
    assert slot_use(inputs.samples(drift)).spikiness < 0.15, "neither are drift and rare dips"


def test_noise_has_no_period_and_late_samples_do_not_hide_one() -> None:
    random = np.random.default_rng(1)
    noise = slot_use(inputs.samples(random.choice([0.0, 100.0], 600)))
    assert noise.spikiness > 0.9
    assert noise.period_s is None
    wave = inputs.samples(square(period=20, on=10))
    wave.at[:] += random.uniform(0, 0.4, 600)
    assert slot_use(wave).period_s == near(20, rel=0.05)


def test_rank_on_several_cores_is_measured_against_its_own_peak() -> None:
    use = slot_use(inputs.samples(square(period=10, on=5, high=380.0), metric="cpu_percent"))

    assert use.duty_cycle == near(0.5)
    assert use.spread.greatest == 380
    assert 0.95 < use.spikiness <= 1


@draws(st.lists(st.floats(0, 800), min_size=1, max_size=200))
def test_duty_cycle_and_spikiness_lie_between_0_and_1_for_any_samples(busy: list[float]) -> None:
    use = slot_use(inputs.samples(busy))

    assert 0 <= use.duty_cycle <= 1
    assert 0 <= use.spikiness <= 1
