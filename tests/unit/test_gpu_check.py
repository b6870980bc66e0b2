"""The parts of `make gpu-test` that need no card: what nvidia-smi says, its comparison, and the table."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.gpu import __main__
from tests.gpu.checks import Machine
from tests.gpu.rows import Row, Verdict
from tests.gpu.smi import compared, parse_smi
from worker.host.gpus import GpuReading

# As nvidia-smi prints it with `--format=csv,noheader,nounits`.
SAID = """\
GPU-5a1e, NVIDIA A100-SXM4-80GB, 550.54.15, 81920, 97, 40536, 389.12, 61, 1410
GPU-77b0, NVIDIA GeForce RTX 3090, 550.54.15, 24576, [N/A], 1, [Not Supported], 30, 210
"""
OTHER = {"percent": 50.0, "memory_bytes": 2**30, "power_w": None, "temperature_c": 90.0, "sm_clock_mhz": 210.0}
READ = GpuReading(percent=97.0, memory_bytes=40536 * 2**20, power_w=389.12, temperature_c=61.0, sm_clock_mhz=1410.0)


def test_each_card_is_read_and_what_it_does_not_report_is_none() -> None:
    cards = parse_smi(SAID)
    assert cards["GPU-5a1e"].reading == READ
    assert (cards["GPU-5a1e"].driver, cards["GPU-5a1e"].memory_bytes) == ("550.54.15", 80 * 2**30)
    other = cards["GPU-77b0"]
    assert other.name == "NVIDIA GeForce RTX 3090"
    assert (other.reading.percent, other.reading.power_w, other.reading.memory_bytes) == (None, None, 2**20)


@pytest.mark.parametrize(
    ("before", "after", "differs"),
    [
        ({"power_w": 300.0, "temperature_c": 58.0}, {"power_w": 420.0, "temperature_c": 64.0}, None),  # it lies between
        ({"percent": 80.0}, {"percent": 85.0, "sm_clock_mhz": 1300.0}, None),
        *(({metric: value}, {metric: value}, metric) for metric, value in OTHER.items()),
    ],
)
def test_a_figure_that_differs_from_that_of_nvidia_smi_is_named(
    before: dict[str, float], after: dict[str, float], differs: str | None
) -> None:
    row = compared(replace(READ, **before), READ, replace(READ, **after))
    assert row.verdict is (Verdict.FAILED if differs else Verdict.OK)
    assert differs is None or row.figures.startswith(f"differ: {differs}. ")
    without = replace(READ, power_w=None)
    assert compared(READ, without, READ).verdict is Verdict.FAILED
    assert compared(without, without, without).verdict is Verdict.OK


def test_without_a_gpu_it_says_so_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(__main__, "find_gpus", list)
    monkeypatch.setattr("sys.argv", ["gpu-test"])
    assert __main__.main() == 2
    assert capsys.readouterr().out.startswith("There is nothing to check. This machine has no GPU: ")


def test_a_check_that_breaks_fails_and_the_others_still_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: Machine) -> Iterator[Row]:
        raise OSError("the card | bus\nis gone")

    monkeypatch.setitem(__main__.CHECKS, "digits", broken)
    monkeypatch.setattr("sys.argv", ["gpu-test", "--device", "cpu", "--only", "digits,samples,memory"])
    assert __main__.main() == 1
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "| digits | **failed** | OSError: the card \\| bus is gone |",
        "| Hora's samples / nvidia-smi | not run | no GPU |",
        "| memory growth | not run | no GPU |",
    ]
