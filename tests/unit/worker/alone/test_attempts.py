"""How the attempts of a run follow each other, and what they make of what Slurm gave. Nothing is trained."""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jobs.model.runs import ExportedRun, RunAttempt, RunNode
from jobs.model.spec import spec_from
from jobs.model.states import EndReason
from tests.runs import SPEC
from worker.alone import __main__ as program
from worker.alone.folder import RunFolder
from worker.alone.nodes import Allocation, NotUsable, layout_on, still_runs
from worker.alone.training import Training
from worker.attempt.ending import Ending
from worker.slurm import commands
from worker.slurm.commands import SlurmJob

THIS_JOB = 7
VARIABLES = {"SLURM_JOB_ID": str(THIS_JOB), "SLURM_JOB_NODELIST": "n1", "SLURM_TASKS_PER_NODE": "2"}


Submit = Callable[[], list[RunAttempt]]


@pytest.fixture
def submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Submit:
    """Runs one attempt, which is preempted at once; returns those of the folder."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(commands, "hostnames", lambda _: ["n1"])
    monkeypatch.setattr(commands, "jobs", lambda: [SlurmJob(6, "", "RUNNING", "None", None, "n2")])
    monkeypatch.setattr(program, "gpus_of_nodes", lambda *_: {"n1": []})
    monkeypatch.setattr(Training, "train", lambda *_: Ending(EndReason.PREEMPTED, "x" * 20_000))

    def submit() -> list[RunAttempt]:
        folder = RunFolder(tmp_path / "run")
        assert program._attempt(folder, spec_from(SPEC).model_dump_json().encode(), []) == 1
        run, attempts = folder.open_run(spec_from(SPEC)), folder.attempts()
        ExportedRun(run=run, attempts=attempts)  # it can be imported
        return attempts

    return submit


def earlier(tmp_path: Path, *, slurm_job: int) -> None:
    """An attempt that is in the folder already, and has no end."""
    folder = RunFolder(tmp_path / "run")
    os.close(folder.lock())
    folder.paths(1).create()
    nodes = [RunNode(name="n2", ranks=2)]
    folder.store(RunAttempt(number=1, slurm_job=slurm_job, device="cpu", nodes=nodes, started_at=datetime.now(UTC)))


def test_an_attempt_starts_after_its_run_and_the_end_of_the_earlier_one(submit: Submit, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    os.close(folder.lock())
    created_at = datetime.now(UTC) + timedelta(hours=1)  # by the clock of its node
    run = folder.open_run(spec_from(SPEC)).model_copy(update={"created_at": created_at})
    (folder.path / "run.json").write_text(run.model_dump_json())
    (first,) = submit()
    assert (first.started_at, first.ended_at) == (created_at, created_at)
    ended_at = created_at + timedelta(hours=1)
    folder.store(first.model_copy(update={"ended_at": ended_at}))
    _, second = submit()
    assert (second.started_at, second.ended_at) == (ended_at, ended_at)


@pytest.mark.parametrize("slurm_job", [5, THIS_JOB], ids=["of another job", "of this one, which Slurm requeued"])
def test_a_lost_attempt_ends_first(
    submit: Submit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slurm_job: int
) -> None:
    monkeypatch.setattr(commands, "jobs", lambda: [SlurmJob(THIS_JOB, "", "RUNNING", "None", None, "n1")])
    earlier(tmp_path, slurm_job=slurm_job)
    assert [(one.number, one.reason) for one in submit()] == [(1, "host_lost"), (2, "preempted")]


def test_one_that_trains_by_the_word_of_slurm_is_left_alone(submit: Submit, tmp_path: Path) -> None:
    earlier(tmp_path, slurm_job=6)
    with pytest.raises(NotUsable, match=r"job 6 of Slurm trains in .*: submit the script again when it has ended"):
        submit()
    assert [one.reason for one in RunFolder(tmp_path / "run").attempts()] == [None]


@pytest.mark.usefixtures("submit")
def test_a_spec_that_waits_for_jobs_of_the_service_is_refused(tmp_path: Path) -> None:
    spec = spec_from(SPEC | {"after": ["3k9v"]})
    with pytest.raises(NotUsable, match=r"only the service knows the jobs in `after`: use `sbatch --dep"):
        program._attempt(RunFolder(tmp_path / "run"), spec.model_dump_json().encode(), [])


OF_SLURM = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "2(x2)"}


def test_slurm_says_how_many_ranks_a_node_gets() -> None:
    assert Allocation.of(OF_SLURM) == Allocation(7, "n[1-2]", 2, 1)
    assert Allocation.of(OF_SLURM | {"SLURM_TASKS_PER_NODE": "3"}).ranks_per_node == 3
    assert Allocation.of(OF_SLURM | {"SLURM_CPUS_PER_TASK": "4"}).cpus_per_rank == 4


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "hand the script to sbatch"),
        (OF_SLURM | {"SLURM_JOB_ID": "x"}, "hand the script to sbatch"),
        (OF_SLURM | {"SLURM_TASKS_PER_NODE": "2,1"}, r"different numbers of tasks \(2,1\)"),
        (OF_SLURM | {"SLURM_TASKS_PER_NODE": "2(x2),1"}, "use --nodes and --ntasks-per-node"),
    ],
)
def test_what_cannot_be_used_is_said(variables: Mapping[str, str], message: str) -> None:
    with pytest.raises(NotUsable, match=message):
        Allocation.of(variables)


def test_each_node_has_the_gpus_that_slurm_gave_there_and_ranks_on_cpus_the_cores_of_their_task() -> None:
    layout = layout_on(Allocation(7, "n[1-2]", 2, 1), {"n1": ["0", "1", "2"], "n2": ["4", "5"]}, device="auto")
    assert [(share.address, list(share.ranks), list(share.gpu_uuids)) for share in layout.shares] == [
        ("n1", [0, 1], ["0", "1"]), ("n2", [2, 3], ["4", "5"]),
    ]  # fmt: skip
    assert (layout.lead.threads_per_rank, layout.slurm_job, layout.interface) == (0, 7, "")
    on_cpus = layout_on(Allocation(7, "n1", 2, 4), {"n1": []}, device="auto")
    assert (on_cpus.lead.threads_per_rank, list(on_cpus.lead.gpu_uuids), on_cpus.interface) == (4, [], "lo")
    assert layout_on(Allocation(7, "n1", 1, 1), {"n1": ["0"]}, device="cpu").lead.gpu_uuids == []


@pytest.mark.parametrize(
    ("device", "gpus"), [("gpu", {"n1": []}), ("auto", {"n1": ["0"]}), ("auto", {"n1": ["0", "1"], "n2": []})]
)
def test_missing_gpus_are_named(device: str, gpus: Mapping[str, list[str]]) -> None:
    with pytest.raises(NotUsable, match=r"GPUs on n[12] for 2 ranks: ask for --gres=gpu:2, or .* device: cpu"):
        layout_on(Allocation(7, "n[1-2]", 2, 1), gpus, device=device)


def test_a_job_runs_until_slurm_has_ended_all_its_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    for state, runs in (("RUNNING", True), ("COMPLETING", True), ("SUSPENDED", True), ("NODE_FAIL", False)):
        monkeypatch.setattr(commands, "jobs", lambda state=state: [SlurmJob(7, "a job", state, "None", None, "n1")])
        assert (still_runs(7), still_runs(8)) == (runs, False)
