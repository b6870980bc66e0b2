"""For any job: advice gives a different spec that can run, and repeats no setting of the job."""

from dataclasses import replace
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from jobs.insight.advice.changes import changed
from jobs.insight.advice.evidence import Base, Cluster, Data, Evidence
from jobs.insight.advice.rules import RULES, advice_on
from jobs.lifecycle.admission import unsupported
from jobs.model.plan import UnworkablePlan, resolve_plan
from jobs.model.problems import InvalidSpec
from jobs.model.states import EndReason, Status
from jobs.views.analysis import FindingKind
from tests.unit.jobs.insight.advice_inputs import SIZES, a_job, learned, past, shares

STOPPING = st.sampled_from(
    [None, {"patience": 3}, {"patience": 40}, {"monitor": "loss"}, {"restore_best_weights": False}]
)
DATASETS = st.fixed_dictionaries(
    {
        "fraction": st.sampled_from([0.1, 1.0]),
        "cache": st.sampled_from(["none", "memory"]),
        "cache_limit_gb": st.sampled_from([0.5, 20]),
        "image_size": st.just([96, 96]),
    }
)
SPECS = st.fixed_dictionaries(
    {
        "dataset": DATASETS,
        "gpus": st.sampled_from([1, 2, 4, 6]),
        "batch_per": st.sampled_from(["gpu", "global"]),
        "batch_size": st.sampled_from([1, 12, 96, 12_000]),
        "lr_scaling": st.sampled_from(["none", "linear", "sqrt", "two_thirds"]),
        "base_batch": st.sampled_from([None, 12, 512]),
        "warmup_epochs": st.sampled_from([0, 3, 10]),
        "optimizer": st.sampled_from(["adam", "nadam", "sgd"]),
        "epochs": st.sampled_from([3, 60]),
        "steps_per_epoch": st.sampled_from([None, 1, 25]),
        "early_stopping": STOPPING,
        "placement": st.sampled_from(["pack", "single_host", "spread"]),
        "model": st.sampled_from(["lenet5", "resnet50", {"name": "resnet50", "freeze_base": False}]),
    }
)
FAILURES = st.sampled_from(
    [
        {},
        {"end_reason": EndReason.OUT_OF_MEMORY},
        {"end_reason": EndReason.INTERNAL_ERROR, "error": "the loss is nan at step 3: try a lower learning rate"},
    ]
)


@st.composite
def evidences(draw: st.DrawFn) -> Evidence:
    """Jobs of every kind, with whatever findings and neighbours."""
    spec = draw(SPECS)
    epochs = spec["epochs"]
    best = draw(st.integers(1, epochs))
    neighbours = [
        (draw(st.floats(1e3, 1e5)), {"gpus": gpus, "batch_size": batch})
        for gpus in (spec["gpus"], spec["gpus"] // 2, 2 * spec["gpus"])
        for batch in (spec["batch_size"], 2 * spec["batch_size"])
        if gpus and not (spec["batch_per"] == "global" and batch % gpus)
    ]
    try:
        e = a_job(
            *draw(st.sets(st.sampled_from(FindingKind))),
            spec=spec,
            summary={
                "best_epoch": best,
                "epochs_run": epochs,
                "after_best_share": 1 - best / epochs,
                "val_accuracy": draw(st.sampled_from([0.5, 0.95])),
                "wall_s": 900.0,
            },
            steps=shares(draw(st.floats(0, 0.5)), draw(st.floats(0, 0.5))),
            learning=learned(best, epochs, 0.9, draw(st.sampled_from([0.8, 0.9])), overfits=True),
            data=Data(draw(st.sampled_from(["arrays", "images"])), (96, 96, 3), SIZES),
            hosts=draw(st.sampled_from([1, 2])),
            cluster=draw(st.sampled_from([None, Cluster(2, 8, 64_000_000_000), Cluster(8, None, 64_000_000_000)])),
            bases=(Base("0base0", "photos", 500_000),),
            past=tuple(past(f"n{i}", speed, **spec | one) for i, (speed, one) in enumerate(neighbours)),
        )
    except (InvalidSpec, UnworkablePlan):
        assume(condition=False)
        raise
    failure = draw(FAILURES)
    return replace(e, status=Status.FAILED, summary=None, **failure) if failure else e


def leaves(document: dict[str, Any], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Every value of a change, by its path."""
    values: dict[tuple[str, ...], Any] = {}
    for name, value in document.items():
        if isinstance(value, dict) and value:
            values |= leaves(value, (*path, name))
        else:
            values[*path, name] = value
    return values


@given(evidences())
def test_each_piece_of_advice_gives_another_spec_that_can_run_and_says_why(e: Evidence) -> None:
    document, before = e.spec.model_dump(mode="json"), resolve_plan(e.spec, None)
    for rule in RULES:
        proposal = rule(e)
        if proposal is None:
            continue
        spec = changed(e.spec, proposal.change)
        assert spec is not None, proposal
        assert spec != e.spec
        assert unsupported(spec, e.site) == []
        plan = resolve_plan(spec, e.sizes)
        for path, value in leaves(dict(proposal.change)).items():
            old = document
            for name in path:
                old = None if old is None else old[name]
            assert value != old, (path, value)
        grown = plan.global_batch / before.global_batch
        assert grown <= 8
        assert plan.learning_rate <= before.learning_rate * max(grown, 1) * (1 + 1e-9)

    advice = advice_on(e)
    assert [item.number for item in advice] == list(range(1, len(advice) + 1))
    for item in advice:
        assert item.gain.time_factor is None or item.gain.time_factor > 0
        assert item.gain.gpu_hours_factor is None or 0 < item.gain.gpu_hours_factor < 2
        for text in (item.what, item.why, item.gain.text):
            assert text.endswith(".")
            assert text[0].isupper() or text[0].isdigit()
        assert item.evidence
