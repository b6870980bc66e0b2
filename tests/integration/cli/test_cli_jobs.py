"""The command line against a real stack, as a person submits, watches and stops jobs."""

import csv
import json
import re
import subprocess
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from hora.render.analysis import ledger_line
from hora.service import Service
from hora.stack.control import Stack
from tests.commands import CONTROL, SHORT, hora


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


def test_a_submission_says_what_a_dry_run_warns_of(stack: Stack, client: Service) -> None:
    done = hora(stack.home, "submit", *SHORT, "--set", 'schedule={"name": "step", "epochs": [30]}')
    client.cancel(done.stdout.strip())
    assert "The rate never falls: the schedule's first step is after epoch 30 of 3." in done.stderr


def test_show_gives_the_figures_of_the_api(stack: Stack, client: Service, job: Mapping[str, Any]) -> None:
    shown = hora(stack.home, "show", job["id"]).stdout
    rows = {line[:15].strip(): line[15:].strip() for line in shown.splitlines() if line[:1].strip()}
    assert rows["val accuracy"] == f"{job['summary']['val_accuracy']:.4f}"
    analysis = client.analysis(job["id"])
    assert rows["slot time"] == ledger_line(analysis["ledger"])
    assert ("step time" in rows) == bool(analysis["steps"])
    as_json = hora(stack.home, "show", job["id"], "--json", "--wait")
    assert (as_json.returncode, json.loads(as_json.stdout)) == (0, job)


def test_ls_filters_sorts_and_groups_by_any_field(stack: Stack, job: Mapping[str, Any]) -> None:
    where = ("--mine", "--where", f"spec.gpus={job['gpus']} or starred", "--where", "name=shared")
    sort = ("--sort", "-starred,metrics.val_loss,created")
    listed = hora(stack.home, "ls", *where, *sort, "--metric", "val_los")
    assert job["id"] in listed.stdout
    assert "None of these jobs has the metric val_los; did you mean val_loss?" in listed.stderr
    none = hora(stack.home, "ls", *where, "--project", "defualt", "--status", "queued")
    assert (none.returncode, none.stdout) == (0, "")
    assert "No job matches: status queued, owner admin, project defualt" in none.stderr
    assert none.stderr.endswith("did you mean default?\n")
    grouped = ("ls", "--group", "name", "--group", "spec.gpus", "--metric", "val_loss", "--where", "name=shared")
    assert "VAL LOSS MEAN" in hora(stack.home, *grouped).stdout
    (group,) = json.loads(hora(stack.home, *grouped, "--json").stdout)["items"]
    assert (group["values"], group["jobs"]) == (["shared", job["gpus"]], 1)
    (row,) = csv.DictReader(hora(stack.home, *grouped, "--csv").stdout.splitlines())
    assert (row["name"], row["spec.gpus"], row["jobs"], row["succeeded"]) == ("shared", str(job["gpus"]), "1", "1")
    assert (row["val_loss.n"], float(row["val_loss.mean"])) == ("1", group["metrics"][0]["mean"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["ls", "--where", "gpus == 1"], "did you mean `=`?"),
        (["ls", "--sort", "gpus,colur"], "no such field `colur`"),
        (["ls", "--group", "name", "--watch"], "--watch"),
        (["ls", "--mine", "--owner", "ada"], "--mine"),
        (["logs", "0job", "-f", "--until", "2h"], "--follow and --until exclude each other"),
        (["submit", *SHORT, "--dry-run", "--wait"], "there is nothing to --wait for"),
        (["usage", "--from", "October"], "from: must be a date, such as"),
        (["usage", "--csv", "--json"], "use one of --csv and --json"),
    ],
)
def test_options_that_do_not_fit_are_a_usage_error(stack: Stack, options: list[str], words: str) -> None:
    refused = hora(stack.home, *options)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert words in " ".join(refused.stderr.replace("│", " ").split())


