"""The findings of a study: its figures in words."""

from collections.abc import Sequence
from typing import Any

import pytest

from jobs.insight.studies.cpu_speedups import with_cpu_speedups
from jobs.insight.studies.figures import baseline_of, compared_with
from jobs.insight.studies.findings import findings_of
from jobs.insight.studies.next_steps import next_steps_of
from jobs.insight.studies.statistics import interval
from jobs.model.remedies import EXPLANATIONS
from jobs.model.states import EndReason
from jobs.views.studies import CellReport, CurveAgreement, Failure, Goal, Outlier

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
    rate: float | None = None,
    more: dict[str, Any] | None = None,
    **values: Any,
) -> CellReport:
    """A cell whose repeats took equally long. `rate` are its samples/s, `more` further fields."""
    intervals = {name: interval(figures) for name, figures in ({"val_accuracy": accuracy} | (metrics or {})).items()}
    return CellReport(
        values={"gpus": gpus, **values},
        gpus=gpus, hosts=hosts, jobs=["a", "b"], repeats=2, failed=failed, unfinished=unfinished,
        wall_s=interval([wall_s, wall_s]), setup_s=None, samples_per_s=interval([rate or 1000 / wall_s] * 2),
        val_accuracy=interval(accuracy), metrics=intervals, epochs_run=interval([epochs, epochs]),
        time_to_target_s=None, gpu_hours_to_target=None, reached_target=0, gpu_hours=None, speedup=None,
        throughput_speedup=None,
        efficiency=None, accuracy_agreement=None,
    ).model_copy(update=more)  # fmt: skip


def findings(*cells: CellReport, repeats: int = 2, goal: Goal | None = ACCURACY, **options: Any) -> list[str]:
    varied = list(cells[0].values)
    baseline = baseline_of(cells, varied)
    return findings_of(
        compared_with(cells, baseline, goal),
        goal=goal,
        varied=varied,
        baseline=baseline,
        repeats=repeats,
        **options,
    )


def test_speedups_are_told_once_by_time_and_by_samples() -> None:
    on_cpu = {"device": "cpu", "allreduce_share": interval([0.4, 0.42])}
    assert findings(cell(1, 30, batch_size=64), cell(2, 35, batch_size=64, rate=1.16 * 1000 / 30, more=on_cpu)) == [
        (
            "Batch 64: 2 CPU slots ran at 0.86x the speed of 1 by training time and 1.2x by samples/s (ideal: 2x,"
            " efficiency 0.43). The time includes validation and checkpoints, samples/s does not. Allreduce, with"
            " the wait for slower ranks, takes 41 % of a step."
        ),
        "Batch 64: on 2 CPU slots val_accuracy (equal) agrees with 1.",
    ]
    found = findings(cell(1, 40), cell(4, 11), cell(8, 10, hosts=2), cell(16, 12, hosts=2))
    assert found[:3] == [
        "16 GPUs ran at 3.3x the speed of 1 by training time and 3.3x by samples/s (ideal: 16x, efficiency 0.21).",
        "8 GPUs on 2 hosts ran at 1.1x the speed of 4 on 1 host by training time (ideal: 2x).",
        "16 GPUs ran at 0.83x the speed of 8 by training time (ideal: 2x).",
    ]
    assert not any(text.startswith("4 GPUs") for text in found)


@pytest.mark.parametrize(
    ("base", "other", "cause"),
    [
        (cell(1, 25), cell(2, 10, epochs=5), "they trained for different numbers of epochs."),
        (cell(1, 25, more={"beside_others": 2}), cell(2, 10), "2 of 2 runs on 1 GPU shared the host with other jobs"),
        (cell(1, 25, more={"wall_s": interval([20, 31])}), cell(2, 10), "the runs on 1 GPU took 20 to 31 s, so somet"),
        (cell(1, 25), cell(2, 10, rate=60), "time outside the steps, such as validation and checkpoints."),
        (cell(1, 25), cell(2, 10), None),
    ],
)
def test_a_speedup_above_the_ideal_is_implausible_and_its_cause_is_named(
    base: CellReport, other: CellReport, cause: str | None
) -> None:
    told = findings(base, other)[0]
    likely = "The figures show no cause." if cause is None else f"Likely cause: {cause}"
    assert f"More than the ideal is implausible. {likely}" in told
    assert "implausible" not in findings(cell(1, 21), cell(2, 10))[0]


