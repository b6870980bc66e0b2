"""The part of the launch file that is about a script, and where it finds its data."""

from pathlib import Path
from typing import Any

import pytest

from jobs.data.script_data import NoSuchData, ScriptData, script_data
from jobs.model.launch import ScriptLaunch
from jobs.model.plan import DatasetSizes
from jobs.model.spec import DatasetSpec, Spec, spec_from
from jobs.model.states import EndReason
from jobs.runtime.settings import Settings
from worker.attempt.code_folder import library_folder
from worker.attempt.paths import AttemptPaths, paths_of
from worker.attempt.script_launch import (
    CannotRunScript,
    environment_folders,
    on_member,
    require_allowed,
    script_launch,
)

COMMAND = ["python", "train.py", "--lr={learning_rate}", "--data={dataset.train}", "{artifacts}/log", "{params.depth}"]


def spec_of(**fields: Any) -> Spec:
    script = {"code": "a" * 64, "command": COMMAND, "params": {"depth": 3}, "env": {"LEVEL": "9"}, "dataset": "chips@1"}
    return spec_from(script | {"batch_size": 64, "batch_per": "global", "learning_rate": 0.5, "gpus": 4} | fields)


def paths() -> AttemptPaths:
    return paths_of(Path("/home/runs"), "j", 2)


def launched(settings: Settings, spec: Spec | None = None, *, gpus: int = 2) -> ScriptLaunch:
    return script_launch(
        spec or spec_of(dataset="chips@1"), paths(), settings, gpus=gpus, sizes=DatasetSizes(train=640, validation=64),
        data=ScriptData("/data/chips/train", "/data/chips/val", ["/data/chips"]), memory_bytes=7,
    )  # fmt: skip


def test_the_launch_file_has_the_plan_of_this_attempt_s_ranks_and_folders_of_its_own() -> None:
    settings = Settings(home=Path("/home"), code_user="hora-code", max_code_storage_gb=2, max_job_storage_gb=3)
    script = launched(settings)
    assert (script.plan.gpus, script.plan.per_gpu_batch, script.plan.steps_per_epoch) == (2, 32, 10)
    assert script.command == [
        "python", "train.py", "--lr=0.5", "--data=/data/chips/train", "/home/runs/j/artifacts/log", "3",
    ]  # fmt: skip
    root = "/home/runs/j/attempt-2"
    assert (script.code_dir, script.lib_dir, script.scratch) == (f"{root}/code", f"{root}/lib", f"{root}/tmp")
    assert script.writable == [f"{root}/code", "/home/runs/j/checkpoints/attempt-2", "/home/runs/j/artifacts"]
    assert script.readable == ["/data/chips", f"{root}/lib", library_folder(), "/home/runs/j/checkpoints"]
    assert (script.train, script.validation, script.env) == ("/data/chips/train", "/data/chips/val", {"LEVEL": "9"})
    assert (script.user, script.memory_bytes, script.storage_bytes) == ("hora-code", 7, 2 * 10**9)
    own = paths()
    of_hora = [own.records, own.logs, own.launch_dir, own.stop_file, own.lease_file, own.supervisor_log]
    assert not any(path.is_relative_to(folder) for path in of_hora for folder in [*script.writable, *script.readable])


def test_another_host_has_its_own_copy_and_neither_checkpoints_nor_artifacts() -> None:
    member = paths().of_member("hb")
    script = on_member(spec_of(), launched(Settings(home=Path("/home"))), member, 9)
    root = "/home/runs/j/attempt-2"
    assert (script.code_dir, script.lib_dir) == (f"{root}/members/hb/code", f"{root}/members/hb/lib")
    assert script.writable == [f"{root}/members/hb/code"]
    assert script.readable == ["/data/chips", f"{root}/members/hb/lib", library_folder()]
    assert script.command[4] == f"{root}/members/hb/code/log"
    assert script.shared_memory != launched(Settings(home=Path("/home"))).shared_memory
    assert script.memory_bytes == 9


