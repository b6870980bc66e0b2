"""What Slurm's commands answer, and what is made of it when they do not."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jobs.scheduling.pools import PoolNode
from tests.integration.worker.slurm.pool_site import fake_command
from tests.slurm import PARTITION, Slurm
from tests.waiting import until
from worker.slurm import commands
from worker.slurm.commands import SlurmAway, SlurmJob, SlurmRefused

SLEEPS = "#!/bin/sh\nsleep 600\n"


def job_of(name: str) -> SlurmJob:
    (found,) = [job for job in commands.jobs() if job.name == name]
    return found


def test_a_job_of_any_name_is_submitted_seen_asked_and_cancelled(cluster: Slurm) -> None:
    name = "a|b %d\u00e9"
    number = commands.submit(SLEEPS, [f"--job-name={name}", f"--partition={PARTITION}", "--nodes=2", "--time=10"])
    until(lambda: job_of(name).state == "RUNNING", what="the job")
    job = job_of(name)
    assert (job.id, job.reason) == (number, "None")
    assert commands.hostnames(job.nodes) == ["n1", "n2"]
    assert job.starts_at is not None
    assert abs(job.starts_at - datetime.now(UTC)) < timedelta(minutes=10)
    assert commands.output_on("n2", number, ["printenv", "SLURMD_NODENAME"]) == ["n2"]
    with pytest.raises(SlurmRefused, match="No such file"):
        commands.output_on("n2", number, ["/nowhere"])
    assert commands.knows(number)
    commands.cancel(number)
    until(lambda: job_of(name).state == "CANCELLED", what="its end")
    commands.cancel(number)
    commands.cancel(999_999)
    assert not commands.knows(999_999)


def test_the_nodes_of_a_partition_are_listed_with_their_gpus(cluster: Slurm) -> None:
    seen = commands.partition(PARTITION)
    assert [node.name for node in seen.nodes] == ["n1", "n2"]
    assert seen.nodes[0] == PoolNode("n1", seen.nodes[0].state, 2, 2000 * 2**20, {"": 2}, ())
    assert seen.time_limit is None


def test_slurm_keeps_no_variable_of_the_worker(cluster: Slurm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HORA_DATABASE_URL", "postgresql://secret")
    monkeypatch.setenv("SBATCH_TIMELIMIT", "not a time")  # would be an option
    out = tmp_path / "out"
    commands.submit("#!/bin/sh\nenv\n", ["--job-name=variables", f"--output={out}", "--time=10"])
    until(lambda: job_of("variables").state == "COMPLETED", what="its end")
    names = {line.partition("=")[0] for line in out.read_text().splitlines()}
    assert "SLURM_JOB_ID" in names
    assert not {name for name in names if name.startswith(("HORA_", "AWS_"))}


def test_a_refusal_is_in_slurms_words(cluster: Slurm) -> None:
    with pytest.raises(SlurmRefused, match="Requested node configuration is not available"):
        commands.submit(SLEEPS, ["--nodes=1", "--gres=gpu:64", "--time=10"])
    with pytest.raises(SlurmRefused, match="Requested node configuration is not available"):
        commands.check_options(SLEEPS, ["--nodes=1", "--gres=gpu:64", "--time=10"])
    commands.check_options(SLEEPS, ["--job-name=tested", "--time=10"])
    assert "tested" not in [job.name for job in commands.jobs()]
    with pytest.raises(SlurmRefused, match=r"[Ii]nvalid partition"):
        commands.submit(SLEEPS, ["--partition=nowhere", "--time=10"])
    with pytest.raises(SlurmRefused, match="no partition nowhere"):
        commands.partition("nowhere")


def test_without_slurm_on_this_machine_it_is_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SlurmAway, match="squeue cannot be run: No such file"):
        commands.jobs()


@pytest.mark.parametrize("answer", ["", "7|RUNNING|a", "<html>"])
def test_an_answer_that_makes_no_sense_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: str) -> None:
    fake_command(monkeypatch, tmp_path, "squeue", f"echo '{answer}'")
    with pytest.raises(SlurmAway, match="Slurm answered"):
        commands.jobs()


def test_types_of_gpus_may_begin_with_digits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gres = "gpu:3090:8(S:0-1),gpu:2080ti:4(S:1),shard:32,license:gpu_x:3"
    fake_command(monkeypatch, tmp_path, "sinfo", f"echo 'n1|idle|64|512000+|{gres}|a100,ib'")
    (node,) = commands.partition("main").nodes
    assert node == PoolNode("n1", "idle", 64, 512_000 * 2**20, {"3090": 8, "2080ti": 4}, ("a100", "ib"))