@pytest.mark.parametrize(
    ("cells", "finding"),
    [
        (
            [cell(8, 10, placement="pack"), cell(8, 13, hosts=2, placement="spread"), cell(1, 60, placement="pack")],
            "8 GPUs were slower on 2 hosts than on 1: 1.3x the time.",
        ),
        (
            [cell(1, 20, accuracy=[0.90, 0.901]), cell(2, 10, accuracy=[0.87, 0.871])],
            "On 2 GPUs val_accuracy (3.0 points below) differs from 1 by more than chance.",
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
            (
                "2 GPUs ran at 1x the speed of 1 by training time and 1x by samples/s (ideal: 2x, efficiency"
                " 0.5). They trained for 20 epochs, 1 for 10: only samples/s compares equal work."
            ),
        ),
        (
            [cell(1, 9, **{"dataset.fraction": fraction}, rate=fraction) for fraction in (0.1, 1)],
            "All of the data instead of 0.1 of the data: 10x the samples per second.",
        ),
        (
            [cell(1, 9, accuracy=[mean - 0.1, mean + 0.1], batch_size=16 + round(mean * 10)) for mean in (0.5, 0.6)],
            "Batch 22 instead of batch 21: val_accuracy 10.0 points higher (which may be chance).",
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
    assert not any("agree" in text for text in differs)
    noisy = cell(2, 20).model_copy(update={"wall_s": interval([10, 30])})
    assert "This may be chance: 2 repeats cannot tell, about 9 would." in findings(cell(1, 30), noisy)[0]
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

    assert found == [
        (
            "2 GPUs ran at 1.1x to 1.5x the speed of 1 by training time (median 1.3x, 1.3x by samples/s; ideal:"
            " 2x), fastest with batch 0."
        ),
        "Of 8 cells, val_accuracy against that on 1 GPU agrees in 8.",
        "Batch 7 instead of batch 0: 0.86x the samples per second.",
    ]
    odd = [cell(2, 10, batch_size=batch, accuracy=[0.2, 0.4], epochs=batch + 7) for batch in range(8)]
    odd[0] = odd[0].model_copy(update={"wall_s": interval([1, 90])})
    assert findings(*ones, *odd, scaling="weak")[:2] == [
        (
            "2 GPUs ran at 0.66x to 3x the speed of 1 by training time (median 3x, 3x by samples/s; ideal: 2x),"
            " fastest with batch 1. 7 of 8 are above the ideal, which is implausible. Batch 1: Likely cause: they"
            " trained for different numbers of epochs. 1 of 8 may be chance: the times of the repeats differ too"
            " much. In 6 of 8 the numbers of epochs differ: only samples/s compares equal work."
        ),
        "Of 8 cells, val_accuracy against that on 1 GPU is open in 8 (2 repeats cannot tell, about 3 would).",
    ]


def test_findings_are_about_the_goal_in_its_direction() -> None:
    goal = Goal(metric="val_mae", mode="min")

    def with_mae(gpus: int, wall_s: float, *mae: float, **values: Any) -> CellReport:
        return cell(gpus, wall_s, metrics={"val_mae": mae}, **values)

    found = findings(with_mae(1, 20, 0.25, 0.2501), with_mae(2, 10, 0.28, 0.2801), goal=goal)
    assert "On 2 GPUs val_mae (0.03, 12 % above) differs from 1 by more than chance." in found
    assert not any("val_accuracy" in text for text in found)

    name = "params.loss"
    found = findings(with_mae(1, 10, 2.0, **{name: "l1"}), with_mae(1, 10, 4.0, **{name: "l2"}), goal=goal)
    assert found == ["params.loss l1 instead of params.loss l2: val_mae 50 % lower."]
    found = findings(with_mae(1, 10, 2.0, **{name: "l1"}), with_mae(1, 5, 4.0, **{name: "l2"}), goal=None)
    assert found == ["params.loss l2 instead of params.loss l1: 2x the samples per second."]


def test_cautions_are_listed_last() -> None:
    why = "the loss is nan at step 4"
    lost = [Failure(end_reason=EndReason.DIVERGED, jobs=1, error=why)]
    failing = cell(1, 10, failed=1, more={"failures": lost})
    found = findings(failing, cell(2, 10, unfinished=2), repeats=1, on_fewer_gpus=["x"])
    assert found[-4:] == [
        f'1 of 2 jobs failed or were cancelled, so their cells have fewer repeats. 1 ended diverged (1 GPU): "{why}".',
        "2 of 2 jobs have not ended: the figures will change.",
        "Job x ran partly on fewer GPUs than it asked for: its figures are misleading.",
        "Each cell ran once, so nothing shows how much of a difference is chance.",
    ]


def test_each_cell_has_one_finding_about_its_convergence() -> None:
    def compared(gpus: int, **agreements: CurveAgreement) -> CellReport:
        return cell(gpus, 30, batch_size=64).model_copy(update={"loss_agreement": agreements})

    def agreement(away: float | None, agrees: bool | None, needed: int | None = None) -> CurveAgreement:
        return CurveAgreement(
            epochs=9, difference=away, relative=away, chance=0.01, agrees=agrees, repeats_needed=needed
        )

    cells = [
        compared(1), compared(2, loss=agreement(0.001, True), val_loss=agreement(0.123, False)),
        compared(4, loss=agreement(0.001, True), val_loss=agreement(None, False)),
        compared(8, loss=agreement(0.3, None, 12), val_loss=agreement(1.02, None), b_loss=agreement(None, None)),
    ]  # fmt: skip
    assert [sentence for sentence in findings(*cells, scaling="weak") if "curve" in sentence] == [
        (
            "Batch 64: on 2 GPUs the curve of val_loss (12 % away) differs from 1 by more than chance;"
            " val_accuracy (equal) and the curve of loss (0.1 % away) agree with 1. More slots make fewer updates"
            " in an epoch (weak scaling): that may be the reason."
        ),
        (
            "Batch 64: on 4 GPUs the curve of val_loss (one of the two diverged) differs from 1 by more than"
            " chance; val_accuracy (equal) and the curve of loss (0.1 % away) agree with 1. More slots make fewer"
            " updates in an epoch (weak scaling): that may be the reason."
        ),
        (
            "Batch 64: on 8 GPUs val_accuracy (equal) agrees with 1; the curve of b_loss diverged on both; for"
            " the curve of loss (30 % away) and the curve of val_loss (102 % away) 2 repeats cannot tell, and 100"
            " would not either."
        ),
    ]


def next_steps(*cells: CellReport, repeats: int = 2, **options: Any) -> list[str]:
    baseline = baseline_of(cells, list(cells[0].values))
    compared = compared_with(cells, baseline, ACCURACY)
    return next_steps_of(compared, goal=ACCURACY, baseline=baseline, repeats=repeats, **options)


def test_next_steps_follow_from_the_findings() -> None:
    lost = {"failures": [Failure(end_reason=EndReason.DIVERGED, jobs=1, error=None)]}
    poor, fine = cell(2, 110, accuracy=[0.8, 0.801]), cell(2, 51)
    assert next_steps(cell(1, 100, more=lost), poor, scaling="weak", repeats=1) == [
        f"For the jobs that ended diverged: {EXPLANATIONS[EndReason.DIVERGED].remedy}",
        "Set repeats: 3, so that the report can tell differences from chance.",
        (
            "To come to the loss of fewer slots, set lr_scaling: linear with warmup_epochs: 3, or keep the global"
            " batch: batch_per: global."
        ),
    ]
    assert next_steps(cell(1, 100), poor, scaling="strong") == [
        "Give 2 GPUs more work between two exchanges (larger batches), or stay at 1."
    ]
    assert next_steps(cell(1, 100), fine) == [], "nothing is wrong"
    assert next_steps(cell(1, 100, more=lost), cell(2, 51, unfinished=1)) == [], "the figures will change"
    noisy = fine.model_copy(update={"wall_s": interval([50, 100])})
    assert next_steps(cell(1, 100), noisy) == ["Set repeats: 9, to tell what 2 cannot."]
    noisy = fine.model_copy(update={"wall_s": interval([5, 14])})
    assert next_steps(cell(1, 9), noisy)[:1] == [
        "Train for longer: no cell took 10 s, and short times differ by chance."
    ]
    assert next_steps(cell(1, 100), cell(2, 51, accuracy=[0.5, 0.99]))[0].startswith("Train for longer: more than 20")
    assert next_steps(cell(1, 100), cell(2, 30))[0].startswith("Run the cells with 1 GPU again on an idle host")


def test_speedups_against_the_cpu_are_named() -> None:
    cells = with_cpu_speedups(
        [cell(1, 600, device="cpu"), cell(1, 8, device="gpu"), cell(2, 300, device="cpu"), cell(2, 4, device="gpu")]
    )
    told = findings(*cells)
    assert any(
        text.startswith("device cpu: 2 CPU slots ran at 2x the speed of 1 by training time and") for text in told
    )
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
