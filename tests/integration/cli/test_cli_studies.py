"""The command line against a real stack, as a person submits a study and reads its report."""

import csv
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hora.service import Service
from hora.stack.control import Stack
from tests.commands import CONTROL, HORA, environment, hora, in_terminal
from tests.waiting import until

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


@pytest.fixture
def waiting_study_id(stack: Stack, client: Service) -> Iterator[str]:
    """The id of a study whose jobs wait in the queue, as its only host is drained."""
    (host,) = client.hosts()
    client.drain(host["name"])
    try:
        result = hora(stack.home, "study", "-", "--set", "name=waiting", stdin=STUDY)
        assert result.returncode == 0, result.stderr
        assert result.stderr.startswith("2 jobs. Watch them with `hora studies show ")
        yield result.stdout.strip()
        client.cancel_study(result.stdout.strip())
    finally:
        client.undrain(host["name"])


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
    for cell in report["cells"]:
        (job,) = (client.job(job_id) for job_id in cell["jobs"])
        assert cell["wall_s"]["mean"] == pytest.approx(job["summary"]["wall_s"])
        assert cell["reached_target"] == 1

    table = hora(stack.home, "report", study_id, "--target", "0.999").stdout
    assert "To target: training time to val accuracy 0.999, as asked." in table
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
    assert [file.name for file in short_folder.iterdir()] == ["report.md"]
    assert hora(stack.home, "report", study_id, "-o", str(short_folder / "v0.1"), "--format", "table").returncode == 0
    picture = subprocess.run(
        [*HORA, "report", study_id, "--format", "png"], env=environment(stack.home), capture_output=True, check=True
    ).stdout
    assert picture.startswith(b"\x89PNG")


def test_a_picture_is_not_printed_to_a_terminal(stack: Stack, study_id: str) -> None:
    code, drawn = in_terminal(stack.home, "report", study_id, "--format", "png")
    assert code == 2
    assert "a terminal cannot show a PNG picture" in drawn


def test_a_report_that_cannot_be_written_is_reported_in_one_sentence(stack: Stack, study_id: str) -> None:
    result = hora(stack.home, "report", study_id, "-o", "/no/such/folder/report.csv")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "/no/such/folder/report.csv cannot be written: No such file or directory.\n"


def test_jobs_show_the_study_they_belong_to(stack: Stack, study_id: str) -> None:
    jobs = json.loads(hora(stack.home, "ls", "--study", study_id, "--json").stdout)["items"]
    assert {job["spec"]["batch_size"] for job in jobs} == {64, 256}
    shown = hora(stack.home, "show", jobs[0]["id"]).stdout
    assert f"{study_id}, cell {jobs[0]['study_cell'] + 1}, repeat 1" in shown


def test_studies_are_listed_and_shown(stack: Stack, client: Service, study_id: str) -> None:
    line = next(line for line in hora(stack.home, "studies").stdout.splitlines() if study_id in line)
    assert line.split()[1:4] == ["batches", "succeeded", "2/2"]
    for matching in (["--mine"], ["--owner", "admin", "--status", "succeeded"], ["--where", "spec.batch_size=64"]):
        assert study_id in hora(stack.home, "studies", "ls", *matching).stdout
    for other in (
        ["--owner", "nobody"],
        ["--project", "none"],
        ["--where", "spec.gpus=9", "--search", "x"],
    ):
        none = hora(stack.home, "studies", "ls", *other)
        assert (none.returncode, none.stdout, none.stderr) == (0, "", "No study matches.\n")
    assert hora(stack.home, "studies", "ls", "--mine", "--owner", "ada").returncode == 2
    assert json.loads(hora(stack.home, "studies", "show", study_id, "--json").stdout) == client.study(study_id)
    assert "1 succeeded" in hora(stack.home, "studies", "show", study_id).stdout
    again = hora(stack.home, "studies", "show", study_id, "--wait", "--json")
    assert again.returncode == 0
    assert json.loads(again.stdout)["complete"] is True


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


def test_without_a_result_no_job_is_the_best(stack: Stack, waiting_study_id: str) -> None:
    result = hora(stack.home, "studies", "train-best", waiting_study_id)
    assert (result.returncode, result.stdout) == (102, "")
    assert "has no best job" in result.stderr


def test_a_note_is_printed_at_the_end_of_the_report(stack: Stack, study_id: str) -> None:
    noted = hora(stack.home, "studies", "note", study_id, "Next: twice the rate.")
    assert noted.stdout.endswith(": Next: twice the rate.\n")
    assert hora(stack.home, "report", study_id).stdout.endswith(": Next: twice the rate.\n")
    assert hora(stack.home, "studies", "note", study_id, " ").returncode == 2


