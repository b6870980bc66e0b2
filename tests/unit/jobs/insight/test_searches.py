"""A search: its space and the problems of a wrong one, the choice of values, and which trials end early."""

import math
import random
from typing import Any

import optuna
import pytest

from jobs.insight.studies.adviser import Search, Told
from jobs.insight.studies.pruning import Pruner, best_of_curve
from jobs.insight.studies.space import Range, combinations, ends_of, first_untried, space_of
from jobs.model.problems import InvalidSpec
from jobs.views.searches import PruneSpec, SearchSpec
from jobs.views.studies import StudySpec

BASE = {"dataset": "digits", "model": "mlp", "batch_size": 64, "learning_rate": 0.001}
SPACE = {"learning_rate": {"log": [1e-4, 0.1]}, "model.dropout": {"uniform": [0, 0.5]}, "batch_size": [32, 64]}
SCRIPT = {"code": "0" * 64, "command": ["python", "train.py"]}


def study(space: dict[str, Any], base: dict[str, Any] = BASE, **fields: Any) -> StudySpec:
    of_study = {name: fields.pop(name) for name in ("grid", "repeats", "max_jobs") if name in fields}
    return StudySpec.model_validate({"base": base, "search": {"space": space, "trials": 4, **fields}, **of_study})


def refused(space: dict[str, Any], base: dict[str, Any] = BASE, **fields: Any) -> dict[str, str]:
    """The message by wrong field."""
    with pytest.raises(InvalidSpec) as error:
        ends_of(study(space, base, **fields))
    return {problem.field: problem.message for problem in error.value.problems}


def search(space: dict[str, Any] = SPACE, *, mode: str = "max", **fields: Any) -> Search:
    spec = SearchSpec.model_validate({"space": space, "trials": 24, **fields})
    return Search(spec, space_of(spec), seed=1, is_lower_better=mode == "min")


def test_the_ends_of_each_dimension_are_checked_one_field_at_a_time() -> None:
    cells = ends_of(study(SPACE))

    assert [tuple(cell.values.values()) for cell in cells] == [
        (1e-4, 0.0, 32), (0.1, 0.0, 32), (1e-4, 0.5, 32), (1e-4, 0.0, 64)
    ]  # fmt: skip
    assert [cell.spec.own_model.dropout for cell in cells] == [0.0, 0.0, 0.5, 0.0]
    cells = ends_of(study({"params.optimizer.momentum": {"uniform": [0, 1]}}, SCRIPT, objective="val_mae"))
    assert [cell.spec.params for cell in cells] == [{"optimizer": {"momentum": 0.0}}, {"optimizer": {"momentum": 1.0}}]


@pytest.mark.parametrize(
    ("space", "field", "words"),
    [
        ({"learning_rate": {"log": [1e-4, 0]}}, "learning_rate.log[1]", "above 0"),
        ({"learning_rate": {"log": [0.1, 1e-4]}}, "learning_rate.log[1]", "above the lowest number, which is 0.1"),
        ({"learning_rate": {"log": [0.1]}}, "learning_rate.log", "list of two numbers"),
        ({"learning_rate": {"log": [0.1, True]}}, "learning_rate.log[1]", "must be a number"),
        ({"learning_rate": {"uniform": [0.1, 1e300]}}, "learning_rate.uniform[1]", "at most 1e+15"),
        ({"learning_rate": {"uniform": [0.1, 0.2], "log": True}}, "learning_rate", "a list of values, {log:"),
        ({"learning_rate": []}, "learning_rate", "has no values"),
        ({"learning_rate": [0.1, 0.1]}, "learning_rate[1]", "same value"),
        ({"epochs": list(range(1, 1_000_002))}, "epochs", "1,000,001 values; at most 1,000"),
        ({"epochs": {"int": [1, 2.5]}}, "epochs.int[1]", "whole number"),
        ({"epochs": {"int": [1, 8], "log": 1}}, "epochs.log", "true or false"),
        ({"epochs": {"int": [0, 8], "log": True}}, "epochs.int[0]", "above 0"),
        ({"learn_rate": [0.1]}, "learn_rate", "no such field"),
        ({"project": ["a"]}, "project", "one project"),
        ({"model.dropout.x": [1]}, "model.dropout.x", "no such field"),
    ],
)
def test_a_wrong_dimension_is_named_as_it_was_written(space: dict[str, Any], field: str, words: str) -> None:
    problems = refused(space, trials=1)

    assert list(problems) == [f"search.space.{field}"]
    assert words in problems[f"search.space.{field}"]


