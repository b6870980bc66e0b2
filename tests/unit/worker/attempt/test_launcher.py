"""What the launcher starts for an attempt: command lines, environments, launch files and paths."""

import re
import shlex
import sys
from pathlib import Path
from typing import Any

from jobs.model.launch import Launch
from jobs.model.spec import spec_from
from jobs.runtime.settings import Settings
from worker.attempt.launch_file import basic_launch
from worker.attempt.layout import HostShare, Layout, horovodrun_argv, on_this_host
from worker.attempt.paths import AttemptPaths, paths_of
from worker.attempt.shares import member_task, members_launch
from worker.attempt.supervisor_task import launch_of
from worker.host.inherited import rank_environment

SECRETS = {
    "HORA_TOKEN": "t0p", "HORA_DATABASE_URL": "postgresql://u:t0p@h/d", "HORA_BROKER_URL": "redis://:t0p@h",
    "AWS_ACCESS_KEY_ID": "t0p", "AWS_SECRET_ACCESS_KEY": "t0p", "AWS_SESSION_TOKEN": "t0p", "PGPASSWORD": "t0p",
    "HORA_STORE": "s3://t0p/hora", "HORA_STORE_OPTIONS": '{"secret": "t0p"}', "AWS_ENDPOINT_URL": "https://t0p",
    "GOOGLE_APPLICATION_CREDENTIALS": "/t0p.json", "AZURE_STORAGE_KEY": "t0p", "AZURE_STORAGE_ACCOUNT_KEY": "t0p",
    "HORA_DATA_ROOTS": "t0p", "SSH_AUTH_SOCK": "t0p", "BASH_FUNC_x%%": "t0p", "x;touch /tmp/t0p;": "t0p",
    "LD_PRELOAD": "t0p", "HORA_ATTEMPT": "t0p", "CUDA_VISIBLE_DEVICES": "t0p", "HOROVOD_RANK": "t0p",
}  # fmt: skip


TWO_HOSTS = Layout(
    [HostShare("lead", "10.0.0.1", [0, 1], [], 2), HostShare("other", "10.0.0.2", [2], ["GPU-7"], 0)], "eth1"
)


def test_the_command_uses_loopback_on_one_host_and_ssh_and_a_network_interface_for_several() -> None:
    launch_dir, ssh_config = Path("/runs/j/attempt-1/launch"), Path("/home/ssh/lead/ssh_config")
    python, rank = ["/venv/bin/python", "-m"], ["/venv/bin/python", "-m", "trainer", "/runs/j/attempt-1/launch"]
    gloo = ["--gloo", "--gloo-timeout-seconds", "86400", "--disable-cache", "--network-interfaces"]
    assert horovodrun_argv(on_this_host(2), launch_dir=launch_dir, python="/venv/bin/python") == [
        *python, "worker.horovodrun", "-np", "2", "-H", "localhost:2", *gloo, "lo", *rank,
    ]  # fmt: skip
    argv = horovodrun_argv(TWO_HOSTS, launch_dir=launch_dir, ssh_config=ssh_config, python="/venv/bin/python")
    assert argv == [
        *python, "worker.horovodrun", "--ssh-config", "/home/ssh/lead/ssh_config", "--host-names", "lead,other",
        "-np", "3", "-H", "10.0.0.1:2,10.0.0.2:1", *gloo, "eth1", *rank,
    ]  # fmt: skip


SETTINGS = Settings(home=Path("/home"))


def paths() -> AttemptPaths:
    return paths_of(SETTINGS.runs_dir, "j", 2)


def test_a_mirrored_job_has_one_rank_with_all_gpus_and_threads() -> None:
    layout = on_this_host(4, gpu_uuids=["GPU-0", "GPU-1", "GPU-2", "GPU-3"], threads=2).of_strategy("mirrored")
    assert (layout.ranks, layout.gpus, layout.lead.threads_per_rank) == (1, 4, 8)
    assert horovodrun_argv(layout, launch_dir=Path("/l"))[3:7] == ["-np", "1", "-H", "localhost:1"]
    spec = spec_from({"dataset": "digits", "gpus": 4, "strategy": "mirrored"})
    launch = launch_of("j", spec, paths(), SETTINGS, layout)
    assert (launch.gpus, launch.threads_per_rank, len(launch.gpu_uuids)) == (4, 8, 4)


def test_a_member_gets_the_paths_and_gpus_of_its_own_host() -> None:
    launch = launch_of("j", spec_from({"dataset": "digits", "gpus": 3}), paths(), SETTINGS, TWO_HOSTS)
    assert (launch.gpus, launch.threads_per_rank, launch.gpu_uuids) == (3, 2, [])
    task = member_task(launch, TWO_HOSTS.shares[1], paths(), mark="j.2")
    there = "/home/runs/j/attempt-2/members/other"
    of_member = Launch.model_validate(task.launch)
    assert (task.host, task.mark, task.ranks) == ("other", "j.2", [2])
    assert task.launch_file == "/home/runs/j/attempt-2/launch/10.0.0.2.json"
    assert (of_member.gpu_uuids, of_member.threads_per_rank) == (["GPU-7"], 0)
    assert (of_member.records_dir, of_member.logs_dir) == (f"{there}/records", f"{there}/logs")
    assert (of_member.stop_path, of_member.lease_path) == (f"{there}/stop", f"{there}/lease")
    assert of_member.checkpoints_dir == "/home/runs/j/checkpoints"


