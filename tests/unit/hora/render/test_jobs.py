"""How the terminal shows jobs and epochs."""

from datetime import UTC, datetime, timedelta

import pytest

from hora.errors import Json
from hora.render.alerts import alert_text
from hora.render.copies import behind_text
from hora.render.idle import idle_text
from hora.render.jobs import (
    devices,
    epoch_line,
    expected_start,
    job_details,
    jobs_table,
    progress_line,
    results_table,
)
from hora.render.text import duration, ordinal, plain, ranges
from tests.printed import as_text, facts_of
from tests.unit.hora.played import ended
from tests.unit.hora.played import job as a_job

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
JOB: Json = {
    **ended(reason="early_stopped", id="0abc", name="digits-2"),
    "spec": {"dataset": {"source": "digits"}, "model": {"name": "lenet5"}},
    "progress": {"epoch": 7, "epochs": 30, "step": 70, "steps": 300, "samples_per_s": 5210.4, "eta_s": 12.0},
    "summary": {
        "best_epoch": 4, "epochs_run": 7, "val_accuracy": 0.9733, "val_loss": 0.1038, "test_accuracy": 0.9024,
        "train_samples_per_s": 12506.2, "wall_s": 185.0, "stopped_early": True,
    },
    "created_at": (NOW - timedelta(seconds=90)).isoformat(),
    "ended_at": None,
}  # fmt: skip


def test_jobs_table_has_a_line_for_a_job() -> None:
    head, line = as_text(jobs_table([JOB], NOW)).splitlines()
    assert head.split() == ["ID", "NAME", "STATUS", "GPUS", "EPOCH", "VAL", "ACCURACY", "SAMPLES/S", "SUBMITTED"]
    assert " ".join(line.split()) == "0abc digits-2 succeeded (early_stopped) 2 7/30 0.9733 12,506 1 min 30 s ago"


SCRIPT: Json = JOB | {
    "spec": {"dataset": None, "model": None, "goal": None},
    "code": "0" * 64,
    "progress": {"epoch": 0, "epochs": None, "step": 40, "steps": None, "eta_s": None, "done": 40.0, "total": 100.0},
    "summary": {"best_epoch": None, "epochs_run": None, "val_accuracy": None, "val_loss": None, "wall_s": 9.0},
    "metrics": {
        "loss": {"last": 0.5, "best": 0.25, "best_epoch": None},
        "val_mae": {"last": 0.004, "best": 0.00125, "best_epoch": 3},
    },
}


def test_jobs_table_shows_the_goal_of_each_job_or_the_metrics_that_are_named() -> None:
    jobs = [JOB | {"metrics": {"val_accuracy": {"last": 0.9, "best": 0.98, "best_epoch": 4}}}, SCRIPT]
    head, digits, script = as_text(jobs_table(jobs, NOW)).splitlines()
    assert "GOAL" in head.split()
    assert "val_accuracy 0.9733" in digits
    assert "40/100" in script
    assert "val_mae 0.00125" in script
    head, digits, script = as_text(jobs_table(jobs, NOW, metrics=["val_mae", "loss"])).splitlines()
    assert "VAL MAE    LOSS" in head
    assert "0.00125  0.2500" in script
    assert "GOAL" not in head
    goal = SCRIPT | {"spec": {"goal": {"metric": "loss", "mode": "min"}}}
    assert "loss 0.2500" in as_text(jobs_table([goal], NOW))
    metrics = {"val_accuracy": {"last": 0.9, "best": 0.91, "best_epoch": None}}  # reported by step
    running = SCRIPT | {"status": "running", "end_reason": None, "summary": None, "metrics": metrics}
    assert "0.9100" in as_text(jobs_table([running], NOW))
    now = {**running["progress"], "metrics": {"val_accuracy": 0.5}}
    assert "0.5000" in as_text(jobs_table([running | {"progress": now}], NOW))


