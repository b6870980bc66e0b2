"""The command line against a real stack, as a person submits a study and reads its report."""

import csv
import json
import subprocess
from datetime import datetime
from pathlib import Path

import pytest

from hora.service import Service
from hora.stack.control import Stack
from tests.commands import CONTROL, HORA, environment, hora, in_terminal

# Two jobs of one rank: they run side by side.
STUDY = """
name: batches
base: {dataset: digits, learning_rate: 0.001, epochs: 2, early_stopping: null}
grid:
  batch_size: [64, 256]
target: 0.1
"""


@pytest.fixture(scope="module")
def study(stack: Stack) -> subprocess.CompletedProcess[str]:
    """A study that was watched to its end."""
    return hora(stack.home, "study", "-", "--wait", "--set", "base.dataset.validation=0.2", stdin=STUDY)


@pytest.fixture(scope="module")
def study_id(study: subprocess.CompletedProcess[str], client: Service) -> str:
    assert study.returncode == 0, study.stderr
    study_id: str = next(one["id"] for one in client.studies() if one["name"] == "batches")
    return study_id


def test_a_study_is_watched_to_its_report(
    study: subprocess.CompletedProcess[str], study_id: str, client: Service
) -> None:
    ended, _, report = study.stdout.partition("\n\n")
    lines = ended.splitlines()
    assert {line.partition(":")[0] for line in lines} == {"batch_size=64", "batch_size=256"}
    assert lines[-1].endswith("(2 of 2)")
    assert report.startswith("BATCH SIZE")
    assert not CONTROL.search(study.stdout + study.stderr)
    assert f"hora report {study_id}" in study.stderr
    assert {job["spec"]["dataset"]["validation"] for job in client.jobs(study=study_id)} == {0.2}


def test_a_report_is_printed_in_every_format(stack: Stack, client: Service, study_id: str, short_folder: Path) -> None:
    report = json.loads(hora(stack.home, "report", study_id, "--json").stdout)
    assert report == client.report(study_id)
    kept = json.loads(hora(stack.home, "report", study_id, "--json", "--keep-outliers").stdout)
    assert (report["outliers_set_aside"], kept["outliers_set_aside"]) == (True, False)
    for cell in report["cells"]:  # it agrees with what the service says of the job, which was really trained
        (job_id,) = cell["jobs"]
        summary, (attempt,) = client.job(job_id)["summary"], client.attempts(job_id)
        figures = {"wall_s": "wall_s", "samples_per_s": "train_samples_per_s", "val_accuracy": "val_accuracy"}
        for figure, name in figures.items():
            assert cell[figure]["values"] == pytest.approx([summary[name]])
        began, ended = (datetime.fromisoformat(attempt[name]) for name in ("created_at", "ended_at"))
        assert cell["gpu_hours"]["mean"] == pytest.approx((ended - began).total_seconds() / 3600)
        assert (cell["reached_target"], cell["time_to_target_s"]["mean"] > 0) == (1, True)
    noted = hora(stack.home, "studies", "note", study_id, "Next: twice the rate.")
    assert noted.stdout.endswith(": Next: twice the rate.\n")
    table = hora(stack.home, "report", study_id, "--target", "0.999").stdout
    assert "To target: training time to val accuracy 0.999, as asked." in table
    assert table.endswith(": Next: twice the rate.\n")
    rows = list(csv.DictReader(hora(stack.home, "report", study_id, "--format", "csv").stdout.splitlines()))
    assert [row["batch_size"] for row in rows] == ["64", "256"]

    named = short_folder / "report.md"
    written = hora(stack.home, "report", study_id, "-o", str(named))
    assert written.stdout == ""
    assert written.stderr.startswith(f"The report is in {named}, as markdown, ")
    assert named.read_text() == client.report(study_id, format="markdown")
    for wrong in ("report.pdf", "report.html", "v0.1"):
        refused = hora(stack.home, "report", study_id, "-o", str(short_folder / wrong))
        assert (refused.returncode, "no report ends in" in refused.stderr) == (2, True)
    nowhere = hora(stack.home, "report", study_id, "-o", "/no/such/folder/report.csv")
    assert (nowhere.returncode, nowhere.stdout) == (1, "")
    assert nowhere.stderr == "/no/such/folder/report.csv cannot be written: No such file or directory.\n"
    assert [file.name for file in short_folder.iterdir()] == ["report.md"]
    assert hora(stack.home, "report", study_id, "-o", str(short_folder / "v0.1"), "--format", "table").returncode == 0
    picture = subprocess.run(
        [*HORA, "report", study_id, "--format", "png"], env=environment(stack.home), capture_output=True, check=True
    ).stdout
    assert picture.startswith(b"\x89PNG")
    code, drawn = in_terminal(stack.home, "report", study_id, "--format", "png")
    assert (code, "a terminal cannot show a PNG picture" in drawn) == (2, True)


