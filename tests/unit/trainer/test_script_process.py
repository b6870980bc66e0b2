"""The process of a script: the environment in which it starts, and how its end becomes the end of its rank."""

import signal
from pathlib import Path

import pytest

from jobs.model.problems import InvalidSpec
from jobs.model.spec import spec_from
from trainer.script.child_environment import child_environment, run_values
from trainer.script.exits import exit_of_child

MEMORY = ", as the kernel does when memory runs out"


@pytest.mark.parametrize(
    ("code", "reason", "message", "rank_code"),
    [
        (0, "completed", None, 0),
        (3, "script_failed", "the script exited with 3", 1),
        (-signal.SIGSEGV, "rank_failed", "the script was killed by SIGSEGV", 1),
        (-signal.SIGKILL, "rank_failed", f"the script was killed by SIGKILL{MEMORY}", 1),
        (128 + signal.SIGKILL, "rank_failed", f"the script was killed by SIGKILL{MEMORY}", 1),  # as bubblewrap says it
        (200, "script_failed", "the script exited with 200", 1),
        (-40, "rank_failed", "the script was killed by signal 40", 1),  # a real-time signal has no name
    ],
)
def test_a_code_has_a_reason(tmp_path: Path, code: int, reason: str, message: str | None, rank_code: int) -> None:
    assert exit_of_child(code, tmp_path / "no log", log_began=0) == (reason, message, rank_code)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (b"Traceback:\n  File\nmy.lib.ShapeError: 3 is not 4\nbye\n", ": my.lib.ShapeError: 3 is not 4"),
        (b"one\n  cannot open it  \n\n", ": cannot open it"),
        (b"\xff\x00 lost", ": \ufffd\ufffd lost"),
        (b"x" * 500, ": " + "x" * 400),
        (b" \n\n", ""),
    ],
)
def test_a_failure_says_the_last_error_of_the_log(tmp_path: Path, log: bytes, said: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(log)
    assert exit_of_child(1, path, log_began=0) == ("script_failed", f"the script exited with 1{said}", 1)


def test_only_what_this_script_said_last_counts(tmp_path: Path) -> None:
    path = tmp_path / "log"
    earlier = b"ValueError: of an earlier attempt\n"
    path.write_bytes(earlier + b"quiet end\n")
    assert exit_of_child(1, path, log_began=len(earlier))[1] == "the script exited with 1: quiet end"
    path.write_bytes(b"ValueError: long ago\n" + b"step\n" * 10_000)
    assert exit_of_child(1, path, log_began=0)[1] == "the script exited with 1: step"


def environment(inherited: dict[str, str], **env: str) -> dict[str, str]:
    return child_environment(
        inherited, env=env, bin_dirs=["/env/bin", "/worker/bin"], lib_dir="/lib", scratch="/scratch",
        run_file="/scratch/run.json", master=("10.0.0.1", "4321"),
    )  # fmt: skip


def test_a_script_gets_what_it_needs_and_no_secrets() -> None:
    inherited = {
        "PATH": "/usr/bin", "LANG": "C.UTF-8", "CUDA_VISIBLE_DEVICES": "1", "NCCL_DEBUG": "WARN", "HORA_ATTEMPT": "2",
        "HOROVOD_RANK": "3", "HOROVOD_SIZE": "4", "HOROVOD_LOCAL_RANK": "1", "HOROVOD_LOCAL_SIZE": "2",
        "HORA_DATABASE_URL": "secret", "HORA_TOKEN": "secret", "HOME": "/home/worker", "PYTHONPATH": "/worker",
        "LD_PRELOAD": "secret", "AWS_SECRET_ACCESS_KEY": "secret", "HORA_STORE": "s3://secret",
        "HORA_STORE_OPTIONS": '{"secret": "secret"}', "GOOGLE_APPLICATION_CREDENTIALS": "secret",
        "AZURE_STORAGE_KEY": "secret",
    }  # fmt: skip
    assert environment(inherited, WANDB_MODE="offline") == {
        "WANDB_MODE": "offline", "PATH": "/env/bin:/worker/bin:/usr/bin", "LANG": "C.UTF-8",
        "CUDA_VISIBLE_DEVICES": "1", "NCCL_DEBUG": "WARN", "HORA_ATTEMPT": "2",
        "HOROVOD_RANK": "3", "HOROVOD_SIZE": "4", "HOROVOD_LOCAL_RANK": "1", "HOROVOD_LOCAL_SIZE": "2",
        "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "4321", "HOME": "/scratch", "TMPDIR": "/scratch",
        "PYTHONPATH": "/lib", "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1",
        "HORA_RUN_FILE": "/scratch/run.json",
    }  # fmt: skip


def test_a_spec_may_set_what_ranks_have_by_default_and_a_rank_without_a_launcher_is_the_first_of_one() -> None:
    inherited = {"OMP_NUM_THREADS": "2", "LANG": "C", "TF_CPP_MIN_LOG_LEVEL": "2"}
    mine = {"OMP_NUM_THREADS": "8", "LANG": "de_DE.UTF-8", "TF_CPP_MIN_LOG_LEVEL": "0"}
    alone = environment(inherited, **mine)
    assert alone.items() >= mine.items()
    assert [alone[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")] == ["0", "1", "0", "1"]
    assert alone["PATH"] == "/env/bin:/worker/bin:/usr/local/bin:/usr/bin:/bin"


def test_a_spec_can_set_nothing_that_hora_needs() -> None:
    inherited = {"HORA_ATTEMPT": "2", "HOROVOD_RANK": "0", "NCCL_DEBUG": "WARN", "GLOO_X": "1", "LD_LIBRARY_PATH": "/l"}
    own = environment({**inherited, "CUDA_VISIBLE_DEVICES": "1"})
    for name in own:
        with pytest.raises(InvalidSpec, match=f"{name} cannot be set"):
            spec_from({"code": "0" * 64, "command": ["python"], "env": {name: "mine"}})


def test_the_run_file_says_nothing_of_the_launch_but_what_a_script_may_know() -> None:
    script = {"plan": {"epochs": 2}, "train": "/data/train", "memory_bytes": 7}
    launch = {"job_id": "j", "attempt": 2, "spec": {"params": {}}, "script": script, "checkpoints_dir": "/jobs/j"}
    assert run_values(launch, rank=1, size=2, local_rank=0, folders={"channel": "/c", "latest_checkpoint": None}) == {
        "version": 1, "job_id": "j", "attempt": 2, "spec": {"params": {}}, "plan": {"epochs": 2},
        "rank": 1, "size": 2, "local_rank": 0, "train": "/data/train", "validation": None,
        "channel": "/c", "latest_checkpoint": None,
    }  # fmt: skip
