"""What the figures of a study say in words."""

from collections.abc import Sequence
from typing import Any

from jobs.insight.studies.figures import baseline_of, compared
from jobs.insight.studies.findings import findings_of
from jobs.insight.studies.statistics import interval
from jobs.views.studies import CellReport


def cell(
    gpus: int,
    wall_s: float,
    *,
    accuracy: Sequence[float] = (0.9, 0.9),
    hosts: int = 1,
    failed: int = 0,
    unfinished: int = 0,
    epochs: int = 10,
    **values: Any,
) -> CellReport:
    """A cell whose repeats took equally long."""
    return CellReport(
        values={"gpus": gpus, **values},
        gpus=gpus, hosts=hosts, jobs=["a", "b"], repeats=2, failed=failed, unfinished=unfinished,
        wall_s=interval([wall_s, wall_s]), setup_s=None, samples_per_s=interval([1000 / wall_s] * 2),
        val_accuracy=interval(accuracy), epochs_run=interval([epochs, epochs]), time_to_target_s=None,
        gpu_hours_to_target=None, reached_target=0, gpu_hours=None, speedup=None, throughput_speedup=None,
        efficiency=None, accuracy_agreement=None,
    )  # fmt: skip


def said(*cells: CellReport, asked: int = 2, on_fewer: Sequence[str] = ()) -> list[str]:
    varied = list(cells[0].values)
    baseline = baseline_of(cells, varied)
    return findings_of(compared(cells, baseline), varied=varied, baseline=baseline, asked=asked, on_fewer=on_fewer)


def test_a_speedup_with_its_efficiency() -> None:
    assert said(cell(1, 30, batch_size=64), cell(2, 20, batch_size=64)) == [
        "2 GPUs are 1.5 times as fast as 1 with a batch of 64 (efficiency 0.75).",
        "Accuracy agrees with that of 1 GPU in the cell with more.",
    ]


def test_the_step_that_no_longer_pays_is_named() -> None:
    found = said(cell(1, 40), cell(4, 11), cell(8, 10, hosts=2), cell(16, 12, hosts=2))

    assert found[0] == "16 GPUs are 3.3 times as fast as 1 (efficiency 0.21)."
    assert found[1] == (
        "Going from 4 to 8 GPUs and from 1 to 2 hosts paid less than half: 1.1 times as fast, where 2 is the ideal."
    )
    assert found[2] == "Going from 8 to 16 GPUs paid less than half: 0.83 times as fast, where 2 is the ideal."
    assert not any("from 1 to 4" in text for text in found)


def test_more_gpus_that_are_slower_or_no_faster() -> None:
    assert said(cell(1, 10), cell(2, 12))[0].startswith("2 GPUs are slower than 1 (speed-up 0.83, efficiency")
    assert said(cell(1, 10), cell(2, 9.9))[0].startswith("2 GPUs are no faster than 1 (speed-up 1, efficiency 0.51)")


def test_a_speedup_that_may_be_chance_is_told_as_such() -> None:
    noisy = cell(2, 20).model_copy(update={"wall_s": interval([10, 30])})
    assert any("1 of 1 speed-ups may be chance" in text for text in said(cell(1, 30), noisy))
    assert not any("chance" in text for text in said(cell(1, 30), cell(2, 20)))


def test_many_combinations_are_told_together() -> None:
    ones = [cell(1, 30, batch_size=batch) for batch in range(8)]
    twos = [cell(2, 20 + batch, batch_size=batch) for batch in range(8)]
    found = said(*ones, *twos)

    assert found[0] == ("2 GPUs are 1.1 to 1.5 times as fast as 1 (the median is 1.3), the most with a batch of 0.")
    assert sum("are 1.1 to 1.5 times as fast" in text for text in found) == 1
    assert sum("paid less than half in 7 of 8 cells" in text for text in found) == 1


def test_the_same_gpus_on_more_hosts() -> None:
    found = said(cell(8, 10, placement="pack"), cell(8, 13, hosts=2, placement="spread"), cell(1, 60, placement="pack"))
    assert "8 GPUs on 2 hosts are slower than 8 on 1: they take 1.3 times as long." in found


def test_accuracy_that_differs_by_more_than_chance() -> None:
    found = said(cell(1, 20, accuracy=[0.90, 0.901]), cell(2, 10, accuracy=[0.87, 0.871]))

    assert "val_accuracy with 2 GPUs is 3.0 points below that with 1, which is more than chance." in found
    assert not any("agrees" in text for text in found)


def test_what_a_larger_batch_brings_and_costs() -> None:
    cells = [cell(1, 20 / (1 + i), accuracy=[0.93 - 0.01 * i] * 2, batch_size=64 * 2**i) for i in range(3)]
    assert said(*cells)[-1] == (
        "A batch of 256 instead of a batch of 64 makes 3 times as many samples a second "
        "and costs 2.0 points of val_accuracy."
    )


def test_texts_are_compared_from_the_least_accurate_to_the_most() -> None:
    found = said(cell(1, 5, accuracy=[0.9, 0.9], model="mlp"), cell(1, 10, accuracy=[0.95, 0.95], model="lenet5"))
    assert found == [
        "lenet5 instead of mlp slows it down to 0.5 times the samples a second and brings 5.0 points of val_accuracy."
    ]


def test_values_that_make_no_difference_are_not_told() -> None:
    assert said(cell(1, 10, learning_rate=0.1), cell(1, 10.5, learning_rate=0.2)) == []


def test_unequal_numbers_of_epochs_are_told_of() -> None:
    found = said(cell(1, 10, epochs=10), cell(2, 10, epochs=20))
    assert "2 GPUs trained 20 epochs and 1 10, which is in the speed-up; that of the throughput is 1." in found


def test_cautions() -> None:
    found = said(cell(1, 10, failed=1), cell(2, 10, unfinished=2), asked=1, on_fewer=["x"])
    assert found[-4:] == [
        "1 of 2 jobs failed or were cancelled: their cells rest on fewer repeats.",
        "2 of 2 jobs have not ended: the figures will change.",
        "Part of job x ran on fewer GPUs than asked for: those figures mislead.",
        "Each cell was run once, so nothing says how much of a difference is chance: ask for 3 repeats.",
    ]
