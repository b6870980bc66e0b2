"""Analyses a job: the entry point. Called by the api, also for `jobs.insight.advice`, and by `keeping`.

The analysis of a job that ended is stored, and remains when the series are thinned. That of a live job is computed at
each request.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from jobs.db.tables import Job, JobAnalysis
from jobs.insight.analysis import imbalance, learning, stalls, steps, utilization
from jobs.insight.analysis.communication import Communication, communication_of
from jobs.insight.analysis.evidence import Evidence, Run, SlotSamples, Steps
from jobs.insight.analysis.ledger import ledger_of
from jobs.insight.analysis.reading import evidence_of
from jobs.insight.analysis.stalls import Pause
from jobs.insight.analysis.steps import Split
from jobs.insight.analysis.verdicts import Facts, findings
from jobs.views.analysis import Analysis, Stall

VERSION = 7  # of the stored analyses: increase it when the same rows lead to another answer
MOST_STALLS = 20
_SETTLED_AFTER = timedelta(minutes=1)  # the last samples and lines of a job arrive a little after its end


def analysis_of(session: Session, job: Job) -> Analysis:
    """The analysis of a job. It is stored when it cannot change any more. The caller commits."""
    stored = session.get(JobAnalysis, job.id)
    if stored is not None and (stored.version == VERSION or job.series_thinned_at is not None):
        return Analysis.model_validate(stored.data)
    analysis = analysed(evidence_of(session, job))
    settled = select(Job.ended_at < func.now() - _SETTLED_AFTER).where(Job.id == job.id)
    if session.scalar(settled):
        _store(session, analysis)
    return analysis


def analysed(evidence: Evidence) -> Analysis:
    """The analysis that follows from the evidence. Pure."""
    pauses = stalls.find_stalls(evidence)
    usual_steps = stalls.steps_without(evidence.steps, pauses)
    pattern = steps.pattern(usual_steps)
    training = [_training(slot, evidence.runs, pauses) for slot in evidence.samples]
    training = [slot for slot in training if len(slot.busy)]
    ranks = max((one.ranks for one in usual_steps), default=1)
    communication = None if pattern is None else communication_of(pattern, evidence, training, ranks=ranks)
    # The summary of a script names the best epoch by the goal, also where early stopping monitors another metric.
    by_goal_alone = evidence.spec.get("code") and evidence.spec.get("early_stopping")
    learned = learning.learning_of(
        evidence.epochs,
        learning.monitored(evidence.spec, evidence.metrics, {"task": evidence.task}),
        None if by_goal_alone else evidence.summary,
    )
    ledger = ledger_of(
        evidence.runs,
        pauses,
        {run.number: _split(run, evidence, usual_steps, communication) for run in evidence.runs},
        best_epoch=learned.best_epoch if learned is not None else None,
        is_probe=evidence.spec.get("probe") is not None,
    )
    use = [utilization.slot_use(slot) for slot in training]
    uneven = imbalance.imbalances(training, steps.compute_of_ranks(usual_steps), on_gpu=evidence.on_gpu)
    facts = Facts(evidence, pattern, communication, pauses, learned, training, use, uneven, ledger)
    return Analysis(
        job_id=evidence.job_id,
        complete=evidence.ended,
        findings=findings(facts),
        steps=steps.shares(usual_steps, in_graph=evidence.spec.get("strategy") == "mirrored"),
        utilization=use,
        imbalances=uneven,
        stalls=[_stall(pause, evidence.samples) for pause in sorted(pauses, key=_descending_length)[:MOST_STALLS]],
        learning=learned,
        ledger=ledger,
    )


def _training(slot: SlotSamples, runs: Sequence[Run], pauses: Sequence[Pause]) -> SlotSamples:
    """The samples of a slot from the first step of its attempt to the last one, without the stalls."""
    run = next(run for run in runs if run.number == slot.attempt)
    trained = slot.between(run.epochs[0].first_ended_at, run.epochs[-1].ended_at)
    own = [one for one in pauses if one.attempt == slot.attempt]
    stalled = [(trained.at >= one.began_at) & (trained.at <= one.began_at + one.length_s) for one in own]
    return trained.where(~np.any(stalled, axis=0)) if stalled else trained


def _split(run: Run, evidence: Evidence, usual_steps: Sequence[Steps], communication: Communication | None) -> Split:
    """How the steps of an attempt spent their time, as far as that is known."""
    split = steps.split([one for one in usual_steps if one.attempt == run.number])
    if not evidence.on_gpu:
        return split
    # On a GPU the allreduce contains the backward pass. What is not known to be communication is computing.
    exchange = min(1 - split.data_wait, communication.share if communication is not None else 0.0)
    return Split(split.data_wait, exchange, 1 - split.data_wait - exchange)


def _descending_length(pause: Pause) -> float:
    return -pause.length_s


def _stall(pause: Pause, samples: Sequence[SlotSamples]) -> Stall:
    meanwhile = (one.between(pause.began_at, pause.began_at + pause.length_s) for one in samples)
    busy = [one.busy for one in meanwhile if one.attempt == pause.attempt and len(one.busy)]
    return Stall(
        attempt=pause.attempt,
        began_at=datetime.fromtimestamp(pause.began_at, UTC),
        length_s=pause.length_s,
        after_step=pause.after_step,
        usual_step_s=pause.usual_step_s,
        ongoing=pause.ongoing,
        cause=pause.cause,
        rank=pause.rank,
        use_percent=float(np.concatenate(busy).mean()) if busy else None,
    )


def _store(session: Session, analysis: Analysis) -> None:
    there = select(Job.id).where(Job.id == analysis.job_id).with_for_update(read=True, key_share=True)
    if session.scalar(there) is None:  # a person deleted it meanwhile
        return
    data: dict[str, Any] = {"version": VERSION, "data": analysis.model_dump(mode="json")}
    row = insert(JobAnalysis).values(job_id=analysis.job_id, **data)
    newer = {**data, "made_at": func.now()}
    session.execute(row.on_conflict_do_update(index_elements=[JobAnalysis.job_id], set_=newer))