def test_an_environment_gives_its_programs_and_may_be_read_with_its_python(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/pyvenv.cfg").write_text(f"home = {tmp_path}/python/bin\nversion = 3.11\n")
    (tmp_path / "python/bin").mkdir(parents=True)
    settings = Settings(home=Path("/home"), environments=f"torch={tmp_path}/torch")
    script = launched(settings, spec_of(dataset="chips@1", environment="torch"))
    assert script.bin_dir == f"{tmp_path}/torch/bin"
    assert script.readable[-2:] == [f"{tmp_path}/torch", f"{tmp_path}/python"]
    assert environment_folders("/nowhere") == ["/nowhere"]


@pytest.mark.parametrize(
    ("settings", "fields", "said"),
    [
        (Settings(code="off", host_name="ha"), {}, "host ha runs no code of users: HORA_CODE is off there"),
        (Settings(code="on", host_name="ha"), {"environment": "jax"}, "host ha has no environment jax: it is not in"),
        (Settings(code="on", host_name="ha"), {"requirements": ["einops"]}, "host ha installs no packages for jobs"),
    ],
)
def test_a_host_refuses_what_its_operator_does_not_allow(settings: Settings, fields: Any, said: str) -> None:
    with pytest.raises(CannotRunScript, match=said) as refused:
        require_allowed(spec_of(**fields), settings)
    assert refused.value.reason is EndReason.LAUNCH_FAILED
    require_allowed(spec_of(), Settings(code="on"))
    with pytest.raises(CannotRunScript, match="batch_size: a global batch of 64 does not divide by 3 gpus") as refused:
        launched(Settings(home=Path("/home")), gpus=3)
    assert refused.value.reason is EndReason.BAD_DATA


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    for folder in ("chips/train", "chips/val", "flat", "other/train", "uploads/3/train"):
        (root / folder).mkdir(parents=True)
    (tmp_path / "secret/train").mkdir(parents=True)
    return root


def found(root: Path, source: str, **fields: Any) -> ScriptData:
    return script_data(DatasetSpec(source=source, **fields), [str(root)], registered=None, uploads=None)


def test_parts_of_the_data_are_handed_over_each_and_data_without_parts_is_all_for_training(root: Path) -> None:
    parts = found(root, "chips")
    assert (parts.train, parts.validation) == (f"{root}/chips/train", f"{root}/chips/val")
    assert parts.readable[0] == f"{root}/chips"
    assert found(root, f"{root}/flat") == ScriptData(f"{root}/flat", None, [f"{root}/flat"])
    assert found(root, "s3://bucket/chips") == ScriptData("s3://bucket/chips", None, [])
    assert found(root, f"file://{root}/chips").train == f"{root}/chips/train"
    (root / "fashion-mnist").mkdir()
    assert found(root, "fashion-mnist").train == f"{root}/fashion-mnist"
    assert script_data(None, [str(root)]) == ScriptData()


def test_another_source_for_validation_gives_its_training_part(root: Path) -> None:
    data = found(root, "flat", validation="other")
    assert (data.train, data.validation) == (f"{root}/flat", f"{root}/other/train")
    assert f"{root}/other" in data.readable
    assert found(root, "chips", validation="other").validation == f"{root}/chips/val", "own parts come first"


@pytest.mark.parametrize("source", ["nothing", "../secret", "link"])
def test_what_is_missing_or_outside_the_data_roots_is_refused(root: Path, source: str) -> None:
    (root / "link").symlink_to(root.parent / "secret")
    with pytest.raises(NoSuchData, match=r"dataset\.source: '.*' is not on this host"):
        found(root, source)


def test_a_part_that_is_a_link_out_of_the_data_roots_is_none(root: Path) -> None:
    (root / "flat/train").symlink_to(root.parent / "secret")
    assert found(root, "flat").train == f"{root}/flat"
    (root / "flat/train").unlink()
    (root / "flat/train").symlink_to(root / "other/train")
    linked = found(root, "flat")
    assert linked.train == f"{root}/other/train"
    assert linked.train in linked.readable


def test_an_uploaded_version_is_found_below_the_folder_of_datasets_and_no_other_is_readable(root: Path) -> None:
    uploads = str(root / "uploads")
    data = script_data(DatasetSpec(source="chips@3"), [], registered=f"{uploads}/3", uploads=uploads)
    assert (data.train, data.readable) == (f"{uploads}/3/train", [f"{uploads}/3", f"{uploads}/3/train"])