def test_job_details_show_every_metric_of_a_script_and_the_goal_of_any_job() -> None:
    facts = facts_of(job_details(SCRIPT, NOW))
    assert facts["val_mae"] == "0.00125 in epoch 3 (goal), last 0.004"
    assert facts["loss"] == "0.2500, last 0.5000"
    assert "val accuracy" not in facts
    running = facts_of(job_details(SCRIPT | {"summary": None}, NOW))
    assert (running["progress"], running["val_mae"]) == ("done 40/100  step 40", facts["val_mae"])
    many = {f"m{number:03}": {"last": 1.0, "best": 1.0, "best_epoch": None} for number in range(100)}
    facts = facts_of(job_details(SCRIPT | {"metrics": many}, NOW))
    assert (facts["m000"], facts["more metrics"]) == ("1.0000 (goal)", "80")
    usual = {name: {"last": 0.2, "best": 0.1, "best_epoch": 4} for name in ("val_accuracy", "val_loss")}
    job = JOB | {"metrics": usual}
    assert not usual.keys() & facts_of(job_details(job, NOW)).keys(), "without a goal other rows say it"
    facts = facts_of(job_details(job | {"spec": JOB["spec"] | {"goal": {"metric": "val_loss", "mode": None}}}, NOW))
    assert (facts["val loss"], facts["val_loss"]) == ("0.1038", "0.1000 in epoch 4 (goal), last 0.2000")
    assert "val_accuracy" not in facts


@pytest.mark.parametrize(
    ("progress", "stage", "line"),
    [
        ({"epoch": 0, "epochs": None, "step": 200, "steps": 400}, "200/400 steps", "step 200/400"),
        ({"epoch": 3, "epochs": None, "step": 200, "steps": None}, "3/?", "epoch 3/?  step 200"),
        ({"epoch": 0, "epochs": None, "step": 0, "steps": None}, "-", "step 0"),
    ],
)
def test_progress_is_shown_in_epochs_or_else_in_steps(progress: Json, stage: str, line: str) -> None:
    _, row = as_text(jobs_table([SCRIPT | {"progress": progress}], NOW)).splitlines()
    assert row.split(" 2 ", 1)[1].strip().startswith(f"{stage}  ")
    assert progress_line(progress) == line
    now = JOB["progress"] | {"metrics": {"accuracy": 0.9, "val_accuracy": 0.91}}
    assert progress_line(now) == "epoch 7/30  step 70/300  5,210 samples/s  val_accuracy 0.9100  ETA 12.0 s"


@pytest.mark.parametrize("summary", [SCRIPT["summary"], None])
def test_a_metric_with_the_name_of_a_row_replaces_no_row(summary: Json | None) -> None:
    metric = {"last": 2.5, "best": 2.5, "best_epoch": None}
    names = ("id", "status", "error", "device", "samples/s", "address")
    job = SCRIPT | {"summary": summary, "error": "lost", "metrics": dict.fromkeys(names, metric)}
    for table in (job_details(job, NOW), results_table(job, "http://h/jobs/0abc", trained_on="1 CPU slot")):
        lines = [line.split(maxsplit=1) for line in as_text(table).splitlines()]
        assert ["status", "succeeded (early_stopped)"] in lines
        assert ["error", "lost"] in lines
        assert [name for name, value in lines if value.startswith("2.5")] == sorted(names)


def test_positions_are_ordinals_slots_are_ranges_and_durations_have_units() -> None:
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 22, 113)] == ["1st", "2nd", "3rd", "4th", "11th", "22nd", "113th"]
    assert [ranges(numbers) for numbers in ([0, 1, 2, 5], [3], [2, 0], [])] == ["0-2 5", "3", "0 2", ""]
    shown = [duration(seconds) for seconds in (None, 0.52, 185, 7620, 3599.8)]
    assert shown == ["-", "0.5 s", "3 min 05 s", "2 h 07 min", "1 h 00 min"]


DATA = {
    "format": "images", "shape": [96, 64, 3], "classes": ["ant", "bee", "cat", "dog", "emu", "fox"], "damaged": 2,
    "damaged_files": ["bee/7.png", "emu/\x1b[31m.png"],
}  # fmt: skip


def waits(position: int | None, reason: str, **changes: object) -> dict[str, object]:
    queued = {"status": "queued", "end_reason": None, "attempt": 0, "waiting": {"position": position, "reason": reason}}
    return {**JOB, **queued, "summary": None, **changes}


BEHIND = {"since": NOW.isoformat(), "host": "ha", "step": 70, "bytes": 5_000_000, "why": "access denied"}
KEEPS = {"checkpoint_bytes": 9 * 10**8, "artifact_bytes": 3 * 10**8}
FAILED = {"status": "failed", "end_reason": "stalled", "cause": "No rank made a step.", "remedy": "Read \x1b[2J."}
ALERTS = {"alerts": 2, "last_alert": {"at": NOW.isoformat(), "level": "error", "title": "NaN", "text": "at step 3"}}
IDLE = {"action": "stop", "since": NOW.isoformat(), "acts_at": None, "why": "its 8 GPUs are used less than 5 %"}
CODE = {"code": "0a" * 32, "command": ["python", "t.py"], "labels": {"git.commit": "1b2c"}}


