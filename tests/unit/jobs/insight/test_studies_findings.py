"""The findings of a study: its figures in words."""

from collections.abc import Sequence
from typing import Any

import pytest

from jobs.insight.studies.cpu_speedups import with_cpu_speedups
from jobs.insight.studies.figures import baseline_of, compared_with
from jobs.insight.studies.findings import findings_of
from jobs.insight.studies.statistics import interval
from jobs.views.studies import CellReport, CurveAgreement, Goal, Outlier

ACCURACY = Goal(metric="val_accuracy", mode="max")


def cell(
    gpus: int,
    wall_s: float,
    *,
    accuracy: Sequence[float] = (0.9, 0.9),
    hosts: int = 1,
    failed: int = 0,
    unfinished: int = 0,
    epochs: int = 10,
    metrics: dict[str, Sequence[float]] | None = None,
    **values: Any,
) -> CellReport:
    """A cell whose repeats took equally long."""
    intervals = {name: interval(figures) for name, figures in ({"val_accuracy": accuracy} | (metrics or {})).items()}
    return CellReport(
        values={"gpus": gpus, **values},
        gpus=gpus, hosts=hosts, jobs=["a", "b"], repeats=2, failed=failed, unfinished=unfinished,
        wall_s=interval([wall_s, wall_s]), setup_s=None, samples_per_s=interval([1000 / wall_s] * 2),
        val_accuracy=interval(accuracy), metrics=intervals, epochs_run=interval([epochs, epochs]),
        time_to_target_s=None, gpu_hours_to_target=None, reached_target=0, gpu_hours=None, speedup=None,
        throughput_speedup=None,
        efficiency=None, accuracy_agreement=None,
    )  # fmt: skip


def findings(
    *cells: CellReport, repeats: int = 2, on_fewer_gpus: Sequence[str] = (), goal: Goal | None = ACCURACY
) -> list[str]:
    varied = list(cells[0].values)
    baseline = baseline_of(cells, varied)
    return findings_of(
        compared_with(cells, baseline, goal),
        goal=goal,
        varied=varied,
        baseline=baseline,
        repeats=repeats,
        on_fewer_gpus=on_fewer_gpus,
    )


def test_speedups_are_told_with_their_efficiency_and_what_a_doubling_gained() -> None:
    assert findings(cell(1, 30, batch_size=64), cell(2, 20, batch_size=64)) == [
        "Batch 64: 2 GPUs ran at 1.5x the speed of 1 (efficiency 0.75).",
        "val_accuracy on more GPUs agrees with that on 1 GPU in 1 of 1 cell.",
    ]
    found = findings(cell(1, 40), cell(4, 11), cell(8, 10, hosts=2), cell(16, 12, hosts=2))
    assert found[:3] == [
        "16 GPUs ran at 3.3x the speed of 1 (efficiency 0.21).",
        "8 GPUs on 2 hosts ran at 1.1x the speed of 4 on 1 host (ideal: 2x).",
        "16 GPUs ran at 0.83x the speed of 8 (ideal: 2x).",
    ]
    assert not any(text.startswith("4 GPUs") for text in found)


@pytest.mark.parametrize(
    ("cells", "finding"),
    [
        ([cell(1, 10), cell(2, 12)], "2 GPUs were slower than 1: 0.83x the speed (efficiency 0.42)."),
        ([cell(1, 10), cell(2, 9.9)], "2 GPUs were no faster than 1: 1x the speed (efficiency 0.51)."),
        (
            [cell(8, 10, placement="pack"), cell(8, 13, hosts=2, placement="spread"), cell(1, 60, placement="pack")],
            "8 GPUs were slower on 2 hosts than on 1: 1.3x the time.",
        ),
        (
            [cell(1, 20, accuracy=[0.90, 0.901]), cell(2, 10, accuracy=[0.87, 0.871])],
            "val_accuracy on 2 GPUs was 3.0 points below that on 1, which is more than chance.",
        ),
        (
            [cell(1, 20 / (1 + i), accuracy=[0.93 - 0.01 * i] * 2, batch_size=64 * 2**i) for i in range(3)],
            "Batch 256 instead of batch 64: 3x the samples per second, val_accuracy 2.0 points lower.",
        ),
        (  # from the least accurate to the most
            [cell(1, 5, accuracy=[0.9, 0.9], model="mlp"), cell(1, 10, accuracy=[0.95, 0.95], model="lenet5")],
            "lenet5 instead of mlp: 0.5x the samples per second, val_accuracy 5.0 points higher.",
        ),
        (
            [cell(1, 10, epochs=10), cell(2, 10, epochs=20)],
            "2 GPUs trained for 20 epochs, 1 for 10. The speed-up includes this; by throughput it is 1x.",
        ),
        (
            [cell(2, 9, strategy="horovod"), cell(2, 9, strategy="mirrored")],
            "2 GPUs were as fast with mirrored as with horovod.",
        ),
    ],
)
def test_what_differs_is_told(cells: list[CellReport], finding: str) -> None:
    assert finding in findings(*cells)


def test_what_does_not_differ_or_cannot_be_compared_is_not_told() -> None:
    assert findings(cell(1, 10, learning_rate=0.1), cell(1, 10.5, learning_rate=0.2)) == []
    assert not any("epochs" in text for text in findings(cell(1, 30, epochs=0), cell(2, 20)))
    differs = findings(cell(1, 20, accuracy=[0.90, 0.901]), cell(2, 10, accuracy=[0.87, 0.871]))
    assert not any("agrees" in text for text in differs)
    noisy = cell(2, 20).model_copy(update={"wall_s": interval([10, 30])})
    assert any("1 of 1 speed-ups may be chance" in text for text in findings(cell(1, 30), noisy))
    assert not any("chance" in text for text in findings(cell(1, 30), cell(2, 20)))


