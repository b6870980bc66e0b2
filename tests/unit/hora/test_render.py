"""What a person sees of jobs, epochs and hosts."""

import io
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console, RenderableType

from hora.phrases import duration, ordinal, plain, ranges
from hora.render import (
    Finding,
    epoch_line,
    findings_table,
    hosts_table,
    job_details,
    jobs_table,
    progress_line,
    results_table,
    waiting,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
JOB = {
    "id": "0abc",
    "name": "digits-2",
    "status": "succeeded",
    "end_reason": "early_stopped",
    "error": None,
    "spec": {"dataset": {"source": "digits"}, "model": {"name": "lenet5"}},
    "plan": {"per_gpu_batch": 64, "global_batch": 128, "learning_rate": 0.001, "epochs": 30, "train_samples": 1350},
    "progress": {"epoch": 7, "epochs": 30, "step": 70, "steps": 300, "samples_per_s": 5210.4, "eta_s": 12.0},
    "summary": {
        "best_epoch": 4,
        "epochs_run": 7,
        "val_accuracy": 0.9733,
        "val_loss": 0.1038,
        "test_accuracy": 0.9024,
        "train_samples_per_s": 12506.2,
        "wall_s": 185.0,
        "stopped_early": True,
    },
    "gpus": 2,
    "attempt": 1,
    "created_at": (NOW - timedelta(seconds=90)).isoformat(),
    "started_at": (NOW - timedelta(seconds=80)).isoformat(),
    "ended_at": None,
}


def shown(what: RenderableType, width: int = 200) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(what)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0.52, "0.5 s"), (59.9, "59.9 s"), (185, "3 min 05 s"), (7620, "2 h 07 min"), (3599.8, "1 h 00 min")],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_the_list_has_a_line_for_a_job() -> None:
    head, line = shown(jobs_table([JOB], NOW)).splitlines()
    assert head.split() == ["ID", "NAME", "STATUS", "GPUS", "EPOCH", "VAL", "ACCURACY", "SAMPLES/S", "SUBMITTED"]
    assert " ".join(line.split()) == "0abc digits-2 succeeded (early_stopped) 2 7/30 0.9733 12,506 1 min 30 s ago"


def test_positions_and_slots_are_told_as_people_say_them() -> None:
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 22, 101, 111)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "101st", "111th",
    ]  # fmt: skip
    assert [ranges(numbers) for numbers in ([0, 1, 2, 5], [3], [2, 0], [])] == ["0-2 5", "3", "0 2", ""]


def waits(position: int | None, reason: str, **changes: object) -> dict[str, object]:
    queued = {"status": "queued", "end_reason": None, "attempt": 0, "waiting": {"position": position, "reason": reason}}
    return {**JOB, **queued, "summary": None, **changes}


def test_the_list_says_why_jobs_wait() -> None:
    jobs = [waits(3, "needs 4 slots; 2 are free"), waits(None, "paused", paused_at=NOW.isoformat()), JOB]
    head, third, paused, ended = shown(jobs_table(jobs, NOW)).splitlines()
    assert head.endswith("IN QUEUE")
    assert third.endswith("3rd: needs 4 slots; 2 are free")
    assert "queued (paused)" in paused
    assert paused.endswith("  -")
    assert ended.endswith("  -")


def test_a_job_that_is_asked_to_pause_says_so_until_it_ends() -> None:
    paused = {"paused_at": NOW.isoformat(), "end_reason": None}
    assert "running (pausing)" in shown(job_details({**JOB, **paused, "status": "running"}, NOW))
    over = {**paused, "status": "succeeded", "ended_at": NOW.isoformat()}
    assert "paus" not in shown(job_details({**JOB, **over}, NOW))


def test_a_job_is_shown_with_its_slots_and_why_it_made_room() -> None:
    shares = [{"host": "ha", "slots": [0, 1, 2]}, {"host": "hb", "slots": [1]}]
    attempt = {"shares": shares, "preempted_for": "job 0def"}
    lines = shown(job_details(waits(1, "is next", losses=2), NOW, attempt=attempt)).splitlines()
    told = {line[:14].strip(): line[14:].strip() for line in lines}
    assert (told["slots"], told["preempted"]) == ("ha 0-2, hb 1", "for job 0def")
    assert told["in queue"] == "1st: is next"
    assert told["lost"].startswith("2 attempts")
    drained = shown(job_details(JOB, NOW, attempt={"preempted_for": "host ha is drained"}))
    assert "preempted      host ha is drained" in drained


def test_the_results_of_a_job() -> None:
    assert shown(results_table(JOB, "http://here/v1/jobs/0abc")).splitlines() == [
        "Job 0abc (digits-2)",
        "status         succeeded (early_stopped)",
        "best epoch     4",
        "val accuracy   0.9733",
        "val loss       0.1038",
        "test accuracy  0.9024",
        "samples/s      12,506",
        "training time  3 min 05 s",
        "epochs run     7 of 30, stopped early",
        "address        http://here/v1/jobs/0abc",
    ]


def test_a_job_that_has_only_been_submitted() -> None:
    job = {**JOB, "status": "queued", "end_reason": None, "plan": {}, "summary": None, "attempt": 0, "started_at": None}
    job["progress"] = {"epoch": 0, "epochs": None, "step": 0, "steps": None, "eta_s": None}
    text = shown(job_details(job, NOW))
    assert "1 min 30 s ago" in text
    assert "best epoch" not in text
    assert "None" not in text


