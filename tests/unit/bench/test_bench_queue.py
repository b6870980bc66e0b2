"""The replay of a trace: what is read, refused and printed."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.queue import POLICIES, main, replay, trial
from bench.queue_trace import TraceError, many_times, read_trace

HEADER = "timestamp,duration,num_gpus\n"


def trace(folder: Path, *rows: str, header: str = HEADER) -> Path:
    path = folder / "trace.csv"
    path.write_text(header + "".join(f"{row}\n" for row in rows))
    return path


def figures(capsys: pytest.CaptureFixture[str], path: Path, slots: int, policies: str, *options: str) -> dict[str, Any]:
    """What a replay on one host prints as JSON."""
    argv = ["--trace", str(path), "--hosts", "1", "--slots", str(slots), "--policies", policies, *options]
    assert main([*argv, "--json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_figures_of_two_jobs_on_one_slot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second waits 50 s for the first; the third needs more GPUs than there are."""
    path = trace(tmp_path, "2017-10-03 14:00:00,100,1", "2017-10-03 14:00:50,1200.0,1", "2017-10-03 14:00:10,5,2")
    result = figures(capsys, path, 1, "fifo,hora-fair")
    assert result["jobs"] == 2
    assert result["offered_load"] == pytest.approx(1300 / 50)
    for one in result["policies"]:
        assert (one["mean_wait_s"], one["p50_wait_s"], one["p99_wait_s"]) == pytest.approx((25, 0, 50))
        assert one["slowdown"] == pytest.approx((1 + 1250 / 1200) / 2)
        assert one["utilization"] == pytest.approx(1.0)
        assert (one["preemptions"], one["lost_s"], one["big_mean_wait_s"]) == (0, 0, None)
    assert [one["policy"] for one in result["policies"]] == ["fifo", "hora-fair"]

    rows = [f"{100 * number},{50 * number + 1},{1 + 7 * (number % 2)},ann,vision" for number in range(20)]
    path = trace(tmp_path, *rows, header="timestamp,duration,num_gpus,user,project\n")
    assert main(["--trace", str(path), "--hosts", "2", "--slots", "4"]) == 0
    printed = capsys.readouterr().out
    assert [text for text in (*POLICIES, "vision/ann") if text not in printed] == []


def test_a_trace_can_come_many_times_at_another_load_with_passes_at_intervals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two slots. Passes every 60 s: all starts are at whole minutes, and ends where they are."""
    path = trace(tmp_path, "0,90,1", "100,90,1", "200,90,1")
    how_often = ("--copies", "2", "--load", "0.75", "--pass-every-s", "60")
    result = figures(capsys, path, 2, "hora-fair,hora-fifo", *how_often)
    assert (result["jobs"], result["offered_load"]) == (6, pytest.approx(0.75))
    times = many_times(read_trace(path, hosts=1, slots=2), 2)
    assert [(job.submitted_s, job.user) for job in times] == [
        (0, "0"), (0, "0"), (0, "1"), (100, "0"), (100, "1"), (100, "1"),
    ]  # fmt: skip
    for one in result["policies"]:
        assert set(one["users"]) == {"0", "1"}
    jobs = trial(read_trace(path, hosts=1, slots=2), 2)
    replay("hora-fair", jobs, 1, 2, every_s=60)
    assert [(job.first_start_s, job.ended_s) for job in jobs] == [(0, 90), (120, 210), (240, 330)]


def test_easy_lets_jobs_pass_that_do_not_delay_the_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two slots: the wide job waits for the long one; a short job passes it, one that is too long does not."""
    path = trace(tmp_path, "0,100,1", "1,100,2", "2,500,1", "3,50,1")
    result = figures(capsys, path, 2, "fifo,firstfit,easy,sjf")
    waits = {one["policy"]: one["mean_wait_s"] for one in result["policies"]}
    assert waits["fifo"] == pytest.approx((0 + 99 + 198 + 197) / 4)
    assert waits["easy"] == pytest.approx((0 + 99 + 198 + 0) / 4)
    assert waits["firstfit"] == pytest.approx((0 + 501 + 0 + 97) / 4)


@pytest.mark.parametrize(
    ("rows", "header", "says"),
    [
        (["0,1,1"], "time,duration,num_gpus\n", "columns timestamp are missing"),
        (["0,-1,1"], HEADER, "line 2: duration is -1"),
        (["0,nan,1"], HEADER, "line 2: duration is 'nan'"),
        (["0,1,1", "0,1,0.5"], HEADER, "line 3: num_gpus is 0.5"),
        (["0,1,7"], HEADER, "no job that fits"),  # not as equal parts on both hosts
        (["0,1,99"], HEADER, "no job that fits on 2 hosts of 4 slots (1 rows)"),
    ],
)
def test_a_wrong_trace_is_refused(tmp_path: Path, rows: list[str], header: str, says: str) -> None:
    with pytest.raises(TraceError) as refused:
        read_trace(trace(tmp_path, *rows, header=header), hosts=2, slots=4)
    assert says in str(refused.value)