def test_a_search_that_cannot_be_is_refused() -> None:
    many = {f"params.x{name}": list(range(400)) for name in range(3)}
    assert "has 1,200 values; at most 1,000" in refused(many, SCRIPT, objective="mae")["search.space"]
    assert "not both" in refused(SPACE, grid={"gpus": [1]})["search"]
    assert "no repeats" in refused(SPACE, repeats=2)["repeats"]
    assert "required" in refused(SPACE, trials=None)["search.trials"]
    assert "only 2 combinations" in refused({"batch_size": [32, 64]}, trials=3)["search.trials"]
    assert "101 trials" in refused(SPACE, trials=101)["max_jobs"]
    assert "101 trials" in refused({"epochs": {"int": [1, 101]}}, method="grid", trials=None)["max_jobs"]
    assert "needs a list" in refused(SPACE, method="grid")["search.space.learning_rate"]
    assert "name a metric" in refused({"params.lr": [1]}, SCRIPT, trials=1)["search.objective"]
    assert "only for asha" in refused(SPACE, prune={"name": "median", "reduction": 2})["search.prune.reduction"]
    assert "base.epochs" in refused(SPACE, BASE | {"epochs": 0})


def test_chosen_numbers_have_few_digits_and_stay_in_their_range() -> None:
    rate = Range("log", 1.00004e-4, 0.1, is_int=False, is_log=True)

    assert [rate.rounded(value) for value in (0.0034831698, 1.00004e-4, 0.09999999)] == [0.003483, 1.00004e-4, 0.1]
    assert Range("uniform", -1, 1, is_int=False, is_log=False).rounded(0.0) == 0.0
    assert (
        combinations(space_of(SearchSpec.model_validate({"space": {"epochs": {"int": [1, 4]}, "gpus": [1, 2]}}))) == 8
    )


def test_a_search_by_trials_gets_better_than_one_by_chance() -> None:
    def best(method: str, seed: int) -> float:
        asked = search(method=method)
        one, told = Search(asked.spec, asked.space, seed=seed, is_lower_better=True), []
        for _ in range(24):
            values = next(one.choices(told))
            loss = (math.log10(values["learning_rate"]) + 2.5) ** 2 + values["model.dropout"]
            told.append(Told(values, "complete", loss))
        return min(trial.objective or 0.0 for trial in told)

    assert sum(best("tpe", seed) for seed in range(5)) < sum(best("random", seed) for seed in range(5))


def test_no_combination_is_tried_twice_until_all_are() -> None:
    space = {"batch_size": [32, 64], "model": ["mlp", {"name": "lenet5", "dropout": 0.5}], "epochs": {"int": [1, 2]}}
    for method in ("random", "tpe", "grid"):
        one, told = search(space, method=method), []
        for _ in range(8):
            values = next(one.choices(told))
            assert values == next(search(space, method=method).choices(told)), "the same trials, the same choice"
            told.append(Told(values, "complete", 0.5))
        assert all(trial.values not in [other.values for other in told[:at]] for at, trial in enumerate(told))
        assert not list(one.choices(told))


def test_a_huge_space_costs_nothing() -> None:
    space = {"seed": {"int": [1, 10**15]}, "params.x": {"int": [-(10**15), 10**15], "log": False}}
    assert combinations(space_of(search(space).spec)) == 10**15 * (2 * 10**15 + 1)
    for method in ("grid", "random", "tpe"):
        values = next(search(space, method=method).choices([]))
        assert 1 <= values["seed"] <= 10**15
    tried = [{"seed": 1, "params.x": -(10**15) + step} for step in range(3)]
    assert first_untried(search(space).space, tried) == {"seed": 1, "params.x": -(10**15) + 3}


def test_importances_name_the_field_that_matters() -> None:
    one, told = search(), []
    for number in range(30):
        values = next(one.choices(told))
        told.append(Told(values, "pruned" if number % 2 else "complete", -values["model.dropout"]))

    importances = one.importances(told)
    assert importances is not None
    assert next(iter(importances)) == "model.dropout"
    assert sum(importances.values()) == pytest.approx(1, abs=1e-3)
    assert one.importances(told[:7]) is None
    assert one.importances([Told(trial.values, "complete", 0.5) for trial in told]) is None


def test_failed_running_and_pruned_trials_are_told_too() -> None:
    values = next(search().choices([]))
    told = [Told(values, "failed"), Told(values, "running"), Told(values, "pruned", 0.3, at_rung=2)]
    assert next(search().choices(told)) != values
    trials = search()._study(told).trials
    assert [trial.state.name for trial in trials] == ["FAIL", "RUNNING", "PRUNED"]
    assert trials[2].intermediate_values == {2: 0.3}


