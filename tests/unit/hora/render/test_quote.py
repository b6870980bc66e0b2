"""What `--dry-run` shows."""

from typing import Any

from hora.render.quote import preview_table, warning_lines
from jobs.model.plan import resolve_plan
from jobs.model.spec import Spec, parse_spec, spec_from
from jobs.views.advice import Quote
from tests.printed import facts_of

SPEC = parse_spec('{"dataset": "digits", "batch_size": 64, "learning_rate": 0.001, "gpus": 2, "epochs": 5}')
NESTEROV = {"name": "sgd", "nesterov": True}
RANGE = {"mean": 12.0, "low": 10.5, "high": 75.0}
NOTHING: dict[str, Any] = {
    "basis": "scaled", "jobs": ["a"], "wall_s": None, "setup_s": None, "samples_per_s": None, "gpu_hours": None,
    "speedup": None, "efficiency": None, "doubling_gain": None, "epochs": None,
}  # fmt: skip


def preview_facts(quote: dict[str, Any] | None, spec: Spec = SPEC) -> dict[str, str]:
    preview = {"spec": spec.model_dump(mode="json"), "plan": resolve_plan(spec, None).model_dump(mode="json")}
    known = None if quote is None else Quote.model_validate({**NOTHING, **quote}).model_dump(mode="json")
    return facts_of(preview_table({**preview, "quote": known, "warnings": []}))


def test_a_plan_without_a_quote_says_so() -> None:
    rows = preview_facts(None)
    assert rows["batch"] == "64 per GPU, 128 in all"
    assert rows["samples"] == "known once the data is open"
    assert rows["steps"] == "5 epochs at most"
    recipe = [rows[name] for name in ("optimizer", "learning rate", "warm-up", "schedule")]
    assert recipe == ["adam", "0.001", "none", "constant"]
    steep = {"lr_scaling": "linear", "warmup_epochs": 3, "schedule": {"name": "step", "epochs": [3, 4]}}
    rows_of_steep = preview_facts(None, spec_from(SPEC.model_dump(mode="json") | steep | {"optimizer": NESTEROV}))
    recipe = [rows_of_steep[name] for name in ("optimizer", "learning rate", "warm-up", "schedule")]
    assert recipe == [
        "sgd (momentum 0.9; nesterov True)", "0.002, 0.001 x 2 (linear)", "3 epochs, from 0.001",
        "step (epochs 3, 4; factor 0.1)",
    ]  # fmt: skip
    assert rows["expected"] == "nothing: no past job is comparable"
    assert "continues" not in rows
    continuing = preview_facts(None, SPEC.model_copy(update={"accumulate": 4, "continue_from": "job:0job@3"}))
    assert continuing["batch"] == "64 per GPU, 4 of them in a step, 512 in all"
    assert continuing["continues"] == "job:0job@3"
    assert warning_lines({"warnings": ["It pays little.", "a\x1bb"]}) == [
        "Warning: It pays little.",
        "Warning: a\\x1bb",
    ]
    assert warning_lines({}) == []


def test_quote_shows_ranges_and_the_jobs_it_is_based_on() -> None:
    ranges = {"wall_s": RANGE, "setup_s": dict.fromkeys(("mean", "low", "high"), 3.0)}
    ranges["gpu_hours"] = {"mean": 0.0081234, "low": 0.007, "high": 0.02}
    gains = {"speedup": 1.6, "efficiency": 0.8, "doubling_gain": 1.6}
    jobs = [f"job{n}" for n in range(7)]
    rows = preview_facts({"basis": "same_spec", "jobs": jobs, "epochs": "all 5 epochs", **ranges, **gains})
    assert rows["training time"] == "12.0 s (10.5 s to 1 min 15 s)"
    assert rows["set-up"] == "3.0 s"
    assert rows["GPU time"] == "29.2 s (25.2 s to 1.2 min)"
    assert rows["speed-up"] == "1.60 over one GPU, 80 % of the ideal"
    assert rows["last doubling"] == "1.60 times the throughput of half as many GPUs"
    assert rows["expected epochs"] == "all 5 epochs"
    assert rows["rests on"] == "runs of the same spec: job0, job1, job2, job3, job4, ..."
    assert "samples/s" not in rows
