"""Scripts under real horovodrun: their curves, their end, and how they go on after a pause.

`test_example_code` has one whose rank is killed.
"""

from typing import Any

import pytest

from hora import Client
from hora.service import Service
from hora.stack.control import Stack
from tests.acceptance.conftest import ended, kinds, no_process_left, points, submit_script
from tests.waiting import until

STEPS, EPOCH = 40, 10
SCRIPT = f"""
import sys, time
from hora import run

latest = run.latest_checkpoint()
time.sleep(run.rank * run.params.get("late_s", 0))
done = 0 if latest is None else int((latest / "step").read_text())
print("from step", done, "with", sys.argv[1:], flush=True)
for step in range(done + 1, {STEPS} + 1):
    time.sleep(float(run.params["pace_s"]) if latest is None else 0.01)
    run.report(step=step, mae=1 / step)
    if step == {EPOCH}:
        run.alert("an epoch")
    if step % {EPOCH} == 0:
        run.report(epoch=step // {EPOCH}, val_mae=2 / step)
        run.table("val/epochs", ["rank", "epoch"], [[run.rank, step // {EPOCH}]], step=step)
    stopping = run.should_stop()
    if stopping or step % {EPOCH} == 0:
        with run.checkpoint(step) as folder:
            (folder / "step").write_text(str(step))
    if stopping:
        sys.exit()
if run.rank == 0:
    (run.artifacts / "model.txt").write_text("trained")
"""


def submitted(stack: Stack, *, script: str = SCRIPT, **fields: Any) -> str:
    """A job of two ranks that runs this script."""
    command = ["python", "train.py", "--batch={batch_size}", "{params.pace_s}"]
    usual = {"command": command, "batch_size": 8, "gpus": 2, "goal": {"metric": "val_mae"}}
    return submit_script(stack, script, **usual | fields)


def whole_curves(client: Service, job_id: str, *ranks: int) -> None:
    for rank in ranks:
        assert points(client, job_id, "mae", axis="step", rank=rank) == {step: 1 / step for step in range(1, STEPS + 1)}
    val_mae = points(client, job_id, "val_mae", axis="step")
    assert val_mae == {step: 2 / step for step in range(EPOCH, STEPS + 1, EPOCH)}


def test_a_script_on_two_ranks_leaves_curves_metrics_alerts_and_files(stack: Stack, client: Service) -> None:
    """Rank 0 ends first. It is not taken for lost: the other one works on, for longer than a rank may be gone."""
    rules = [{"when": "val_mae < 0.06", "level": "error"}]
    job_id = submitted(stack, params={"pace_s": 0.01, "late_s": 5.0}, alerts=rules)
    job = ended(client, job_id)
    assert (job["status"], job["end_reason"], job["error"]) == ("succeeded", "completed", None)
    assert job["attempt"] == 1
    whole_curves(client, job_id, 0, 1)
    best = {"last": 2 / STEPS, "best": 2 / STEPS, "best_epoch": STEPS // EPOCH}
    assert job["summary"]["metrics"]["val_mae"] == best
    assert job["metrics"]["val_mae"] == best | {"low": 2 / STEPS, "high": 0.2, "mean": pytest.approx(5 / 48)}
    assert job["summary"]["best_epoch"] == STEPS // EPOCH
    assert {"first_step", "epoch_ended", "checkpoint_saved"} <= set(kinds(client, job_id))
    lines = [line["text"] for line in client.logs(job_id)["items"]]
    assert "from step 0 with ['--batch=8', '0.01']" in lines
    alerts = [event["data"] for event in client.events(job_id) if event["kind"] == "alert"]
    assert sorted(alert["rank"] for alert in alerts if alert["title"] == "an epoch") == [0, 1]
    assert [alert["text"] for alert in alerts if "rule" in alert] == ["val_mae is 0.05 in epoch 4"]
    assert job["alerts"] == len(alerts) == 3
    artifacts = stack.home / "runs" / job_id / "artifacts"
    assert (artifacts / "model.txt").read_text() == "trained"
    with Client(stack.url, stack.token) as person:
        [tables] = person.jobs.media(job_id)
        assert [each.step for each in tables.steps] == list(range(EPOCH, STEPS + 1, EPOCH))
        assert tables.read(step=2 * EPOCH) == {"columns": ["rank", "epoch"], "rows": [[0, 2]]}, "of rank 0"
    assert not (stack.home / "runs" / job_id / "attempt-1" / "code").exists()
    no_process_left(client, job_id)


def reported_ranks(client: Service, job_id: str) -> set[int]:
    return {series["rank"] for series in client.metrics(job_id, name="mae", axis="step")}


def test_a_script_is_paused_at_one_step_and_goes_on_there(stack: Stack, client: Service) -> None:
    job_id = submitted(stack, params={"pace_s": 1.0, "late_s": 2.0})  # when it goes on, rank 0 ends meanwhile
    until(lambda: reported_ranks(client, job_id) == {0, 1}, what="a report of both ranks")
    client.pause(job_id)
    paused = until(lambda: client.attempts(job_id)[0]["end_reason"], what="the pause")
    assert paused == "paused"
    client.resume(job_id)
    job = ended(client, job_id)
    assert (job["status"], job["restarts"]) == ("succeeded", 0), client.attempts(job_id)
    stopped_at = client.attempts(job_id)[1]["resumed_step"]
    assert 0 < stopped_at < STEPS
    whole_curves(client, job_id, 0, 1)  # both ranks left after the same step
