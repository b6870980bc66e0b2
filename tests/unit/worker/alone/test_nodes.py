"""What an attempt without the service makes of what Slurm gave."""

from collections.abc import Mapping

import pytest

from worker.alone.nodes import Allocation, NotUsable, layout_on, still_runs
from worker.slurm import commands
from worker.slurm.commands import SlurmJob

VARIABLES = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "2(x2)"}


def test_slurm_says_how_many_ranks_a_node_gets() -> None:
    assert Allocation.of(VARIABLES) == Allocation(7, "n[1-2]", 2, 1)
    assert Allocation.of(VARIABLES | {"SLURM_TASKS_PER_NODE": "3"}).ranks_per_node == 3
    assert Allocation.of(VARIABLES | {"SLURM_CPUS_PER_TASK": "4"}).cpus_per_rank == 4


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "hand the script to sbatch"),
        (VARIABLES | {"SLURM_JOB_ID": "x"}, "hand the script to sbatch"),
        (VARIABLES | {"SLURM_TASKS_PER_NODE": "2,1"}, r"different numbers of tasks \(2,1\)"),
        (VARIABLES | {"SLURM_TASKS_PER_NODE": "2(x2),1"}, "use --nodes and --ntasks-per-node"),
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
