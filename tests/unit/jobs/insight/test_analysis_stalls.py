"""Stalls: where they lie, how long they last and why; and long times that are not stalls."""

from dataclasses import replace
from typing import Any

import pytest

from jobs.insight.analysis.evidence import EpochSteps, LongStep, RankStep, Run
from jobs.insight.analysis.stalls import Pause, find_stalls, steps_without
from jobs.views.analysis import StallCause
from tests.unit.jobs.insight import analysis_inputs as inputs

near = pytest.approx
PLAN = {"validation_steps": 20}


def stalls_of(run: Run, *, step_s: float = 0.1, **fields: Any) -> list[Pause]:
    return find_stalls(inputs.evidence(inputs.steps([step_s, step_s]), runs=[run], plan=PLAN, **fields))


def a_long_step(length_s: float, *ranks: tuple[float, float]) -> Run:
    """A run whose step 40 took `length_s`; `ranks` has (data wait, allreduce) in seconds of each rank."""
    waits = [RankStep(rank, data_wait_s, allreduce_s) for rank, (data_wait_s, allreduce_s) in enumerate(ranks)]
    return inputs.a_run(slots=2, long_steps=[LongStep(40, 1500.0, length_s, waits)])


@pytest.mark.parametrize(
    ("ranks", "cause", "rank"),
    [
        ([(0.0, 0.01), (0.0, 30.0)], StallCause.RANK, 0),
        ([(0.0, 30.0), (29.9, 0.0)], StallCause.DATA, 1),
        ([(29.9, 0.0), (29.9, 0.0)], StallCause.DATA, None),
        ([(0.0, 30.0), (0.0, 30.0)], StallCause.COMMUNICATION, None),
        ([(0.0, 0.1), (0.0, 0.1)], StallCause.UNKNOWN, None),
        ([], StallCause.UNKNOWN, None),
    ],
)
def test_a_long_step_is_a_stall_with_a_cause(
    ranks: list[tuple[float, float]], cause: StallCause, rank: int | None
) -> None:
    (stall,) = stalls_of(a_long_step(30.1, *ranks))

    assert (stall.cause, stall.rank) == (cause, rank)
    assert (stall.began_at, stall.length_s) == (near(1469.9), near(30.0))
    assert (stall.after_step, stall.usual_step_s, stall.ongoing) == (39, near(0.1), False)
    assert len(stalls_of(a_long_step(30.0), step_s=1.4)) == 1
    (by_epochs,) = find_stalls(inputs.evidence(runs=[a_long_step(30.0)], plan=PLAN))
    assert by_epochs.usual_step_s == near(0.1), "single steps are not known"


def test_stalled_steps_are_left_out_of_the_usual_steps() -> None:
    made = inputs.steps(0.1)

    (rest,) = steps_without([made], stalls_of(a_long_step(30.0)))

    assert 40 in made.number
    assert len(rest.number) == 99
    assert 40 not in rest.number


def with_gaps(*gaps_s: float, **fields: Any) -> Run:
    """Epochs of ten steps of 0.1 s, with these gaps between them."""
    epochs, at = [EpochSteps(1, 1, 10, 1000.0, 1000.1, 1001.0)], 1001.0
    for number, gap_s in enumerate(gaps_s, 2):
        at += gap_s
        epochs.append(EpochSteps(number, 10 * number - 9, 10 * number, at, at + 0.1, at + 1.0))
        at += 1.0
    return inputs.a_run(**{"epochs": epochs, "ended_at": at + 1} | fields)


def test_validation_far_longer_than_the_others_or_than_its_steps_is_a_stall() -> None:
    (stall,) = stalls_of(with_gaps(5.0, 35.0, 5.0))
    assert (stall.length_s, stall.after_step, stall.began_at) == (near(30.0), 20, near(1007.0))
    assert [stall.length_s for stall in stalls_of(with_gaps(32.0))] == [near(30.0)]


def test_time_after_the_last_step_is_a_stall_while_the_run_lives_or_if_it_did_not_end_well() -> None:
    live = inputs.a_run(live=True, ended_well=False)
    (stall,) = stalls_of(replace(live, ended_at=live.epochs[-1].ended_at + 32))
    assert (stall.ongoing, stall.length_s) == (True, near(30.0)), "less the time of the validation that is due"
    (stall,) = stalls_of(replace(LONG_AFTER, ended_well=False))
    assert not stall.ongoing


LONG_AFTER = inputs.a_run(ended_at=1111.1)


@pytest.mark.parametrize(
    ("run", "step_s"),
    [
        (a_long_step(30.0), 2.0),
        (inputs.a_run(long_steps=[LongStep(1, 1030.0, 30.0)]), 0.1),
        (inputs.a_run(epochs=[], live=True, ended_well=False, ended_at=9999.0), 0.1),
        (with_gaps(60.0, 61.0, 59.0), 0.1),
        (with_gaps(60.0, 75.0, 60.0), 0.1),
        (with_gaps(11.0), 0.1),
        (inputs.a_run(live=True, ended_well=False, ended_at=1021.1), 0.1),
        (LONG_AFTER, 0.1),
    ],
    ids=["a usual step", "the first step", "before the first step", "long validations", "one a bit longer",
         "a single validation", "a live one that validates", "after a good end"],
)  # fmt: skip
def test_set_up_validation_of_usual_length_and_the_time_after_a_good_end_are_no_stalls(run: Run, step_s: float) -> None:
    assert stalls_of(run, step_s=step_s) == []