@pytest.mark.parametrize(
    ("changes", "row", "text"),
    [
        ({"run_id": "ab12"}, "imported", "run ab12, trained with no service"),
        ({"study": "0stu", "study_cell": 2, "study_repeat": 0}, "study", "0stu, cell 3, repeat 1"),
        ({"spec": SCRIPT["spec"] | CODE}, "code", f"{'0a' * 32}, commit 1b2c"),  # `hora code` takes no part of a digest
        ({"dataset": DATA}, "data", "images, 96x64x3, 6 classes: ant, bee, cat, dog, emu, ..."),
        ({"dataset": DATA}, "damaged", "2 left out: bee/7.png, emu/\\x1b[31m.png"),
        (KEEPS, "keeps", "1.2 GB: 0.9 GB of checkpoints, 0.3 GB of artifacts"),
        ({"checkpoint_bytes": 0, "artifact_bytes": 0}, "keeps", None),
        ({"summary": JOB["summary"] | {"after_best_share": 0.4286}}, "best epoch", "4, with 43 % of the time after it"),
        ({"copies_behind": BEHIND}, "copies", behind_text(BEHIND, NOW)),
        ({"idle": IDLE}, "idle", idle_text(IDLE, NOW)),
        (ALERTS, "alerts", "2, the newest 0.0 s ago: error: NaN: at step 3"),
        (FAILED, "error", "No rank made a step."),
        (FAILED, "what to do", "Read \\x1b[2J."),
        (FAILED | {"error": "rank 1 hangs"}, "error", "rank 1 hangs"),
        ({"losses": 2}, "lost", "2 attempts, with their host or supervisor"),
        ({"status": "running", "end_reason": None, "paused_at": NOW.isoformat()}, "status", "running (pausing)"),
        ({"ended_at": NOW.isoformat(), "paused_at": NOW.isoformat()}, "status", "succeeded (early_stopped)"),
    ],
)
def test_a_job_shows_what_is_known_of_it(changes: Json, row: str, text: str | None) -> None:
    assert facts_of(job_details(JOB | changes, NOW)).get(row) == text
    assert row in ("best epoch", "status") or row not in facts_of(job_details(JOB, NOW))


def test_a_job_that_waits_says_why_and_has_no_results() -> None:
    job = waits(1, "is next", plan={}, started_at=None)
    job["progress"] = {"epoch": 0, "epochs": None, "step": 0, "steps": None, "eta_s": None}
    facts = facts_of(job_details(job, NOW))
    assert (facts["submitted"], facts["in queue"]) == ("1 min 30 s ago", "1st: is next")
    assert "best epoch" not in facts
    assert "None" not in "".join(facts.values())
    jobs = [waits(3, "needs 4 slots; 2 are free"), waits(None, "paused", paused_at=NOW.isoformat()), JOB]
    head, third, paused, over = as_text(jobs_table(jobs, NOW)).splitlines()
    assert head.endswith("IN QUEUE")
    assert third.endswith("3rd: needs 4 slots; 2 are free")
    assert "queued (paused)" in paused
    assert (paused[-3:], over[-3:]) == ("  -", "  -")


def test_a_job_says_when_it_is_expected_to_start() -> None:
    waiting = {"position": 3, "reason": "is next", "starts_in_s": 720.0}
    queued = waits(3, "is next", waiting=waiting)
    assert expected_start(queued) == "in about 12 min 00 s"
    assert expected_start(waits(1, "is next", waiting={**waiting, "starts_in_s": 0.0})) == "soon"
    assert expected_start({**queued, "paused_at": NOW.isoformat()}) is None


def test_job_details_show_the_slots_the_set_up_times_and_the_reason_of_a_preemption() -> None:
    shares = [{"host": "ha", "slots": [0, 1, 2]}, {"host": "hb", "slots": [1]}]
    setup = {"data": 0.5, "import": 2.5, "other": 0.1, "first_step": 65.0}
    attempt = {"shares": shares, "preempted_for": "job 0def", "preemption": {"kind": "job"}, "setup": setup}
    facts = facts_of(job_details(JOB, NOW, attempt=attempt))
    assert (facts["slots"], facts["preempted"]) == ("ha 0-2, hb 1", "to make room for job 0def")
    assert facts["set-up"] == "import 2.5 s, data 0.5 s, first step 1 min 05 s, other 0.1 s"
    moved = {"preempted_for": "host ha is drained", "preemption": {"kind": "host_drained", "host": "ha"}}
    assert facts_of(job_details(JOB, NOW, attempt=moved))["preempted"] == "because host ha is drained"