def test_strategies_are_compared_where_both_ran() -> None:
    times_s = {("horovod", 1): 30, ("horovod", 2): 20, ("mirrored", 1): 10, ("mirrored", 2): 16.5, ("mirrored", 4): 1}
    found = findings(*(cell(gpus, wall_s, strategy=strategy) for (strategy, gpus), wall_s in times_s.items()))
    assert "With mirrored, 2 GPUs ran at 1.2x the speed that they had with horovod." in found
    assert not any("4 GPUs" in finding and "with horovod" in finding for finding in found)


def test_many_cells_are_summarized_in_one_finding() -> None:
    ones = [cell(1, 30, batch_size=batch) for batch in range(8)]
    twos = [cell(2, 20 + batch, batch_size=batch) for batch in range(8)]
    found = findings(*ones, *twos)

    assert found[0] == "2 GPUs ran at 1.1x to 1.5x the speed of 1 (median 1.3x), fastest with batch 0."
    assert sum("ran at 1.1x to 1.5x the speed" in text for text in found) == 1
    assert found.count("2 GPUs ran at 1.1x to 1.4x the speed of 1 (ideal: 2x) in 7 of 8 cells.") == 1


def test_findings_are_about_the_goal_in_its_direction() -> None:
    goal = Goal(metric="val_mae", mode="min")

    def with_mae(gpus: int, wall_s: float, *mae: float, **values: Any) -> CellReport:
        return cell(gpus, wall_s, metrics={"val_mae": mae}, **values)

    found = findings(with_mae(1, 20, 0.25, 0.2501), with_mae(2, 10, 0.28, 0.2801), goal=goal)
    assert "val_mae on 2 GPUs was 0.03 (12 %) above that on 1, which is more than chance." in found
    assert not any("val_accuracy" in text for text in found)

    name = "params.loss"
    found = findings(with_mae(1, 10, 2.0, **{name: "l1"}), with_mae(1, 10, 4.0, **{name: "l2"}), goal=goal)
    assert found == ["params.loss l1 instead of params.loss l2: val_mae 50 % lower."]
    found = findings(with_mae(1, 10, 2.0, **{name: "l1"}), with_mae(1, 5, 4.0, **{name: "l2"}), goal=None)
    assert found == ["params.loss l2 instead of params.loss l1: 2x the samples per second."]


def test_cautions_are_listed_last() -> None:
    found = findings(cell(1, 10, failed=1), cell(2, 10, unfinished=2), repeats=1, on_fewer_gpus=["x"])
    assert found[-4:] == [
        "1 of 2 jobs failed or were cancelled: their cells have fewer repeats.",
        "2 of 2 jobs have not ended: the figures will change.",
        "Job x ran partly on fewer GPUs than it asked for: its figures are misleading.",
        "Each cell ran once, so nothing shows how much of a difference is chance: use 3 repeats.",
    ]


def test_loss_curves_that_differ_are_named_and_the_others_counted() -> None:
    def compared(gpus: int, **agreements: CurveAgreement) -> CellReport:
        return cell(gpus, 30, batch_size=64).model_copy(update={"loss_agreement": agreements})

    def agreement(away: float | None, agrees: bool | None) -> CurveAgreement:
        return CurveAgreement(epochs=9, difference=away, relative=away, chance=0.01, agrees=agrees)

    cells = [
        compared(1), compared(2, loss=agreement(0.001, True), val_loss=agreement(0.123, False)),
        compared(4, loss=agreement(0.001, True), val_loss=agreement(None, False)),
        compared(8, loss=agreement(0.5, None)),
    ]  # fmt: skip
    assert [sentence for sentence in findings(*cells) if "curve" in sentence] == [
        "Batch 64: val_loss on 2 GPUs was on average 12 % away from its curve on 1, which is more than chance.",
        "Batch 64: val_loss on 4 GPUs has another curve than on 1: one of the two diverged.",
        "The curve of loss on more GPUs agrees with that on 1 GPU in 2 of 3 cells.",
    ]


def test_speedups_against_the_cpu_are_named() -> None:
    cells = with_cpu_speedups(
        [cell(1, 600, device="cpu"), cell(1, 8, device="gpu"), cell(2, 300, device="cpu"), cell(2, 4, device="gpu")]
    )
    told = findings(*cells)
    assert "device cpu: 2 CPU slots ran at 2x the speed of 1 (efficiency 1)." in told
    assert "1 GPU ran at 75x the speed of the CPU." in told
    assert "2 GPUs ran at 150x the speed of the CPU." in told
    assert not any("instead of" in sentence for sentence in told)

    many = with_cpu_speedups(
        [cell(1, 600, device="cpu", batch_size=8), *(cell(n, 60 / n, device="gpu", batch_size=8) for n in range(1, 9))]
    )
    assert "8 cells ran at 10x to 80x the speed of the CPU (median 45x), fastest with 8 GPUs, batch 8." in findings(
        *many
    )


def test_runs_that_stalled_are_named() -> None:
    cells = [cell(1, 30), cell(2, 20)]
    slow = Outlier(job_id="j", cell=1, figure="samples_per_s", value=10, median=25, rule="")
    told = findings_of(
        cells, goal=None, varied=["gpus"], baseline=None, repeats=3, outliers=[slow] * 8, keep_outliers=True
    )
    sentence = "Job j (2 GPUs) stalled: each sample took 2.5x the median time. The figures of speed have it."
    assert told == [*[sentence] * 6, "8 jobs stalled in all: `outliers` of the report lists them."]
