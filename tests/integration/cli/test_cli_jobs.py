"""The command line against a real stack, as a person submits, watches and stops jobs."""

import csv
import json
import re
import signal
import subprocess
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from hora.render.analysis import ledger_line
from hora.service import Service
from hora.stack.control import Stack
from tests.commands import CONTROL, HORA, LONG, SHORT, environment, hora, in_terminal


def test_submit_and_wait_prints_a_line_an_epoch_and_the_results(submission: subprocess.CompletedProcess[str]) -> None:
    assert submission.returncode == 0, submission.stderr
    lines = submission.stdout.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("epoch ")] == ["1/3", "2/3", "3/3"]
    # Every epoch comes before the line of the end.
    end = lines.index("succeeded")
    assert lines[end - 1].startswith("epoch 3/3  loss ")
    results = dict(re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in lines[end + 2 :])
    assert results["status"] == "succeeded"
    assert results["epochs run"] == "3 of 3"
    assert set(results) >= {"best epoch", "val accuracy", "val loss", "test accuracy", "samples/s", "training time"}
    assert not CONTROL.search(submission.stdout + submission.stderr)


def test_submit_and_wait_on_a_terminal_draws_a_bar(stack: Stack) -> None:
    # Seconds of training: a shorter job may be over between two looks at it.
    longer = ("--epochs", "60", "--set", "early_stopping=null")
    code, drawn = in_terminal(stack.home, "submit", *SHORT, *longer, "--wait")
    assert code == 0
    assert "\x1b[" in drawn
    assert "running" in drawn
    assert re.search(r"best epoch\S* +\S*\d", drawn)


def test_show_with_json_prints_only_the_job(stack: Stack, job: Mapping[str, Any]) -> None:
    for wait in ((), ("--wait",)):
        result = hora(stack.home, "show", job["id"], "--json", *wait)
        assert (result.returncode, json.loads(result.stdout)) == (0, job)
    assert job["status"] == "succeeded"
    assert job["summary"]["epochs_run"] == 3


def test_show_gives_the_figures_of_the_api(stack: Stack, client: Service, job: Mapping[str, Any]) -> None:
    shown = hora(stack.home, "show", job["id"]).stdout
    rows = {line[:15].strip(): line[15:].strip() for line in shown.splitlines() if line[:1].strip()}
    assert rows["val accuracy"] == f"{job['summary']['val_accuracy']:.4f}"
    analysis = client.analysis(job["id"])
    assert rows["slot time"] == ledger_line(analysis["ledger"])
    assert ("step time" in rows) == bool(analysis["steps"])
    assert hora(stack.home, "show", job["id"], "--wait").returncode == 0


def test_ls_filters_by_name_status_and_search(stack: Stack, job: Mapping[str, Any]) -> None:
    listed_jobs = json.loads(hora(stack.home, "ls", "--name", "shared", "--json").stdout)["items"]
    assert [row["id"] for row in listed_jobs] == [job["id"]]
    assert job["id"] in hora(stack.home, "ls", "--status", "succeeded").stdout
    assert job["id"] not in hora(stack.home, "ls", "--status", "failed").stdout
    assert job["id"] in hora(stack.home, "ls", "--search", "SHARE").stdout
    assert job["id"] not in hora(stack.home, "ls", "--search", "nothing of the kind").stdout
    assert job["id"] in hora(stack.home, "ls", "--mine").stdout
    assert hora(stack.home, "ls", "--mine", "--owner", "ada").returncode == 2