def test_logs_are_printed_for_ranks_a_range_of_times_a_level_and_a_text(stack: Stack, job: Mapping[str, Any]) -> None:
    def read(*options: str) -> list[Any]:
        printed = hora(stack.home, "logs", job["id"], *options, "--json").stdout
        return [json.loads(line) for line in printed.splitlines()]

    every = read("--rank", "0", "--rank", "1")
    assert {line["rank"] for line in every} == {0, 1}
    middle = every[len(every) // 2]["at"]
    earlier, later = (read("--rank", "0", "--rank", "1", option, middle) for option in ("--until", "--since"))
    assert earlier
    assert sorted(earlier + later, key=lambda line: line["id"]) == every
    assert all(datetime.fromisoformat(line["at"]) < datetime.fromisoformat(middle) for line in earlier)
    assert read("-f", "--rank", "1", "--since", middle) == [line for line in later if line["rank"] == 1]
    whole = read()
    assert read("-f", "--level", "warning") == [line for line in whole if line["level"] in ("warning", "error")]
    leaving = read("-f", "--search", "LEAVING")
    assert leaving == [line for line in whole if "leaving" in line["text"].lower()]
    assert 0 < len(leaving) < len(whole)
    assert read("--search", "leaving", "--tail", "1") == leaving[-1:]
    lines = hora(stack.home, "logs", job["id"], "-f").stdout.splitlines()
    assert lines == [f"[{'launcher' if line['rank'] < 0 else line['rank']}] {line['text']}" for line in whole]
    nothing = hora(stack.home, "logs", job["id"], "--until", "9999h")
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (0, "", "The log has no lines that match.\n")


def test_artifacts_are_listed_and_fetched(stack: Stack, job: Mapping[str, Any], tmp_path: Path) -> None:
    def artifacts(*options: str) -> subprocess.CompletedProcess[str]:
        return hora(stack.home, "artifacts", job["id"], *options)

    names = [file["path"] for file in json.loads(artifacts("--json").stdout)["items"]]
    assert {"classes.json", "model.keras", "model.weights.h5"} <= set(names)
    assert "model.weights.h5" in artifacts().stdout
    assert artifacts("--all", "-o", str(tmp_path / "all")).returncode == 0
    ran = stack.home / "runs" / job["id"] / "artifacts"
    for name in names:
        assert (tmp_path / "all" / name).read_bytes() == (ran / name).read_bytes()
    some = artifacts("*.weights.h5", "none", "--all", "-o", str(tmp_path / "some"), "--json")
    assert json.loads(some.stdout)["saved"] == [str(tmp_path / "some/model.weights.h5")]
    weights = tmp_path / "mine.weights.h5"
    fetched = artifacts("--download", "model.weights.h5", "-o", str(weights), "--json")
    assert json.loads(fetched.stdout) == {"saved": [str(weights)]}
    assert weights.read_bytes() == (ran / "model.weights.h5").read_bytes()
    for options, code in ((["*.none", "--all"], 102), (["--download", "../x"], 102), (["*.h5", "--rm"], 2)):
        assert artifacts(*options, "-o", str(weights)).returncode == code, options


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


def test_clone_applies_an_advice_and_then_the_given_fields(
    stack: Stack, client: Service, job: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    change = {"early_stopping": {"patience": 7}, "epochs": 9}
    advice = [{"number": 2, "rule": "early_stopping", "what": "Turn early stopping on.", "change": change}]
    monkeypatch.setattr(Service, "advice", lambda *_: advice)
    changes = ("--set", "epochs=4", "--set", "dataset.validation=0.2")
    result = hora(stack.home, "clone", job["id"], "--advice", "2", *changes)
    assert (result.returncode, result.stderr) == (0, "Turn early stopping on.\n")
    copy = client.cancel(result.stdout.strip())
    assert (copy["spec"]["early_stopping"]["patience"], copy["spec"]["epochs"], copy["spec"]["gpus"]) == (7, 4, 2)
    assert copy["spec"]["dataset"]["validation"] == 0.2
    client.wait(copy["id"], timeout_s=240)

    wrong = hora(stack.home, "clone", job["id"], "--advice", "1")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == f"Job {job['id']} has no advice 1. It has:\n  2  Turn early stopping on.\n"
