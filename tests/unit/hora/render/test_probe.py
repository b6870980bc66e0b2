"""How the terminal shows a batch probe."""

from typing import Any

from hora.cli.probe import as_given
from hora.render.jobs import job_details
from hora.render.probe import point_line, points_lines, probe_rows

POINTS = [
    {
        "per_gpu_batch": 64, "global_batch": 128, "fits": True, "steps": 120, "step_time_s": 0.02,
        "samples_per_s": 6400.4, "data_wait_s": 0.005, "allreduce_s": 0.01, "memory_bytes": 1_210_000_000,
    },
    {"per_gpu_batch": 128, "global_batch": 256, "fits": False, "steps": 0, "step_time_s": None, "samples_per_s": None,
     "data_wait_s": None, "allreduce_s": None, "memory_bytes": None},
]  # fmt: skip
PROBE: dict[str, Any] = {
    "points": POINTS, "ended_by": "memory", "knee_batch": None, "largest_batch": 64, "batch_size": 64,
    "learning_rate": 0.00141, "why": "Throughput grows to the end.\x1b[2J",
}  # fmt: skip
JOB = {"id": "0abc", "probe": PROBE}


def test_batches_are_shown_as_a_table_and_each_as_one_line() -> None:
    head, first, second = points_lines(POINTS)
    assert head.split("  ")[-1] == "memory"
    assert first.split() == ["64", "128", "6,400", "20.00", "20", "%", "40", "%", "1,210", "MB"]
    assert second.split() == ["128", "256", "no", "memory"]
    assert len(head) == len(first)
    assert point_line(POINTS[0]) == "batch 64 per GPU, 128 in all: 6,400 samples/s, 20.00 ms a step"
    assert point_line(POINTS[1]) == "batch 128 per GPU, 256 in all: does not fit the memory"


def test_findings_include_the_command_that_trains_with_the_proposal() -> None:
    rows = probe_rows(JOB)
    assert rows["largest"] == "64 per GPU: the next one does not fit the memory"
    assert rows["knee"] is None
    assert rows["proposal"] == "batch_size 64, learning_rate 0.00141"
    settings = "--set batch_size=64 --set learning_rate=0.00141"
    assert rows["train so"] == f"hora clone 0abc --set probe=null {settings}"
    assert probe_rows(JOB, ["my spec.yaml"])["train so"] == f"hora submit 'my spec.yaml' {settings}"
    assert "\x1b" not in str(rows["why"])


def test_a_probe_that_runs_or_fits_no_batch_has_no_proposal() -> None:
    goes_on = {"points": POINTS[:1], "ended_by": None}
    assert set(probe_rows({"id": "0abc", "probe": goes_on})) == {"batches"}
    assert probe_rows({"id": "0abc", "probe": {"points": [], "ended_by": None}}) == {"batches": None}
    nothing = {**PROBE, "largest_batch": None, "batch_size": None, "learning_rate": None}
    assert {"proposal", "train so"}.isdisjoint(probe_rows({"id": "0abc", "probe": nothing}))
    job = {**JOB, "name": "p", "status": "succeeded", "end_reason": "completed", "gpus": 2, "spec": {}}
    assert "batches" in [str(cell) for cell in job_details(job).columns[0].cells]


def test_training_command_repeats_the_given_options_except_the_probe() -> None:
    options = {"dataset": "digits", "batch_size": None, "gpus": 2}
    changes = ["probe.seconds=1", "optimizer=sgd", "probe = {}"]
    given = as_given(None, options, changes, is_probe=False)
    assert given == ["--dataset", "digits", "--gpus", "2", "--set", "optimizer=sgd"]
    assert as_given("a.yaml", {}, changes, is_probe=True) == ["a.yaml", "--set", "optimizer=sgd", "--set", "probe=null"]
