"""How `hora show` shows the analysis and the advice of a job."""

from typing import Any

from hora.render.analysis import advice_rows, analysis_rows, ledger_line
from hora.render.tables import facts
from jobs.views.advice import Advice
from jobs.views.analysis import Analysis
from tests.printed import facts_of

SPREAD = {"least": 0.0, "p5": 12.2, "p50": 90.0, "p95": 99.4, "greatest": 100.0, "mean": 80.7}
USE = {
    "metric": "gpu_percent", "host": "ha", "slot": 3, "rank": 0, "attempt": 1, "samples": 60, "seconds": 60.0,
    "spread": SPREAD, "duty_cycle": 0.952, "spikiness": 0.62, "period_s": 4.0,
}  # fmt: skip
STEPS = [
    {"rank": -1, "steps": 99, "step_time_s": 0.0182, "data_wait": 0.12, "allreduce": 0.28, "compute": 0.6},
    {"rank": 0, "steps": 99, "step_time_s": 9.0, "data_wait": 0.1, "allreduce": 0.1, "compute": 0.8},
]
EMPTY: dict[str, Any] = {
    "job_id": "0abc", "complete": True, "findings": [], "steps": [], "utilization": [], "imbalances": [],
    "stalls": [], "learning": None, "ledger": {"leased_s": 0.0, "items": {}},
}  # fmt: skip


def analysis_facts(**known: Any) -> dict[str, str]:
    """The rows of an analysis with these fields, in the form of the API."""
    analysis = Analysis.model_validate({**EMPTY, **known}).model_dump(mode="json")
    rows = {name: row for name, row in analysis_rows(analysis).items() if row is not None}
    return facts_of(facts(rows)) if rows else {}


def test_a_job_without_evidence_gets_no_rows() -> None:
    assert analysis_facts() == {}
    assert analysis_rows(None) == {}
    assert advice_rows([]) == {}


def test_findings_imbalances_and_the_step_time_of_all_ranks_are_shown() -> None:
    findings = [
        {"kind": "input_bound", "text": "The ranks wait for data 63 % of the time.", "evidence": {"data_wait": 0.63}},
        {"kind": "overfits", "text": "Loss rises\x1b[2J.", "evidence": {}},
    ]
    uneven = {"figure": "memory_bytes", "by_rank": {0: 2.0, 1: 1.0}, "ratio": 2.0, "text": "Rank 0 holds twice."}
    assert analysis_facts(findings=findings, imbalances=[uneven], steps=STEPS) == {
        "findings": "input bound: The ranks wait for data 63 % of the time.\noverfits: Loss rises\\x1b[2J.",
        "uneven": "Rank 0 holds twice.",
        "step time": "18.2 ms, of which 60 % computing, 12 % waiting for data, 28 % in allreduce",
    }


def test_the_step_time_of_one_process_for_all_gpus_says_that_averaging_is_not_measured() -> None:
    steps = [{"rank": -1, "steps": 99, "step_time_s": 0.02, "data_wait": 0.1, "allreduce": None, "compute": 0.9}]
    assert analysis_facts(steps=steps)["step time"] == (
        "20 ms, of which 90 % computing, 10 % waiting for data; averaging is not measured: it is in computing"
    )


def test_utilization_has_a_line_for_each_rank_of_the_newest_attempt() -> None:
    cpu = {**USE, "rank": 1, "attempt": 2, "slot": 4, "metric": "cpu_percent", "period_s": None}
    assert analysis_facts(utilization=[USE, {**USE, "attempt": 2}, cpu])["utilization"] == (
        "rank 0 (ha 3): GPU 81 % on average, 12-99 % (p5-p95), half or more in 95 % of the time, "
        "spikiness 0.62, every 4.0 s\n"
        "rank 1 (ha 4): CPU 81 % on average, 12-99 % (p5-p95), half or more in 95 % of the time, spikiness 0.62"
    )
    lines = analysis_facts(utilization=[{**USE, "rank": rank} for rank in range(20)])["utilization"].splitlines()
    assert (len(lines), lines[-1]) == (17, "and 4 ranks more")


def test_ledger_is_one_line_of_shares_with_the_largest_first() -> None:
    items = {"launch": 5.0, "set_up": 20.0, "useful": 60.0, "data_wait": 14.7, "saving": 0.3, "idle": 0.0}
    expected = "1 min 40 s: useful 60 %, set-up 20 %, waiting for data 15 %, launch 5 %"
    assert analysis_facts(ledger={"leased_s": 100.0, "items": items})["slot time"] == expected
    assert ledger_line({"leased_s": 0.0, "items": {}}) is None


def test_advice_is_numbered_with_its_reason_and_expected_gain() -> None:
    gain = {"time_factor": 0.37, "gpu_hours_factor": 0.37, "accuracy": None, "text": "About 63 % less time."}
    item = {"rule": "early_stopping", "what": "Stop early.", "why": "22 epochs too many.", "evidence": {}, "gain": gain}
    items = [
        Advice.model_validate({**item, "number": number, "change": {"epochs": 8}}).model_dump(mode="json")
        for number in (1, 10)
    ]
    assert facts_of(facts(advice_rows(items)))["advice"].splitlines() == [
        "1. Stop early.",
        "   22 epochs too many.",
        "   Expected: about 63 % less time.",
        "10. Stop early.",
        "    22 epochs too many.",
        "    Expected: about 63 % less time.",
    ]