def test_lines_about_progress_and_epochs_show_any_metric_and_the_goal() -> None:
    data = {"epoch": 3, "val_loss": 0.2, "accuracy": 0.93, "loss": 0.26, "val_accuracy": None, "samples_per_s": 18054.2}
    figures = "loss 0.2600  accuracy 0.9300  val_loss 0.2000  val_accuracy -  18,054 samples/s"
    assert epoch_line(data, 4) == f"epoch 3/4  {figures}"
    data = {"epoch": 3, "step": 30, "val_mae": 0.2, "loss": 0.26, "val_iou": 0.5, "learning_rate": 0.1, "epoch_s": 0.07}
    assert epoch_line(data, None, goal="val_iou") == "epoch 3/?  loss 0.2600  val_mae 0.2000  val_iou 0.5000"
    many = {f"m{number}": 1.0 for number in range(20)} | data
    assert epoch_line(many, None, goal="val_iou").endswith("  m6 1.0000  val_iou 0.5000")
    metrics = {name: data[name] for name in ("val_mae", "loss", "val_iou")}
    progress = {"epoch": 3, "epochs": None, "step": 30, "metrics": metrics}
    assert progress_line(progress) == "epoch 3/?  step 30  val_iou 0.5000"
    assert progress_line(progress, goal="val_mae") == "epoch 3/?  step 30  val_mae 0.2000"


def test_control_characters_in_text_are_escaped() -> None:
    assert plain("a\x1b[31mb\x07\rc\td\n") == "a\\x1b[31mb\\x07\\x0dc\td\\x0a"
    assert plain("\u202egpj.exe\u2066\u2028\x9b2J\udcff") == r"\u202egpj.exe\u2066\u2028\x9b2J\udcff"
    assert plain("Grüße, 你好, مرحبا, 👩‍👩‍👧") == "Grüße, 你好, مرحبا, 👩‍👩‍👧"
    hostile = alert_text({"level": "info", "title": "\x1b[2Ja\r\nb", "text": "[bold]c[/bold]\n\u202ed"})
    assert hostile == r"info: \x1b[2Ja b: [bold]c[/bold] \u202ed"
    job = {**JOB, "name": "[bold]x\x1b]0;y\x07"}
    assert "\x1b" not in as_text(jobs_table([job], NOW))


def test_the_devices_of_an_attempt_are_named_with_the_reason_for_cpu_slots() -> None:
    def on(*names: str) -> Json:
        return {"shares": [{"host": "ab"[at], "slots": [0], "devices": [name]} for at, name in enumerate(names)]}

    problem = "2 GPUs (H200) are here, but TensorFlow is built for CPUs"
    hosts = [{"name": "a", "info": {"device_problem": problem}}, {"name": "b", "info": {}}]
    assert devices(on("NVIDIA H200", "NVIDIA A100"), hosts) == "2 GPUs: NVIDIA A100, NVIDIA H200"
    assert devices(on("cpu", "cpu"), hosts) == f"2 CPU slots\n{problem}"
    assert devices(on("cpu"), hosts[1:]) == "1 CPU slot"
    assert devices({"shares": [{"host": "a", "slots": [0]}]}, hosts) is None  # of an earlier version
    assert devices(None, []) is None
    assert "device         1 CPU slot" in as_text(results_table(JOB, "http://h", trained_on="1 CPU slot"))


def test_a_list_shows_stars_and_a_column_of_studies_if_there_are_any() -> None:
    alone = jobs_table([a_job(name="a"), a_job(name="b", starred=True)])
    assert [column.header for column in alone.columns][:3] == ["ID", "NAME", "STATUS"]
    assert list(alone.columns[1].cells) == ["a", "★ b"]
    together = jobs_table([a_job(name="a", study="0abc"), a_job(name="b")])
    assert [column.header for column in together.columns][:3] == ["ID", "NAME", "STUDY"]
    assert list(together.columns[2].cells) == ["0abc", "-"]