def test_ls_filters_sorts_and_groups_by_any_field(stack: Stack, job: Mapping[str, Any]) -> None:
    where = ("--where", f"spec.gpus={job['gpus']} or starred", "--where", "name=shared", "--sort", "-spec.batch_size")
    assert job["id"] in hora(stack.home, "ls", *where).stdout
    assert job["id"] not in hora(stack.home, "ls", *where, "--where", "gpus>100").stdout
    wrong = hora(stack.home, "ls", "--where", "gpus == 1")
    assert (wrong.returncode, "did you mean `=`?" in wrong.stderr) == (2, True)
    grouped = ("ls", "--group", "name", "--group", "spec.gpus", "--metric", "val_loss", "--where", "name=shared")
    assert "VAL LOSS MEAN" in hora(stack.home, *grouped).stdout
    (group,) = json.loads(hora(stack.home, *grouped, "--json").stdout)["items"]
    assert (group["values"], group["jobs"]) == (["shared", job["gpus"]], 1)
    assert group["where"] == ['name="shared"', f"spec.gpus={job['gpus']}"]
    assert [metric["name"] for metric in group["metrics"]] == ["val_loss"]
    assert "VAL ACCURACY MEAN" in hora(stack.home, *grouped, "--metric", "val_accuracy").stdout
    (row,) = csv.DictReader(hora(stack.home, *grouped, "--csv").stdout.splitlines())
    assert (row["name"], row["spec.gpus"], row["jobs"], row["succeeded"]) == ("shared", str(job["gpus"]), "1", "1")
    assert (row["val_loss.n"], float(row["val_loss.mean"])) == ("1", group["metrics"][0]["mean"])
    assert hora(stack.home, *grouped, "--watch").returncode == 2
    assert job["id"] in hora(stack.home, "ls", "--sort", "-starred,metrics.val_loss,created").stdout
    wrong = hora(stack.home, "ls", "--sort", "gpus,colur")
    assert (wrong.returncode, "no such field `colur`" in wrong.stderr) == (2, True)


def test_logs_are_printed_for_all_ranks_or_one(stack: Stack, job: Mapping[str, Any]) -> None:
    every = hora(stack.home, "logs", job["id"], "-f").stdout
    assert {line.partition("]")[0] for line in every.splitlines()} >= {"[0", "[1"}
    lines_of_rank = [
        json.loads(line) for line in hora(stack.home, "logs", job["id"], "--rank", "1", "--json").stdout.splitlines()
    ]
    assert lines_of_rank
    assert {line["rank"] for line in lines_of_rank} == {1}


