"""The parts of `make gpu-test` that need no card: what nvidia-smi says, its comparison, and the table."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.gpu import __main__
from tests.gpu.checks import Machine, Row
from tests.gpu.smi import differences, parse_smi
from worker.host.gpus import GpuReading

# As nvidia-smi prints it with `--format=csv,noheader,nounits`.
SAID = """\
GPU-5a1e, NVIDIA A100-SXM4-80GB, 550.54.15, 97, 40536, 389.12, 61, 1410
GPU-77b0, NVIDIA GeForce RTX 3090, 550.54.15, [N/A], 1, [Not Supported], 30, 210
"""
READ = GpuReading(percent=97.0, memory_bytes=40536 * 2**20, power_w=389.12, temperature_c=61.0, sm_clock_mhz=1410.0)


def test_each_card_is_read_and_a_figure_that_differs_from_that_of_nvidia_smi_is_named() -> None:
    cards = parse_smi(SAID)
    assert (cards["GPU-5a1e"].reading, cards["GPU-5a1e"].driver) == (READ, "550.54.15")
    assert cards["GPU-77b0"].reading == GpuReading(None, 2**20, None, 30.0, 210.0)
    before, after = replace(READ, power_w=300.0, percent=80.0), replace(READ, power_w=420.0, sm_clock_mhz=1300.0)
    assert differences(before, READ, after) == [], "it lies between"
    for metric, value in (("percent", 50.0), ("memory_bytes", 2**30), ("power_w", None), ("temperature_c", 90.0)):
        other = replace(READ, **{metric: value})
        (wrong,) = differences(other, READ, other)
        assert wrong.startswith(f"{metric} ")
    without = replace(READ, power_w=None)
    assert [bool(differences(read, without, read)) for read in (READ, without)] == [True, False]


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
