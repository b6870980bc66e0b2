"""The parts of `make gpu-test` that need no card: what nvidia-smi says, its comparison, and the table."""

from collections.abc import Iterator

import pytest

from tests.gpu import __main__
from tests.gpu.checks import Machine
from tests.gpu.rows import Row


def test_after_a_broken_check_others_run_and_without_a_gpu_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: Machine) -> Iterator[Row]:
        raise OSError("the card | bus\nis gone")

    monkeypatch.setitem(__main__.CHECKS, "digits", broken)
    monkeypatch.setattr("sys.argv", ["gpu-test", "--device", "cpu", "--only", "digits,memory"])
    assert __main__.main() == 1
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "| digits | **failed** | OSError: the card \\| bus is gone |",
        "| memory growth | not run | no GPU |",
    ]
    monkeypatch.setattr(__main__, "find_gpus", list)
    monkeypatch.setattr("sys.argv", ["gpu-test"])
    assert __main__.main() == 2
    assert capsys.readouterr().out.startswith("There is nothing to check. This machine has no GPU: ")