def test_logs_are_printed_for_several_ranks_and_a_range_of_times(stack: Stack, job: Mapping[str, Any]) -> None:
    def read(*options: str) -> list[Any]:
        return [
            json.loads(line) for line in hora(stack.home, "logs", job["id"], *options, "--json").stdout.splitlines()
        ]

    def moment(line: Any) -> datetime:
        return datetime.fromisoformat(line["at"])

    every = read("--rank", "0", "--rank", "1")
    assert {line["rank"] for line in every} == {0, 1}
    middle = every[len(every) // 2]["at"]
    earlier, later = (read("--rank", "0", "--rank", "1", option, middle) for option in ("--until", "--since"))
    assert earlier
    assert sorted(earlier + later, key=lambda line: line["id"]) == every
    assert max(moment(line) for line in earlier) < min(moment(line) for line in later)
    assert read("-f", "--rank", "1", "--since", middle) == [line for line in later if line["rank"] == 1]
    assert read("--until", "9999h") == []
    nothing = hora(stack.home, "logs", job["id"], "--until", "9999h")
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (0, "", "The log has no lines that match.\n")
    for wrong in (["--since", "soon"], ["-f", "--until", middle], ["--rank", "-2"]):
        assert hora(stack.home, "logs", job["id"], *wrong).returncode == 2


def test_the_log_of_rank_0_tells_what_is_trained_each_epoch_and_the_result(
    stack: Stack, job: Mapping[str, Any]
) -> None:
    lines = hora(stack.home, "logs", job["id"], "--rank", "0").stdout.splitlines()
    begins, ends = (
        next(i for i, line in enumerate(lines) if word in line) for word in ("training ", "finished after ")
    )
    assert job["spec"]["dataset"]["source"] in lines[begins]
    epochs = [line for line in lines[begins:ends] if line.startswith("[0] epoch ")]
    assert len(epochs) == job["summary"]["epochs_run"]
    assert f"val_accuracy {job['summary']['val_accuracy']:.4g}" in lines[ends]
    assert "epoch " not in hora(stack.home, "logs", job["id"], "--rank", "1").stdout


def test_logs_of_a_level_are_followed_to_the_end(stack: Stack, job: Mapping[str, Any]) -> None:
    whole = [json.loads(line) for line in hora(stack.home, "logs", job["id"], "--json").stdout.splitlines()]
    followed = hora(stack.home, "logs", job["id"], "-f", "--level", "warning", "--json").stdout.splitlines()
    assert [json.loads(line) for line in followed] == [line for line in whole if line["level"] in ("warning", "error")]
    refused = hora(stack.home, "logs", job["id"], "--level", "serious")
    assert refused.returncode == 2
    assert "warning" in refused.stderr


def test_logs_are_searched_for_a_text(stack: Stack, job: Mapping[str, Any]) -> None:
    every = hora(stack.home, "logs", job["id"]).stdout.splitlines()
    matching_lines = hora(stack.home, "logs", job["id"], "-f", "--search", "LEAVING").stdout.splitlines()
    assert matching_lines == [line for line in every if "leaving" in line.partition("]")[2].lower()]
    assert 0 < len(matching_lines) < len(every)
    last = hora(stack.home, "logs", job["id"], "--search", "leaving", "--tail", "1").stdout.splitlines()
    assert last == matching_lines[-1:]


def test_artifacts_are_listed_and_fetched(stack: Stack, job: Mapping[str, Any], tmp_path: Path) -> None:
    listed = json.loads(hora(stack.home, "artifacts", job["id"], "--json").stdout)["items"]
    names = [file["path"] for file in listed]
    assert {"classes.json", "model.keras", "model.weights.h5"} <= set(names)
    assert "model.weights.h5" in hora(stack.home, "artifacts", job["id"]).stdout
    assert hora(stack.home, "artifacts", job["id"], "--all", "-o", str(tmp_path / "all")).returncode == 0
    ran = stack.home / "runs" / job["id"] / "artifacts"
    for name in names:
        assert (tmp_path / "all" / name).read_bytes() == (ran / name).read_bytes()
    some = hora(
        stack.home, "artifacts", job["id"], "*.weights.h5", "none", "--all", "-o", str(tmp_path / "some"), "--json"
    )
    assert json.loads(some.stdout)["saved"] == [str(tmp_path / "some/model.weights.h5")]
    listed_some = json.loads(hora(stack.home, "artifacts", job["id"], "*.h5", "--json").stdout)["items"]
    assert listed_some == [file for file in listed if file["path"].endswith(".h5")]
    assert hora(stack.home, "artifacts", job["id"], "*.none", "--all").returncode == 102
    assert hora(stack.home, "artifacts", job["id"], "*.h5", "--rm").returncode == 2
    weights = tmp_path / "mine.weights.h5"
    fetched = hora(stack.home, "artifacts", job["id"], "--download", "model.weights.h5", "-o", str(weights), "--json")
    assert json.loads(fetched.stdout) == {"saved": [str(weights)]}
    assert weights.read_bytes() == (ran / "model.weights.h5").read_bytes()
    assert hora(stack.home, "artifacts", job["id"], "--download", "../x", "-o", str(weights)).returncode == 102
    assert hora(stack.home, "artifacts", job["id"], "--download", "x", "-o", str(weights)).returncode == 102
    assert hora(stack.home, "artifacts", job["id"], "--download", "x", "--all").returncode == 2
    assert hora(stack.home, "artifacts", "nosuchjob").returncode == 102


def test_metrics_are_plotted_and_printed_as_csv(stack: Stack, client: Service, job: Mapping[str, Any]) -> None:
    plotted = hora(stack.home, "metrics", job["id"])
    assert "(loss)" in plotted.stdout
    assert "val_accuracy" in plotted.stdout
    series = json.loads(hora(stack.home, "metrics", job["id"], "--json").stdout)["series"]
    assert {len(row["x"]) for row in series if row["name"] == "val_loss"} == {3}
    values = list(csv.DictReader(hora(stack.home, "metrics", job["id"], "--csv").stdout.splitlines()))
    assert {row["metric"] for row in values} == {row["name"] for row in client.metrics(job["id"])}
    losses = [float(row["value"]) for row in values if (row["metric"], row["rank"]) == ("val_loss", "-1")]
    assert losses == client.metrics(job["id"], name="val_loss")[0]["y"]


def test_clone_changes_the_given_fields(stack: Stack, client: Service, job: Mapping[str, Any]) -> None:
    result = hora(stack.home, "clone", job["id"], "--set", "epochs=1", "--set", "dataset.validation=0.2")
    assert result.returncode == 0, result.stderr
    copy = client.cancel(result.stdout.strip())
    assert (copy["spec"]["epochs"], copy["spec"]["dataset"]["validation"]) == (1, 0.2)
    assert copy["spec"]["gpus"] == 2
    client.wait(copy["id"], timeout_s=240)


ADVICE = {
    "number": 2,
    "rule": "early_stopping",
    "what": "Turn early stopping on.",
    "change": {"early_stopping": {"patience": 7}, "epochs": 9},
}


def test_clone_applies_an_advice_and_then_the_given_fields(
    stack: Stack, client: Service, job: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Service, "advice", lambda *_: [ADVICE])
    result = hora(stack.home, "clone", job["id"], "--advice", "2", "--set", "epochs=4", "--set", "priority=1")
    assert (result.returncode, result.stderr) == (0, "Turn early stopping on.\n")
    copy = client.cancel(result.stdout.strip())
    assert (copy["spec"]["early_stopping"]["patience"], copy["spec"]["epochs"]) == (7, 4)
    client.wait(copy["id"], timeout_s=240)

    wrong = hora(stack.home, "clone", job["id"], "--advice", "1")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.splitlines() == [
        f"Job {job['id']} has no advice 1. It has:",
        "  2  Turn early stopping on.",
    ]


def test_clone_reports_a_job_without_advice(
    stack: Stack, job: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Service, "advice", lambda *_: [])
    none = hora(stack.home, "clone", job["id"], "--advice", "1")
    assert (none.returncode, none.stdout) == (2, "")
    assert none.stderr.startswith(f"Job {job['id']} has no advice: ")
    assert f"`hora clone {job['id']} --set FIELD=VALUE`" in none.stderr


def test_an_empty_list_says_so_and_proposes_what_was_meant(stack: Stack) -> None:
    none = hora(stack.home, "ls", "--project", "defualt", "--status", "queued")
    assert (none.returncode, none.stdout) == (0, "")
    assert none.stderr == "No job matches: status queued, project defualt; did you mean default?\n"
    as_json = hora(stack.home, "ls", "--project", "defualt", "--json")
    assert (json.loads(as_json.stdout), as_json.stderr) == ({"items": []}, "")


def test_a_metric_that_no_listed_job_has_is_said(stack: Stack, job: Mapping[str, Any]) -> None:
    listed = hora(stack.home, "ls", "--name", job["name"], "--metric", "val_los")
    assert "None of these jobs has the metric val_los; did you mean val_loss?" in listed.stderr
    assert job["id"] in listed.stdout


def test_a_dry_run_quotes_from_past_jobs_and_stores_nothing(
    stack: Stack, client: Service, job: Mapping[str, Any]
) -> None:
    before = [row["id"] for row in client.jobs()]
    quoted = hora(stack.home, "submit", *SHORT, "--dry-run")
    assert quoted.returncode == 0, quoted.stderr
    assert f"rests on         runs of the same spec: {job['id']}" in quoted.stdout
    assert "training time" in quoted.stdout
    preview = json.loads(hora(stack.home, "clone", job["id"], "--set", "gpus=1", "--dry-run", "--json").stdout)
    assert (preview["plan"]["global_batch"], preview["spec"]["gpus"]) == (64, 1)
    assert hora(stack.home, "submit", *SHORT, "--dry-run", "--wait").returncode == 2
    assert [row["id"] for row in client.jobs()] == before


def test_a_job_starts_from_the_weights_of_one_that_has_not_ended(stack: Stack, client: Service) -> None:
    def submitted(*arguments: str) -> str:
        result = hora(stack.home, "submit", *arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()

    first = submitted(*SHORT)
    second = submitted(*SHORT, "--set", f"model={{name: lenet5, weights: 'job:{first}', freeze_base: false}}")
    third = submitted(*LONG, "--set", f"after=[{second}]")
    shown = hora(stack.home, "show", third).stdout
    assert f"waits for job {second}, which is " in shown
    assert client.wait(second, timeout_s=240)["status"] == "succeeded"
    assert client.attempts(second)[0]["created_at"] >= client.job(first)["ended_at"]
    assert any(f"starting from the weights of job:{first}" in line["text"] for line in client.log_lines(second))
    fourth = submitted(*LONG, "--set", f"after=[{third}]")
    client.cancel(third)
    waited = hora(stack.home, "show", fourth, "--wait")
    assert waited.returncode == 103
    assert f"job {third} was cancelled, and this job was to run after it" in waited.stdout
    client.wait(third, timeout_s=240)


def test_cancel_ends_the_wait_with_103(stack: Stack) -> None:
    submitted = hora(stack.home, "submit", *LONG)
    assert submitted.returncode == 0, submitted.stderr
    job_id = submitted.stdout.strip()
    assert hora(stack.home, "cancel", job_id).returncode == 0
    waited = hora(stack.home, "show", job_id, "--wait")
    assert waited.returncode == 103
    assert "cancelled" in waited.stdout


def test_a_failed_job_ends_the_wait_with_100(stack: Stack) -> None:
    result = hora(stack.home, "submit", *LONG, "--set", "time_limit_s=0.5", "--wait")
    assert result.returncode == 100
    assert "failed (time_limit)" in result.stdout


def test_a_wait_ends_with_101_at_its_time_limit(stack: Stack, client: Service) -> None:
    result = hora(stack.home, "submit", *LONG, "--set", "name=limited", "--wait", "--timeout", "0.5")
    assert result.returncode == 101
    (remaining_job,) = client.jobs(name="limited")
    assert f"hora show {remaining_job['id']} --wait" in result.stderr
    client.cancel(remaining_job["id"])
    client.wait(remaining_job["id"], timeout_s=240)


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_ctrl_c_leaves_the_job_and_says_how_to_come_back(stack: Stack, client: Service) -> None:
    command = [*HORA, "submit", *LONG, "--set", "name=detached", "--wait"]
    with subprocess.Popen(
        command, env=environment(stack.home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(("queued", "launching", "running"))
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=120)
        finally:
            process.kill()
            (remaining_job,) = client.jobs(name="detached")
            client.cancel(remaining_job["id"])  # else it holds a slot that other tests wait for
    assert process.returncode == 101
    assert f"The job continues. Come back with `hora show {remaining_job['id']} --wait`" in stderr
    client.wait(remaining_job["id"], timeout_s=240)


def test_a_spec_is_read_from_standard_input(stack: Stack, client: Service) -> None:
    result = hora(
        stack.home, "submit", "-", "--set", "epochs=1", "--json", stdin="dataset: digits\nlearning_rate: 1e-3\n"
    )
    assert result.returncode == 0, result.stderr
    submitted_job = json.loads(result.stdout)
    assert (submitted_job["spec"]["learning_rate"], submitted_job["spec"]["epochs"]) == (0.001, 1)
    client.cancel(submitted_job["id"])
    client.wait(submitted_job["id"], timeout_s=240)