def pruner(name: str = "asha", *, epochs: int | None = 27, mode: str = "max", **fields: Any) -> Pruner:
    return Pruner(PruneSpec.model_validate({"name": name, **fields}), epochs=epochs, is_lower_better=mode == "min")


def flat(value: float, epochs: int) -> dict[int, float]:
    return dict.fromkeys(range(1, epochs + 1), value)


def test_rungs_stand_where_checkpoints_are() -> None:
    def rungs(one: Pruner, **of_trial: Any) -> list[int | None]:
        return [one.rung_of(flat(0.5, last), [flat(0.5, 27)], **of_trial) for last in (1, 2, 3, 8, 9, 26, 27)]

    assert rungs(pruner(), epochs=27) == [None, None, None, 6, 6, 18, 18]
    assert rungs(pruner(min_epochs=3), epochs=27) == [None, None, 3, 3, 9, 9, 9]
    assert rungs(pruner(min_epochs=1, reduction=2), epochs=27) == [1, 2, 2, 8, 8, 16, 16]
    assert rungs(pruner(min_epochs=3), epochs=27, checkpoint_every=4) == [None, None, None, 4, 4, 12, 12]
    assert rungs(pruner(epochs=None), epochs=None) == [1, 1, 3, 3, 9, 9, 27]
    assert pruner().rung_of(flat(0.5, 26), [], epochs=27) is None
    assert pruner().rung_of(flat(0.5, 26), [flat(0.5, 8)], epochs=27) == 6
    assert rungs(pruner("median", min_epochs=2), epochs=27, checkpoint_every=2) == [None, 2, 2, 8, 8, 26, 26]


def test_a_trial_goes_on_while_it_is_among_the_best_third() -> None:
    others = [flat(value, 3) for value in (0.1, 0.2, 0.3, 0.4, 0.5)]

    assert not pruner().ends(flat(0.45, 3), others, (), rung=3)  # the second of six
    assert pruner().ends(flat(0.35, 3), others, (), rung=3)
    assert not pruner().ends(flat(0.1, 3), (), (), rung=3)  # the first one
    assert not pruner().ends(flat(0.1, 3), [flat(0.9, 2)], (), rung=3)  # which did not come so far
    assert pruner().ends(dict.fromkeys((1, 2, 3), math.nan), others[:1], (), rung=3)
    assert pruner(mode="min").ends(flat(0.45, 3), others, (), rung=3)

    complete, pruned = flat(0.9, 12), flat(0.1, 49)  # the complete one came before the rung
    assert pruner(min_epochs=2).ends(flat(0.2, 60), [complete, pruned], [complete], rung=18)
    assert not pruner(min_epochs=2).ends(flat(0.95, 60), [complete, pruned], [complete], rung=18)
    assert not pruner(min_epochs=2).ends(flat(0.2, 60), [complete, pruned], (), rung=18)


def test_the_median_needs_five_complete_trials() -> None:
    complete = [flat(value, 9) for value in (0.1, 0.2, 0.3, 0.4, 0.5)]
    assert pruner("median").ends(flat(0.25, 3), (), complete, rung=3)
    assert not pruner("median").ends(flat(0.3, 3), (), complete, rung=3)
    assert not pruner("median").ends(flat(0.0, 3), (), complete[1:], rung=3)
    assert best_of_curve({1: 0.2, 2: math.nan, 3: 0.5}, is_lower_better=False, until=2) == 0.2
    assert best_of_curve({1: math.inf}, is_lower_better=True) is None


@pytest.mark.parametrize("seed", range(3))
def test_trials_one_after_the_other_end_where_optuna_ends_them(seed: int) -> None:
    generator = random.Random(seed)  # noqa: S311 - the same seed, the same curves
    epochs, reduction = 27, 2 + seed % 3
    ours, curves = pruner(min_epochs=1, reduction=reduction), []
    study = optuna.create_study(
        direction="maximize", pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=reduction)
    )
    for _ in range(20):
        height, trial, curve = generator.random(), study.ask(), {}
        ended = {"ours": False, "optuna": False}
        for epoch in range(1, epochs):
            curve[epoch] = height * (1 - math.exp(-epoch / (1 + 9 * generator.random())))
            curve[epoch] = max(curve.values())
            trial.report(curve[epoch], epoch)
            rung = ours.rung_of(curve, curves, epochs=epochs)
            ended["ours"] = rung == epoch and ours.ends(curve, curves, (), rung=epoch)
            ended["optuna"] = trial.should_prune()
            assert ended["ours"] == ended["optuna"]
            if ended["ours"]:
                break
        study.tell(
            trial,
            state=optuna.trial.TrialState.PRUNED if ended["ours"] else None,
            values=None if ended["ours"] else height,
        )
        curves.append(curve)
