"""Inputs for the tests of advice and quotes: past jobs and their analyses."""

from dataclasses import replace
from typing import Any

from jobs.insight.advice.evidence import Cluster, Data, Evidence
from jobs.insight.advice.past import PastJob
from jobs.insight.advice.rules import advice_on
from jobs.lifecycle.run_durations import key_of
from jobs.model.catalog import MODELS
from jobs.model.documents import merged
from jobs.model.plan import DatasetSizes, resolve_plan
from jobs.model.records import ProbeFindings, ProbePoint, Summary
from jobs.model.spec import Spec, spec_from
from jobs.model.states import Status
from jobs.views.advice import Advice
from jobs.views.analysis import Analysis, Finding, FindingKind, Learning, Ledger, StepShares

SIZES = DatasetSizes(train=54_000, validation=6_000, test=10_000)
BASE: dict[str, Any] = {"dataset": "fashion-mnist", "batch_size": 64, "learning_rate": 0.001, "gpus": 2}


def a_spec(**changes: Any) -> Spec:
    """The usual spec with changes."""
    return spec_from(merged(spec_from(BASE).model_dump(mode="json"), changes))


def a_summary(**figures: Any) -> Summary:
    """A training that stopped early, soon after its best epoch."""
    usual: dict[str, Any] = {
        "best_epoch": 20, "epochs_run": 23, "val_accuracy": 0.93, "val_loss": 0.2, "train_samples_per_s": 10_000.0,
        "wall_s": 150.0, "setup_s": 10.0, "parameters": 60_000, "trainable_parameters": 60_000, "model_bytes": 240_000,
        "after_best_share": 0.12, "stopped_early": True,
    }  # fmt: skip
    return Summary(**usual | figures)


def past(job_id: str, samples_per_s: float | None = 10_000.0, **changes: Any) -> PastJob:
    """A past job. `summary` changes the usual summary, `fields` the `PastJob`; the rest changes the usual spec."""
    summary, fields = changes.pop("summary", {}), changes.pop("fields", {})
    spec = a_spec(**changes)
    speed = {} if samples_per_s is None else {"train_samples_per_s": samples_per_s}
    job = PastJob(
        id=job_id,
        spec=spec,
        plan=resolve_plan(spec, SIZES),
        run_key=key_of(spec),
        summary=a_summary(**speed | summary),
        sizes=SIZES,
    )
    return replace(job, **fields)


def a_probe(job_id: str, speeds: dict[int, float | None], **changes: Any) -> PastJob:
    """A batch probe. `speeds` has the samples/s of each per-GPU batch; a batch without a speed does not fit."""
    spec = a_spec(**changes | {"probe": {}})
    points = [
        ProbePoint(
            per_gpu_batch=batch,
            global_batch=batch * spec.gpus,
            fits=speed is not None,
            step_time_s=batch * spec.gpus / speed if speed else None,
            samples_per_s=speed,
        )
        for batch, speed in speeds.items()
    ]
    fits = [point.per_gpu_batch for point in points if point.fits]
    ended_by = "largest" if len(fits) == len(points) else "memory"
    findings = ProbeFindings(points=points, ended_by=ended_by, largest_batch=max(fits))
    return replace(past(job_id, **changes), spec=spec, summary=None, probe=findings)


def shares(
    data_wait: float = 0.01, allreduce: float = 0.05, *, steps: int = 9000, step_s: float = 0.0125
) -> StepShares:
    """The shares of the step time over all ranks."""
    compute = 1 - data_wait - allreduce
    return StepShares(
        rank=-1, steps=steps, step_time_s=step_s, data_wait=data_wait, allreduce=allreduce, compute=compute
    )


def an_analysis(*kinds: FindingKind, steps: StepShares | None = None, learning: Learning | None = None) -> Analysis:
    """An analysis with findings of these kinds."""
    share = (steps or shares()).allreduce
    return Analysis(
        job_id="own",
        complete=True,
        findings=[Finding(kind=kind, text=f"It is {kind}.", evidence={"communication_share": share}) for kind in kinds],
        steps=[steps or shares()],
        utilization=[],
        imbalances=[],
        stalls=[],
        learning=learning,
        ledger=Ledger(leased_s=320.0, items={}),
    )


def learned(
    best_epoch: int, epochs_run: int, best: float, last: float, *, metric: str = "val_accuracy", overfits: bool = False
) -> Learning:
    """The course of a metric."""
    return Learning(
        metric=metric,
        best_epoch=best_epoch,
        epochs_run=epochs_run,
        best=best,
        last=last,
        train_last=0.99,
        val_loss_rise=0.5 if overfits else 0.0,
        overfits=overfits,
    )


OVERFIT: dict[str, Any] = {
    "summary": {"best_epoch": 8, "epochs_run": 30, "after_best_share": 0.7, "stopped_early": False},
    "spec": {"early_stopping": None},
    "learning": learned(8, 30, 0.90, 0.86, overfits=True),
}


def a_job(*kinds: FindingKind, **changes: Any) -> Evidence:
    """Evidence on a job that succeeded and is healthy without changes. `spec` changes the usual spec.

    `past` adds past jobs. The job itself is always one of them, as in the database.
    """
    own = past("own", summary=changes.pop("summary", {}), **changes.pop("spec", {}))
    others = changes.pop("past", ())
    analysis = an_analysis(
        *(kinds or (FindingKind.COMPUTE_BOUND,)),
        steps=changes.pop("steps", None),
        learning=changes.pop("learning", None),
    )
    fields: dict[str, Any] = {
        "status": Status.SUCCEEDED,
        "summary": own.summary,
        "data": Data("arrays", (28, 28, 1), SIZES),
        "model": MODELS.get(own.spec.model.name),
        "past": (own, *others),
        "cluster": Cluster(largest_host=2, memory_bytes=64_000_000_000),
    }
    return Evidence(job_id="own", spec=own.spec, plan=own.plan, analysis=analysis, **fields | changes)


def rules(advice: list[Advice]) -> list[str]:
    """The names of the rules that gave the advice, in sequence."""
    return [each.rule.value for each in advice]


def only(e: Evidence) -> Advice:
    """The only piece of advice."""
    advice = advice_on(e)
    assert len(advice) == 1, rules(advice)
    assert advice[0].number == 1
    return advice[0]


def after(e: Evidence, advice: Advice) -> Any:
    """The spec after the advised change."""
    return spec_from(merged(e.spec.model_dump(mode="json"), advice.change))
