"""The batch script of an exported spec: what it asks for, that nothing breaks out of it, and what is refused."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hora.render.slurm_script import needs_service, problems_alone, slurm_script
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
    head, _, rest = text.partition("\n\n")
    assert head.splitlines() == [
        "#!/bin/sh",
        "#SBATCH --job-name=hora-digits-1a2b3c4d",
        "#SBATCH --nodes=2",
        "#SBATCH --ntasks-per-node=2",
        "#SBATCH --gres=gpu:a100:2",
        "#SBATCH --partition=main",
        "#SBATCH --time=70",
        "#SBATCH --signal=B:USR2@120",
        "#SBATCH --no-requeue",
        "#SBATCH --output=hora-digits-1a2b3c4d-%j.log",
    ]
    body = [line for line in rest.splitlines() if not line.startswith("#")]
    assert body[:4] == [
        "python=${HORA_PYTHON:-/opt/hora/bin/python}",
        "folder=${HORA_RUN_FOLDER:-$SLURM_SUBMIT_DIR/hora-digits-1a2b3c4d}",
        "",
        """exec "$python" -P -m worker.alone "$folder" <<'END'""",
    ]
    assert body[4] == "{"
    assert body[-2:] == ["}", "END"]


@pytest.mark.parametrize(
    ("fields", "asked", "absent"),
    [
        ({"device": "cpu", "time_limit_s": 1}, "--time=11", "gpu"),
        ({"device": "auto"}, "--gres=gpu:4", "--time"),
        ({"device": "gpu"}, "--gres=gpu:4", "--time"),
    ],
)
def test_a_job_asks_for_gpus_and_time_only_if_it_needs_them(fields: dict[str, Any], asked: str, absent: str) -> None:
    text = " ".join(options(script(**fields)))
    assert (asked in text, absent in text) == (True, False)


def test_the_spec_in_the_script_is_the_spec() -> None:
    fields = {"epochs": 7, "early_stopping": None, "labels": {"a": "END\\"}, "model": {"name": "mlp", "dropout": 0.5}}
    assert spec_in(script(**fields)) == spec(**fields)


@pytest.mark.parametrize(
    "name", ["$(touch broken)", "`touch broken`", "a'b\"c", "../../x", "%j %u", "END", "学习", "-", "#", "x" * 128]
)
def test_a_name_stays_a_name(name: str) -> None:
    text = script(name=name)
    named, output = options(text)[0], options(text)[-1]
    assert named.startswith("--job-name=hora-")
    assert named.endswith("-1a2b3c4d")
    assert set(named.removeprefix("--job-name=")) <= set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
    )
    assert output == f"--output={named.removeprefix('--job-name=')}-%j.log"
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
        return subprocess.run(
            argv, env=variables | more, cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout.splitlines()

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
    assert problems_alone(fine, nodes=4) == needs_service(json.loads(fine.model_dump_json())) == []
    own_code = {"code": ".", "command": ["python"], "gpus": 1}
    assert [problem.field for problem in needs_service(own_code)] == ["code", "command"]
