"""The batch script of an exported spec: what it asks for, that nothing breaks out of it, and what is refused."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hora.render.slurm_command import ARTIFACTS, command_script, not_exported, problems_of_code
from hora.render.slurm_script import problems_alone, slurm_script
from jobs.model.plan import resolve_plan
from jobs.model.script_values import placeholders
from jobs.model.spec import Spec, parse_spec, spec_from


def spec(**fields: Any) -> Spec:
    return spec_from({"dataset": "digits", "gpus": 4} | fields)


def script(*, nodes: int = 1, python: str = "/opt/hora/bin/python", **fields: Any) -> str:
    return slurm_script(spec(**fields), nodes=nodes, python=python, run="1a2b3c4d")


def options(text: str) -> list[str]:
    return [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH")]


def spec_in(text: str) -> Spec:
    return parse_spec(text.partition("<<'END'\n")[2].rpartition("END\n")[0])


def test_the_whole_script() -> None:
    text = script(nodes=2, name="digits", time_limit_s=3600, pool="slurm:main", gpu_model="a100")
    assert text.startswith("#!/bin/sh\n#SBATCH")
    assert options(text) == [
        "--job-name=hora-digits-1a2b3c4d", "--nodes=2", "--ntasks-per-node=2", "--gres=gpu:a100:2", "--partition=main",
        "--time=70", "--signal=B:USR2@120", "--no-requeue", "--output=hora-digits-1a2b3c4d-%j.log",
    ]  # fmt: skip
    body = [line for line in text.partition("\n\n")[2].splitlines() if not line.startswith("#")]
    assert body[:5] == [
        "python=${HORA_PYTHON:-/opt/hora/bin/python}",
        "folder=${HORA_RUN_FOLDER:-$SLURM_SUBMIT_DIR/hora-digits-1a2b3c4d}",
        "",
        """exec "$python" -P -m worker.alone "$folder" <<'END'""",
        "{",
    ]
    assert body[-2:] == ["}", "END"]
    fields = {"epochs": 7, "early_stopping": None, "labels": {"a": "END\\"}, "model": {"name": "mlp", "dropout": 0.5}}
    assert spec_in(script(**fields)) == spec(**fields)


def test_a_job_asks_for_gpus_and_time_only_if_it_needs_them() -> None:
    on_cpus = " ".join(options(script(device="cpu", time_limit_s=1)))
    assert ("--time=11" in on_cpus, "gpu" in on_cpus) == (True, False)
    for device in ("auto", "gpu"):
        asked = " ".join(options(script(device=device)))
        assert ("--gres=gpu:4" in asked, "--time" in asked) == (True, False)


@pytest.mark.parametrize("name", ["$(touch broken)", "a'b\"c", "../../x", "%j %u", "END", "学习", "-"])
def test_a_name_stays_a_name(name: str) -> None:
    text = script(name=name)
    named, output = options(text)[0].removeprefix("--job-name="), options(text)[-1]
    assert re.fullmatch(r"hora-[A-Za-z0-9._-]*-1a2b3c4d|hora-1a2b3c4d", named)
    assert output == f"--output={named}-%j.log"
    assert spec_in(text).name == name


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_shell_starts_that_python_in_that_folder(tmp_path: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    bin_dir = tmp_path / "it's $(touch broken) `touch broken` \"}; touch broken"
    bin_dir.mkdir()
    python = bin_dir / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@"\ncat\n')
    python.chmod(0o755)
    text = script(python=str(python), name="$(touch broken)")
    submitted_in = str(tmp_path / "my $(touch broken) jobs")
    variables = {"PATH": "/usr/bin:/bin", "SLURM_SUBMIT_DIR": submitted_in}

    def printed(**more: str) -> list[str]:
        argv = [shell, "-c", text]
        return subprocess.check_output(argv, env=variables | more, cwd=tmp_path, text=True).splitlines()

    folder = f"{submitted_in}/hora-touch-broken-1a2b3c4d"
    assert printed()[:5] == [str(python), "-P", "-m", "worker.alone", folder]
    assert parse_spec("\n".join(printed()[5:])).name == "$(touch broken)"
    assert printed(HORA_RUN_FOLDER="/a b")[4] == "/a b"
    (bin_dir / "other").symlink_to(python)
    assert printed(HORA_PYTHON=str(bin_dir / "other"))[0] == str(bin_dir / "other")
    assert list(tmp_path.rglob("broken")) == []


@pytest.mark.parametrize(
    ("fields", "nodes", "field", "message"),
    [
        ({"dataset": "chips@3"}, 1, "dataset.source", "only the service knows registered datasets"),
        ({"dataset": {"source": "digits", "validation": "chips@3"}}, 1, "dataset.validation", "only the service knows"),
        ({"model": {"name": "mlp", "weights": "job:12"}}, 1, "model.weights", "only the service knows the weights"),
        ({"after": ["3k9v"]}, 1, "after", "--dependency=afterok:ID"),
        ({"strategy": "mirrored"}, 1, "strategy", "runs only in the service"),
        ({"probe": {}}, 1, "probe", "use `hora probe`"),
        ({"gpu_memory_gb": 40}, 1, "gpu_memory_gb", "choose its type with gpu_model"),
        ({"gpu_model": "RTX 6000"}, 1, "gpu_model", "the type of the GPUs in Slurm"),
        ({}, 3, "--nodes", "4 gpus do not divide by 3 nodes"),
        ({}, 8, "--nodes", "4 gpus do not divide by 8 nodes"),
        ({"placement": "single_host"}, 2, "--nodes", "is 1 for placement: single_host"),
    ],
)
def test_what_needs_the_service_is_refused(fields: dict[str, Any], nodes: int, field: str, message: str) -> None:
    (problem,) = problems_alone(spec(**fields), nodes=nodes)
    assert problem.field == field
    assert message in problem.message
    fine = spec(gpu_model="a100", pool="slurm:main", model={"name": "resnet50", "weights": "imagenet"})
    assert problems_alone(fine, nodes=4) == []


OWN_CODE: dict[str, Any] = {
    "code": "0" * 64,
    "command": ["python", "train.py", "--lr={learning_rate}", "{artifacts}/it's $m", "$(touch broken)"],
    "gpus": 4, "batch_size": 16, "learning_rate": 0.001, "lr_scaling": "linear", "env": {"MY": "a 'b' $(touch broken)"},
}  # fmt: skip


def test_the_script_of_own_code_runs_its_command_with_the_plan_and_the_environment(tmp_path: Path) -> None:
    spec = spec_from(OWN_CODE)
    code, python = tmp_path / "my $(touch broken) code", tmp_path / "python"
    code.mkdir()
    for name, says in (
        ("python", 'printf "%s\\n" "$PWD" "$MY" "$PATH" "$MASTER_ADDR" "$@"'),
        ("scontrol", "echo n1; echo n2"),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{says}\n")
        (tmp_path / name).chmod(0o755)
    values = placeholders(spec, resolve_plan(spec, None), train=None, validation=None, artifacts=ARTIFACTS)
    places = {"python": str(python), "code": str(code), "library": "/opt/hora", "bin_dir": "/opt/env/bin"}
    given = {"spec": {"params": {"it's": "$(touch broken) `touch broken`\nEND\n"}}}
    text = command_script(spec, values, given, nodes=2, run="1a2b3c4d", **places)
    assert options(text)[:5] == [
        "--ntasks=4", "--job-name=hora-job-1a2b3c4d", "--nodes=2", "--ntasks-per-node=2", "--gres=gpu:2",
    ]  # fmt: skip
    variables = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_SUBMIT_DIR": str(tmp_path), "SLURM_JOB_ID": "7"}
    variables |= {"SLURM_NTASKS": "4", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "n[1-2]"}
    run = ["sh", "-c", text]
    printed = subprocess.check_output(run, env=variables, cwd=tmp_path, text=True).splitlines()
    assert printed[:4] == [str(code), "a 'b' $(touch broken)", f"/opt/env/bin:{variables['PATH']}", "n1"]
    launcher = "-P -m worker.horovodrun --slurm-job 7 -np 4 -H n1:2,n2:2 --gloo --disable-cache sh -c"
    assert " ".join(printed[4:]).startswith(launcher)
    artifacts = f"{tmp_path}/hora-job-1a2b3c4d/artifacts"
    assert printed[-5:] == ["python", "train.py", "--lr=0.004", f"{artifacts}/it's $m", "$(touch broken)"]
    assert Path(artifacts).is_dir()
    assert json.loads(Path(artifacts).with_name("run.json").read_text()) == given
    assert list(tmp_path.rglob("broken")) == []
    other = subprocess.run(run, env=variables | {"SLURM_NTASKS": "2"}, capture_output=True, text=True, check=False)
    assert (other.returncode, "for 4 ranks, and Slurm gave 2 tasks" in other.stderr) == (1, True)


def test_what_of_own_code_stays_behind_is_said() -> None:
    more = {"params": {"lr": 1}, "requirements": ["einops"], "early_stopping": {"monitor": "loss"}, "dataset": "data"}
    notes = not_exported(spec_from(OWN_CODE | more))
    assert [note.split(":")[1].strip() for note in notes] == [
        "requirements", "early_stopping", "a comparison of weights",
    ]  # fmt: skip
    assert not_exported(spec_from(OWN_CODE | {"gpus": 1})) == []
    (problem,) = problems_of_code(spec_from(OWN_CODE | {"environment": "empty"}))
    assert problem.field == "environment"