def test_command_that_starts_a_member_is_quoted_for_the_shell() -> None:
    variables = {"PYTHONPATH": "/a b;touch /tmp/t0p", "PATH": "/bin"}
    task = members_launch([], TWO_HOSTS, paths(), ssh=["ssh"], environment=variables, ready_within_s=9)
    ((ssh, address, command),) = task.commands
    assert (ssh, address) == ("ssh", "10.0.0.2")
    assert shlex.split(command) == ["env", "PYTHONPATH=/a b;touch /tmp/t0p", sys.executable, "-m", "worker.member"]
    assert "'PYTHONPATH=/a b;touch /tmp/t0p'" in command


def test_in_a_pool_srun_starts_the_launcher_and_a_member_on_every_node_and_the_first_has_the_files() -> None:
    nodes = Layout([HostShare(f"n{i}", f"n{i}", [i - 1], (), 0, own_gpus=1) for i in (1, 2)], "", slurm_job=7)
    argv = horovodrun_argv(nodes, launch_dir=Path("/launch"))
    assert argv[:3] == ["srun", "--jobid=7", "--overlap"]
    assert argv[argv.index("worker.horovodrun") - 3] == "--nodelist=n1"
    assert argv[argv.index("worker.horovodrun") + 1 :][:6] == ["--slurm-job", "7", "-np", "2", "-H", "n1:1,n2:1"]
    assert "--network-interfaces" not in argv
    of_ranks = {"PATH": "/bin", "HORA_ATTEMPT": "j.2", "CUDA_VISIBLE_DEVICES": "-1", "SLURM_CONF": "/etc/slurm.conf"}
    members = members_launch([], nodes, paths(), ssh=[], environment=of_ranks, ready_within_s=9)
    assert [command[-5] for command in members.commands] == ["--nodelist=n1", "--nodelist=n2"]
    assert members.commands[0][-4:] == ["env", sys.executable, "-m", "worker.member"]
    assert members.environment == {"PATH": "/bin", "SLURM_CONF": "/etc/slurm.conf"}
    launch = launch_of("j", spec_from({"dataset": "digits", "gpus": 2}), paths(), SETTINGS, nodes)
    task = member_task(launch, nodes.lead, paths(), mark="j.2", has_files=True)
    assert (launch.device, task.host, task.ranks, task.own_gpus) == ("gpu", "n1", [0], 1)
    assert task.launch["records_dir"] == "/home/runs/j/attempt-2/members/n1/records"
    assert task.launch["checkpoints_dir"] == "/home/runs/j/checkpoints"


def environment(inherited: dict[str, str], **variables: str) -> dict[str, str]:
    return rank_environment(
        inherited, mark="j.1", home=Path("/home"), scratch=Path("/tmp/s"), threads=2, variables=variables
    )


def test_ranks_inherit_only_listed_variables_and_get_those_of_the_operator_and_of_the_attempt() -> None:
    given = environment({"PATH": "/bin", "LANG": "C.UTF-8", "EDITOR": "vi"}, NCCL_DEBUG="INFO", HORA_ATTEMPT="other.1")
    assert given == {
        "PATH": "/bin", "LANG": "C.UTF-8", "NCCL_DEBUG": "INFO", "HORA_ATTEMPT": "j.1", "HORA_HOME": "/home",
        "HOME": "/home", "TMPDIR": "/tmp/s", "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "2",
        "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1",
    }  # fmt: skip


def test_no_secret_and_no_name_that_is_unsafe_in_a_shell_reaches_the_environment_of_the_ranks() -> None:
    given = environment(SECRETS | {"PATH": "/bin", "PYTHONPATH": "/src"})
    assert all(re.fullmatch(r"[A-Z_][A-Z0-9_]*", key) for key in given)
    assert not any("t0p" in f"{key}={value}" for key, value in given.items())
    assert given.keys().isdisjoint({"HORA_TOKEN", "HORA_DATABASE_URL", "HORA_BROKER_URL"})


def launched(*, limits: dict[str, Any] | None = None, **model: str) -> Launch:
    settings = Settings(
        home=Path("/home"), data_roots="/data:s3://bucket/sets", models="acme.nets:wide", **limits or {}
    )
    spec = spec_from({"dataset": "digits", "gpus": 2, "model": {"name": "mlp"} | model})
    return launch_of("j", spec, paths_of(settings.runs_dir, "j", 2), settings, on_this_host(2, threads=1))


def test_launch_file_has_the_operators_settings_and_no_lease_token() -> None:
    launch = launched(limits={"max_job_storage_gb": 2.5, "cache_limit_gb": 7})
    assert (launch.data_roots, launch.models) == (["/data", "s3://bucket/sets"], ["acme.nets:wide"])
    assert (launch.cache_dir, launch.weights_dir) == ("/home/cache", "/home/weights")
    assert launched(limits={"cache_dir": Path("/scratch/hora")}).cache_dir == "/scratch/hora"
    assert launch.artifacts_dir == "/home/runs/j/artifacts"
    assert "token" not in launch.model_dump_json()
    assert (launch.storage_limit_bytes, launch.spec.dataset.cache_limit_gb) == (2_500_000_000, 7)
    assert launched(limits={"cache_limit_gb": 70}).spec.dataset.cache_limit_gb == 20  # the job asks for less
    of_job = "/home/runs/3k9v/artifacts/model.weights.h5"
    for weights, path in (("job:3k9v", of_job), ("job:../../etc", None), ("imagenet", None)):
        assert launched(weights=weights).job_weights == path


def test_launch_file_without_the_service_has_the_limits_too_but_no_lease() -> None:
    settings, layout = Settings(home=Path("/home"), cache_limit_gb=7), on_this_host(2, threads=3)
    launch = basic_launch("j", spec_from({"dataset": "digits", "gpus": 2}), paths(), settings, layout, layout.lead)
    assert (launch.spec.dataset.cache_limit_gb, launch.threads_per_rank, launch.attempt) == (7, 3, 2)
    assert launch.lease_path is None