def test_studies_are_listed_and_shown(stack: Stack, client: Service, study_id: str) -> None:
    line = next(line for line in hora(stack.home, "studies").stdout.splitlines() if study_id in line)
    assert line.split()[1:4] == ["batches", "succeeded", "2/2"]
    matching = ("--mine", "--status", "succeeded", "--where", "spec.batch_size=64", "--search", "batch")
    assert study_id in hora(stack.home, "studies", "ls", *matching).stdout
    for other in (["--owner", "nobody"], ["--project", "none"], ["--where", "spec.gpus=9"]):
        none = hora(stack.home, "studies", "ls", *other)
        assert (none.returncode, none.stdout, none.stderr) == (0, "", "No study matches.\n")
    assert hora(stack.home, "studies", "ls", "--mine", "--owner", "ada").returncode == 2
    assert json.loads(hora(stack.home, "studies", "show", study_id, "--json").stdout) == client.study(study_id)
    assert "1 succeeded" in hora(stack.home, "studies", "show", study_id).stdout
    jobs = json.loads(hora(stack.home, "ls", "--study", study_id, "--json").stdout)["items"]
    assert {job["spec"]["batch_size"] for job in jobs} == {64, 256}
    assert f"{study_id}, cell {jobs[0]['study_cell'] + 1}, repeat 1" in hora(stack.home, "show", jobs[0]["id"]).stdout


def test_the_best_job_is_trained_again_with_changes(stack: Stack, client: Service, study_id: str) -> None:
    report = client.report(study_id)
    (best,) = report["cells"][report["best"]["goal"]]["jobs"]
    arguments = ("studies", "train-best", study_id, "--set", "epochs=7", "--set", "name=longer")
    planned = hora(stack.home, *arguments, "--from-weights", "--dry-run", "--json")
    assert json.loads(planned.stdout)["spec"]["model"]["weights"] == f"job:{best}"
    again = hora(stack.home, *arguments)
    assert again.stderr == f"Its best job is {best}.\n"
    job = client.job(again.stdout.strip())
    batches = [one["spec"]["batch_size"] for one in (job, client.job(best))]
    assert (job["spec"]["epochs"], job["study"], batches[0]) == (7, None, batches[1])
    client.cancel(job["id"])


def test_a_study_is_paused_resumed_cancelled_moved_and_deleted_as_a_whole(stack: Stack, client: Service) -> None:
    (host,) = client.hosts()
    client.drain(host["name"])  # so its jobs wait in the queue
    try:
        submitted = hora(stack.home, "study", "-", "--set", "name=waiting", stdin=STUDY)
        study_id = submitted.stdout.strip()
        assert submitted.stderr.startswith("2 jobs. Watch them with `hora studies show ")
        best = hora(stack.home, "studies", "train-best", study_id)
        assert (best.returncode, best.stdout, "has no best job" in best.stderr) == (102, "", True)
        assert hora(stack.home, "studies", "pause", study_id).stdout == (
            f"{study_id} is paused; running jobs save first: 0 of 2 jobs ended, 2 queued\n"
        )
        assert "queued (paused)" in hora(stack.home, "studies", "show", study_id).stdout
        assert json.loads(hora(stack.home, "studies", "resume", study_id, "--json").stdout)["paused"] == 0
        assert "2 cancelled" in hora(stack.home, "studies", "cancel", "--save", study_id).stdout
        watched = hora(stack.home, "studies", "show", study_id, "--wait")
        assert (watched.returncode, "batch_size=64: cancelled" in watched.stdout) == (103, True)
    finally:
        client.undrain(host["name"])
    assert hora(stack.home, "studies", "cancel", study_id).stdout.startswith(f"{study_id} is over: ")
    client.create_project({"name": "shelf"})
    moved = hora(stack.home, "studies", "set", study_id[:8], "project=shelf")
    assert moved.stdout == f"{study_id} has project shelf\n"
    assert {job["project"] for job in client.jobs(study=study_id)} == {"shelf"}
    for wrong in (["name=x"], ["project="], ["project=a", "name=x"], ["shelf"]):
        refused = hora(stack.home, "studies", "set", study_id, *wrong)
        assert (refused.returncode, "project=NAME" in refused.stderr) == (2, True)
    unasked = hora(stack.home, "studies", "rm", study_id)
    assert (unasked.returncode, "add --yes" in unasked.stderr) == (2, True)
    assert f"{study_id} (waiting, 2 jobs)" in " ".join(unasked.stderr.split())
    assert hora(stack.home, "studies", "rm", study_id, "nosuchstudy0", "--yes").returncode == 102
    assert json.loads(hora(stack.home, "studies", "rm", study_id, "-y", "--json").stdout) == {"deleted": study_id}
    assert hora(stack.home, "report", study_id).returncode == 102