DATA = {
    "format": "images",
    "shape": [96, 64, 3],
    "classes": ["ant", "bee", "cat", "dog", "emu", "fox"],
    "train": 90,
    "validation": 10,
    "test": 0,
    "damaged": 2,
    "damaged_files": ["bee/7.png", "emu/\x1b[31m.png"],
}


def test_a_job_is_shown_with_its_data_and_its_set_up() -> None:
    setup = {"data": 0.5, "build": 1.0, "import": 2.5, "other": 0.1, "first_step": 65.0}
    lines = shown(job_details({**JOB, "dataset": DATA}, NOW, attempt={"setup": setup})).splitlines()
    told = {line[:14].strip(): line[14:].strip() for line in lines}
    assert told["data"] == "images, 96x64x3, 6 classes: ant, bee, cat, dog, emu, ..."
    assert told["damaged"] == "2 left out: bee/7.png, emu/�[31m.png"
    assert told["set-up"] == "import 2.5 s, data 0.5 s, build 1.0 s, first step 1 min 05 s, other 0.1 s"
    assert "waiting" not in told
    whole = shown(job_details({**JOB, "dataset": {**DATA, "damaged": 0, "damaged_files": []}}, NOW))
    assert "damaged" not in whole


def test_the_best_epoch_is_shown_with_what_came_after_it() -> None:
    def told(share: float | None) -> str:
        summary = {**JOB["summary"], "after_best_share": share}  # type: ignore[dict-item]
        (line,) = [line for line in shown(job_details({**JOB, "summary": summary}, NOW)).splitlines() if "best" in line]
        return line.split(maxsplit=2)[2]

    assert told(0.4286) == "4, with 43 % of the time after it"
    assert told(0.0) == "4"
    assert told(None) == "4"


def of_epochs(name: str, *values: float | None, rank: int = -1) -> dict[str, object]:
    return {"name": name, "rank": rank, "x": [*range(1, len(values) + 1)], "y": [*values]}


def test_waiting_is_a_share_of_the_time_of_the_steps() -> None:
    plan = {"steps_per_epoch": 10, "global_batch": 100}  # 1000 samples an epoch
    speeds = of_epochs("samples_per_s", 0.0, 500.0, 1000.0)  # the first epoch was not timed; then 2 s and 1 s
    waits = [of_epochs("data_wait_s", 9.0, 0.2, 0.1), of_epochs("allreduce_s", 9.0, 0.6, None)]
    others = [of_epochs("data_wait_s", 5.0, 5.0, 5.0, rank=0), of_epochs("loss", 1.0, 1.0, 1.0)]
    assert waiting([speeds, *waits, *others], plan) == "for data 10 %, in allreduce 30 % of the step time"
    assert waiting([speeds, *others], plan) is None
    assert waiting([*waits], plan) is None
    assert waiting([speeds, *waits], {}) is None


def test_progress_says_only_what_is_known() -> None:
    assert progress_line({"epoch": 0, "epochs": 30, "step": 0, "steps": None}) == "epoch 0/30  step 0"
    assert (
        progress_line({**JOB["progress"], "metrics": {"accuracy": 0.9, "val_accuracy": 0.91}})  # type: ignore[dict-item]
        == "epoch 7/30  step 70/300  5,210 samples/s  val_accuracy 0.9100  ETA 12.0 s"
    )


def test_an_epoch_tells_training_before_validation() -> None:
    data = {
        "epoch": 3,
        "step": 30,
        "val_loss": 0.2,
        "accuracy": 0.93,
        "loss": 0.26,
        "val_accuracy": None,
        "samples_per_s": 18054.2,
        "epoch_s": 0.07,
    }
    assert (
        epoch_line(data, 4)
        == "epoch 3/4  loss 0.2600  accuracy 0.9300  val_loss 0.2000  val_accuracy -  18,054 samples/s"
    )


def test_text_from_elsewhere_cannot_drive_the_terminal() -> None:
    assert plain("a\x1b[31mb\x07\rc\td\n") == "a�[31mb��c\td�"
    job = {**JOB, "name": "[bold]x\x1b]0;y\x07"}
    assert "\x1b" not in shown(jobs_table([job], NOW))


def test_slots_of_a_host_that_is_not_alive_are_not_free() -> None:
    slots = [{"kind": "cpu", "name": "CPU share", "state": state} for state in ("free", "leased", "quarantined")]
    hosts = [
        {"name": "a", "alive": True, "heartbeat_at": NOW.isoformat(), "slots": slots},
        {"name": "b", "alive": False, "heartbeat_at": NOW.isoformat(), "slots": slots},
    ]
    _, first, second = shown(hosts_table(hosts, NOW)).splitlines()
    assert first.split()[:4] == ["a", "yes", "3", "1"]
    assert second.split()[:4] == ["b", "no", "3", "0"]


def test_what_keeps_jobs_from_a_host_is_noted() -> None:
    slots = [{"kind": "cpu", "name": "CPU share", "state": state} for state in ("free", "quarantined", "quarantined")]
    base = {"alive": True, "heartbeat_at": NOW.isoformat(), "slots": slots}
    hosts = [{**base, "name": "a", "drained_at": NOW.isoformat()}, {**base, "name": "b", "kept_for": "0abc"}]
    _, drained, kept = shown(hosts_table(hosts, NOW)).splitlines()
    assert drained.split()[3] == "0"
    assert drained.endswith("drained, 2 quarantined")
    assert kept.split()[3] == "1"
    assert kept.endswith("kept for 0abc, 2 quarantined")


def test_findings_say_what_to_do() -> None:
    text = shown(findings_table([Finding("disk space", "fail", "0.1 GB free", "Make room.")]))
    assert "disk space  fail  0.1 GB free  Make room." in text
