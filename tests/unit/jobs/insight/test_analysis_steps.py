"""Where the time of the steps went, what of it is communication, and how busy slots were.

Duty cycle, spikiness and period are checked on signals with a known answer.
"""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given as draws
from hypothesis import strategies as st

from jobs.insight.analysis.communication import Basis, Communication, communication_of
from jobs.insight.analysis.imbalance import imbalances
from jobs.insight.analysis.steps import compute_of_ranks, pattern, shares, split
from jobs.insight.analysis.utilization import slot_use
from tests.unit.jobs.insight import analysis_inputs as inputs

near = pytest.approx


def test_the_shares_of_one_rank_add_up() -> None:
    everything, rank = shares([inputs.steps(0.1, 0.03)])

    assert (everything.rank, rank.rank, rank.steps) == (-1, 0, 100)
    assert (rank.data_wait, rank.allreduce, rank.compute) == (near(0.3), near(0), near(0.7))
    assert rank.step_time_s == near(0.1)
    averaged = [one.allreduce for one in shares([inputs.steps(0.1, 0.03)], in_graph=True)]
    assert averaged == [None, None], "nobody measured it"
    assert (shares([]), pattern([]), split([]).compute) == ([], None, 1)
    thinned = [inputs.steps(0.1, 0.1, count=10, every=9.0), inputs.steps(0.1, 0.0, count=90)]
    assert split(thinned).data_wait == near(0.5), "they weigh as much as the steps for which they stand"


def test_waiting_for_a_rank_that_waits_for_data_counts_as_data_wait() -> None:
    slow_data = inputs.steps([0.1, 0.1], [0.08, 0.0], [0.01, 0.09])

    everything, first, second = shares([slow_data])

    assert (everything.data_wait, everything.allreduce, everything.compute) == (near(0.8), near(0.1), near(0.1))
    assert (first.data_wait, second.data_wait) == (near(0.8), near(0))  # as they recorded it
    found = pattern([slow_data])
    assert found is not None
    assert found.exchange == near(0.1)
    by_turns = slow_data.number % 2 == 0  # which rank waits may change from step to step
    for array in (slow_data.data_wait_s, slow_data.allreduce_s):
        array[by_turns] = array[by_turns][:, ::-1]
    assert split([slow_data]).data_wait == near(0.8)


def test_waits_and_held_up_steps_leave_the_lower_quartile_of_the_exchange() -> None:
    waiting = pattern([inputs.steps([0.1, 0.1], 0.0, [0.01, 0.06])])
    assert waiting is not None
    assert (waiting.exchange, waiting.exchange_p25) == (near(0.1), near(0.1))
    assert waiting.split.communication == near(0.35)  # a share of the slots' time, as in the ledger

    held_up = inputs.steps([0.1, 0.1], 0.0, [0.01, 0.01])
    held_up.time_s[:60], held_up.allreduce_s[:60] = 0.5, 0.41

    found = pattern([held_up])

    assert found is not None
    assert found.exchange > 0.7
    assert found.exchange_p25 == near(0.1)


def test_communication_on_gpus_follows_from_one_gpu_steps_or_utilization() -> None:
    step_pattern = pattern([inputs.steps([0.1, 0.1], 0.0, [0.08, 0.08])])
    assert step_pattern is not None
    busy = [inputs.samples([95.0] * 60, rank=rank) for rank in (0, 1)]

    def communication(**fields: object) -> Communication | None:
        return communication_of(step_pattern, inputs.evidence(on_gpu=True, **fields), busy, ranks=2)

    assert communication() == Communication(0, 0, Basis.UTILIZATION)
    assert communication(one_gpu_step_s=0.095) == Communication(near(0.05), near(0.05), Basis.ONE_GPU)
    assert communication(one_gpu_step_s=0.03) == Communication(near(0.7), near(0.7), Basis.ONE_GPU)
    assert communication_of(step_pattern, inputs.evidence(on_gpu=True), [], ranks=2) is None
    busy = [inputs.samples([30.0] * 60, rank=rank) for rank in (0, 1)]
    assert communication() == Communication(near(0.5), near(0.5), Basis.UTILIZATION)
    assert communication_of(step_pattern, inputs.evidence(), [], ranks=1) is None


def test_a_rank_that_always_computes_longer_is_uneven() -> None:
    uneven = inputs.steps([0.1, 0.1], 0.0, [0.01, 0.05])

    (found,) = imbalances([], compute_of_ranks([uneven]), on_gpu=False)

    assert (found.figure, found.ratio, found.by_rank) == ("compute_s", near(1.8), {0: near(0.09), 1: near(0.05)})
    assert found.text == "Rank 0 computes 90 ms in a step, rank 1 50 ms. Rank 0 is the slowest in 100 % of the steps."
    assert imbalances([], compute_of_ranks([uneven]), on_gpu=True) == []  # on a GPU this difference says nothing
    uneven.allreduce_s[:40] = [0.05, 0.01]  # they take turns
    assert imbalances([], compute_of_ranks([uneven]), on_gpu=False) == []


def test_ranks_that_differ_in_gpu_memory_or_load_are_uneven() -> None:
    mib = 2**20
    busy = np.full(60, 90.0)
    slots = [
        inputs.samples(busy, rank=0, gpu_memory_bytes=11_000 * mib),
        inputs.samples(busy * 0.4, rank=1, gpu_memory_bytes=60 * mib),
    ]

    memory, load = imbalances(slots, None, on_gpu=True)

    assert memory.text == "Rank 0 held 11,000 MiB of GPU memory, rank 1 60 MiB."
    assert memory.ratio == near(11_000 / 60)
    assert load.text == "The GPU of rank 0 is busy 90 % of the time, that of rank 1 36 %."
    alike = [inputs.samples(busy, rank=rank, gpu_memory_bytes=(500 + 300 * rank) * mib) for rank in (0, 1)]
    assert imbalances(alike, compute_of_ranks([inputs.steps([0.1, 0.1], 0.0, [0.01, 0.02])]), on_gpu=True) == []


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