def test_a_study_is_paused_resumed_and_cancelled_as_a_whole(
    stack: Stack, client: Service, waiting_study_id: str
) -> None:
    assert hora(stack.home, "studies", "pause", waiting_study_id).stdout == (
        f"{waiting_study_id} is paused; running jobs save first: 0 of 2 jobs ended, 2 queued\n"
    )
    assert "queued (paused)" in hora(stack.home, "studies", "show", waiting_study_id).stdout
    assert json.loads(hora(stack.home, "studies", "resume", waiting_study_id, "--json").stdout)["paused"] == 0
    with subprocess.Popen(
        [*HORA, "studies", "show", waiting_study_id, "--wait"],
        env=environment(stack.home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as watching:  # fmt: skip
        assert "2 cancelled" in hora(stack.home, "studies", "cancel", waiting_study_id).stdout
        expected_field, _ = watching.communicate(timeout=120)
    assert watching.returncode == 103
    assert "batch_size=64: cancelled" in expected_field
    assert until(lambda: client.study(waiting_study_id)["complete"], what="the end of the study")
    assert hora(stack.home, "studies", "cancel", waiting_study_id).stdout.startswith(f"{waiting_study_id} is over: ")


def test_a_study_that_has_ended_is_moved_and_deleted_by_those_who_mean_it(stack: Stack, client: Service) -> None:
    (host,) = client.hosts()
    client.drain(host["name"])
    try:
        study_id = hora(stack.home, "study", "-", "--set", "name=gone", stdin=STUDY).stdout.strip()
        early = hora(stack.home, "studies", "rm", study_id, "-y")
        assert (early.returncode, early.stdout) == (1, "")
        assert f"study {study_id} goes on: it can be deleted when it has ended" in early.stderr
        saving = hora(stack.home, "studies", "cancel", "--save", study_id)
        assert (saving.returncode, "2 cancelled" in saving.stdout) == (0, True)
    finally:
        client.undrain(host["name"])
    client.create_project({"name": "shelf"})
    moved = hora(stack.home, "studies", "set", study_id[:8], "project=shelf")
    assert moved.stdout == f"{study_id} has project shelf\n"
    assert {job["project"] for job in client.jobs(study=study_id)} == {"shelf"}
    for wrong in (["name=x"], ["project="], ["project=a", "name=x"], ["shelf"]):
        refused = hora(stack.home, "studies", "set", study_id, *wrong)
        assert (refused.returncode, "project=NAME" in refused.stderr) == (2, True)
    unasked = hora(stack.home, "studies", "rm", study_id)
    assert (unasked.returncode, "add --yes" in unasked.stderr) == (2, True)
    assert f"{study_id} (gone, 2 jobs)" in " ".join(unasked.stderr.split())
    assert hora(stack.home, "studies", "rm", study_id, "nosuchstudy0", "--yes").returncode == 102
    assert json.loads(hora(stack.home, "studies", "rm", study_id, "-y", "--json").stdout) == {"deleted": study_id}
    assert hora(stack.home, "studies", "show", study_id).returncode == 102


def test_a_wait_for_a_study_has_a_limit(stack: Stack, waiting_study_id: str) -> None:
    again = hora(stack.home, "study", "-", "--set", "name=limited", "--wait", "--timeout", "0.1", stdin=STUDY)
    assert again.returncode == 101
    assert "hora studies show " in again.stderr
    hora(stack.home, "studies", "cancel", again.stderr.split("hora studies show ")[1].split()[0])


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_ctrl_c_leaves_the_study_and_says_how_to_come_back(
    stack: Stack, client: Service, waiting_study_id: str
) -> None:
    command = [*HORA, "studies", "show", waiting_study_id, "--wait"]
    (first, _) = client.jobs(study=waiting_study_id)
    with subprocess.Popen(
        command, env=environment(stack.home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdout is not None
        client.cancel(first["id"])
        assert watching.stdout.readline().endswith("(1 of 2)\n")
        watching.send_signal(signal.SIGINT)
        _, stderr = watching.communicate(timeout=120)
    assert watching.returncode == 101
    assert f"The study continues. Come back with `hora studies show {waiting_study_id} --wait`" in stderr
    assert client.study(waiting_study_id)["counts"]["queued"] == 1


def test_a_dry_run_shows_the_cells_and_stores_nothing(stack: Stack, client: Service) -> None:
    before = [row["id"] for row in client.studies()]
    result = hora(stack.home, "study", "-", "--dry-run", "--set", "grid.gpus=[1, 2]", "--set", "repeats=3", stdin=STUDY)
    assert result.returncode == 0, result.stderr
    assert [line.split()[:4] for line in result.stdout.splitlines()[1:]] == [
        ["1", "64", "1", "64"],
        ["2", "64", "2", "128"],
        ["3", "256", "1", "256"],
        ["4", "256", "2", "512"],
    ]
    assert result.stderr == "12 jobs: 4 cells, each 3 times.\n"
    assert [row["id"] for row in client.studies()] == before


@pytest.mark.parametrize(
    ("arguments", "expected_field"),
    [
        (("--set", "grid.colour=[red]"), "grid.colour"),
        (("--set", "max_jobs=1"), "max_jobs"),
        (("--set", "grid=.nan"), "grid"),
        (("--dry-run", "--wait"), None),
    ],
)
def test_wrong_fields_of_a_study_are_named(
    stack: Stack, arguments: tuple[str, ...], expected_field: str | None
) -> None:
    result = hora(stack.home, "study", "-", *arguments, stdin=STUDY)
    assert (result.returncode, result.stdout) == (2, "")
    fields = [line.strip().partition(":")[0] for line in result.stderr.splitlines() if line.startswith("  ")]
    assert expected_field is None or expected_field in fields
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "command",
    [("report",), ("studies", "pause")],
    ids=" ".join,
)
def test_an_unknown_study_exits_with_102(stack: Stack, command: tuple[str, ...]) -> None:
    result = hora(stack.home, *command, "nosuchstudy0")
    assert (result.returncode, result.stdout) == (102, "")
    assert len(result.stderr.splitlines()) == 1
