"""`hora export`: its exit codes and messages."""

import sys
from pathlib import Path

import pytest

from hora.cli.app import main


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with a spec, where no data root is set."""
    monkeypatch.delenv("HORA_DATA_ROOTS", raising=False)
    file = tmp_path / "spec.yaml"
    file.write_text("dataset: digits\ngpus: 4\ndevice: cpu\n")
    return str(file)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["export", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    return " ".join(printed.err.replace("│", "").split())


def test_the_script_goes_to_standard_output(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    scripts = set()
    for _ in range(2):
        assert main(["export", spec, "--slurm", "--nodes", "2", "--set", "epochs=3"]) == 0
        script, complaint = capsys.readouterr()
        assert complaint == ""
        for text in ("#SBATCH --ntasks-per-node=2\n", f"python=${{HORA_PYTHON:-{sys.executable}}}\n", '"epochs": 3'):
            assert text in script
        scripts.add(script)
    assert len(scripts) == 2  # each has a folder of its own


def test_own_code_is_exported_with_its_folder(tmp_path: Path, spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text("")
    own = tmp_path / "own.yaml"
    own.write_text("code: .\ncommand: [python, train.py, '{params.lr}']\nparams: {lr: 3}\ngpus: 2\n")
    assert main(["export", str(own), "--slurm"]) == 0
    script, told = capsys.readouterr()
    assert f"code=${{HORA_CODE_FOLDER:-{tmp_path}}}\n" in script
    assert script.endswith(" sh python train.py 3\n")
    assert told.startswith("Not exported: a comparison of weights: ")
    assert "# Not exported: a comparison of weights: " in script
    assert "code: only the service has this archive" in refused(
        capsys, str(own), "--slurm", "--set", f"code={'a' * 64}"
    )
    assert "dataset.source: " in refused(capsys, str(own), "--slurm", "--set", "dataset=/data/chips")


def test_a_wrong_spec_is_refused_as_by_submit(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "epochs: " in refused(capsys, spec, "--slurm", "--set", "epochs=0")
    assert "cannot be read" in refused(capsys, "/nowhere/spec.yaml", "--slurm")
    assert "no such model; there are: lenet5" in refused(capsys, spec, "--slurm", "--set", "model=lenet6")
    assert "HORA_DATA_ROOTS is not set" in refused(capsys, spec, "--slurm", "--set", "dataset=/data/chips")
    assert "give --slurm" in refused(capsys, spec)
    assert "'--nodes'" in refused(capsys, spec, "--slurm", "--nodes", "0")
