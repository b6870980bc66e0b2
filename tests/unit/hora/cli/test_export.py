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


def test_a_wrong_spec_is_refused_as_by_submit(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "epochs: " in refused(capsys, spec, "--slurm", "--set", "epochs=0")
    assert "cannot be read" in refused(capsys, "/nowhere/spec.yaml", "--slurm")
    assert "no such model; there are: lenet5" in refused(capsys, spec, "--slurm", "--set", "model=lenet6")
    assert "HORA_DATA_ROOTS is not set" in refused(capsys, spec, "--slurm", "--set", "dataset=/data/chips")
    # Code is refused before it is looked for.
    assert "code: code of your own runs only in the service" in refused(capsys, spec, "--slurm", "--set", "code=.")
    assert "give --slurm" in refused(capsys, spec)
    assert "'--nodes'" in refused(capsys, spec, "--slurm", "--nodes", "0")
