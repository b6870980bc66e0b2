"""Real searches: trials that are pruned, of scripts and of Hora's own loop, and one whose processes are killed."""

import os
import random
import signal
from contextlib import suppress
from itertools import cycle

import pytest

from hora.service import Json, Service
from hora.stack.control import Stack
from tests.acceptance.conftest import kinds, no_process_left, rank_pids, supervisor_pids
from tests.code import store_code
from tests.stored_runs import sessions_on
from tests.waiting import until

# The better its level, the better it is at each epoch. It trains until it is told to stop, unless it has few epochs.
SCRIPT = """
import itertools, sys, time
from hora import run

latest = run.latest_checkpoint()
done = 0 if latest is None else int((latest / "epoch").read_text())
level, epochs = run.params["level"], run.params.get("epochs")
for epoch in itertools.count(done + 1) if epochs is None else range(done + 1, epochs + 1):
    time.sleep(0.2)
    run.report(epoch=epoch, score=level * (1 - 0.5 ** epoch))
    with run.checkpoint(epoch) as folder:
        (folder / "epoch").write_text(str(epoch))
    if run.should_stop():
        (run.artifacts / "pruned.txt").write_text(str(epoch))
        sys.exit()
"""
OWN = {
    "dataset": "digits", "model": "mlp", "batch_size": 256, "early_stopping": None, "seed": 3,
    "checkpoint": {"keep": 1},
}  # fmt: skip


@pytest.fixture(scope="module")
def script(stack: Stack) -> Json:
    """The fields of a script's spec."""
    with sessions_on(stack.database_url) as sessions:
        digest = store_code(sessions, {"train.py": SCRIPT})
    return {"code": digest, "command": ["python", "train.py"], "goal": {"metric": "score", "mode": "max"}}


def trials_of(client: Service, study: Json) -> list[Json]:
    """The trials of a search, once it has ended."""
    ended = client.wait_study(study["id"], timeout_s=800)
    assert ended["complete"]
    trials: list[Json] = client.report(study["id"])["trials"]
    return trials


def test_trials_of_a_script_end_when_others_are_better(client: Service, script: Json) -> None:
    """The bad ones would train for ever. The good one waits for nobody."""
    space = {"params": [{"level": 0.9, "epochs": 12}, {"level": 0.1}, {"level": 0.2}, {"level": 0.3}]}
    search = {"method": "grid", "parallel": 2, "space": space, "prune": {"name": "asha", "min_epochs": 2}}
    study = client.submit_study({"base": script, "search": search})
    good, *bad = trials_of(client, study)

    assert (good["status"], good["end_reason"], good["epochs"]) == ("succeeded", "completed", 12)
    assert {(trial["status"], trial["end_reason"]) for trial in bad} == {("succeeded", "pruned")}
    for trial in bad:
        assert trial["pruned_at_epoch"] <= trial["epochs"]
        job = client.job(trial["job_id"])
        assert (job["summary"]["stopped_early"], job["error"], job["restarts"]) == (True, None, 0)
        assert [artifact["path"] for artifact in client.artifacts(trial["job_id"])] == ["pruned.txt"]
        assert kinds(client, trial["job_id"]).count("prune_requested") == 1
        no_process_left(client, trial["job_id"])


def test_a_pruned_training_leaves_its_weights_and_a_summary(client: Service) -> None:
    """Two ranks agree on the step to stop at. The second trial would need minutes for its epochs."""
    search = {
        "method": "grid", "parallel": 1, "space": {"learning_rate": [0.003, 1e-7]},
        "prune": {"name": "asha", "min_epochs": 2},
    }  # fmt: skip
    study = client.submit_study({"base": OWN | {"gpus": 2, "epochs": 200}, "search": search})
    good, bad = trials_of(client, study)
    assert (good["end_reason"], bad["end_reason"]) == ("completed", "pruned")
    job = client.job(bad["job_id"])
    assert job["summary"]["stopped_early"]
    assert job["summary"]["val_accuracy"] < 0.5
    assert job["summary"]["epochs_run"] >= bad["pruned_at_epoch"]
    assert job["summary"]["test_accuracy"] is None, "no time is spent on its test"
    assert client.job(good["job_id"])["summary"]["test_accuracy"] > 0.5
    names = {artifact["path"] for artifact in client.artifacts(bad["job_id"])}
    assert any(name.endswith(".weights.h5") for name in names), names
    assert kinds(client, bad["job_id"])[-4:].count("checkpoint_saved") >= 1


@pytest.mark.long("faults")
@pytest.mark.timeout(1800)
def test_a_search_whose_processes_are_killed_loses_and_doubles_no_trial(
    client: Service, stack: Stack, script: Json
) -> None:
    """Which trials are pruned depends on which one is faster. Their curves do not, nor does the best one."""
    base = script | {"max_restarts": 100, "params": {"epochs": 9}}
    search = {
        "method": "random", "trials": 12, "parallel": 2, "prune": {"name": "asha", "min_epochs": 2},
        "space": {"params.level": {"uniform": [0, 1]}, "params.width": [8, 16, 32]},
    }  # fmt: skip
    study = client.submit_study({"base": base, "search": search})
    dice = random.Random(5)  # noqa: S311 - the same seed, the same victims
    victims = cycle(["worker", "rank", "worker", "supervisor", "worker"])
    for _ in range(10):
        kill(client, stack, study, next(victims), after_epoch=dice.randrange(1, 3))
    trials = trials_of(client, study)

    assert [trial["number"] for trial in trials] == list(range(12))
    assert {trial["status"] for trial in trials} == {"succeeded"}
    levels = [trial["values"]["params.level"] for trial in trials]
    assert [trial["objective"] for trial in trials] == pytest.approx(
        [level * (1 - 0.5 ** trial["epochs"]) for level, trial in zip(levels, trials, strict=True)]
    )
    assert trials[levels.index(max(levels))]["epochs"] == 9, "nothing can prune the best one"
    assert {trial["pruned_at_epoch"] for trial in trials} <= {None, 2, 6}
    jobs = list(client.jobs(study=study["id"]))
    assert len(jobs) == 12
    for job in jobs:
        no_process_left(client, job["id"])
    until(lambda: all(slot["state"] == "free" for host in client.hosts() for slot in host["slots"]), what="free slots")


def kill(client: Service, stack: Stack, study: Json, victim: str, *, after_epoch: int) -> None:
    """Kill the worker, or a process of the trial that has trained so many epochs, if the search goes on so long."""

    def running() -> Json | None:
        if client.study(study["id"])["complete"]:
            return {}
        jobs = list(client.jobs(study=study["id"], status="running"))
        far = [job for job in jobs if (job["progress"] or {}).get("epoch", 0) >= after_epoch]
        return far[0] if far else None

    job = until(lambda: (found,) if (found := running()) is not None else None)[0]
    if victim == "worker" or not job:
        pid = stack.pid_of("worker")
    elif victim == "rank":
        pid = rank_pids(client, job["id"], job["attempt"]).get(0, 0)
    else:
        pid = supervisor_pids(client, job["id"])[-1]
    with suppress(ProcessLookupError):
        if pid:
            os.kill(pid, signal.SIGKILL)
