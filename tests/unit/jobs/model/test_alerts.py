"""Which alerts of a job are kept."""

from typing import Any

from jobs.model.alerts import MOST_A_JOB, MOST_A_MINUTE, Alert, kept


def alert(at: float, title: str = "slow", **fields: Any) -> Alert:
    return Alert(at, "info", title, **fields)


def test_a_script_may_send_some_a_minute_and_some_in_all_and_is_told_once() -> None:
    first = kept([alert(number / 10) for number in range(1000)], [])
    assert [one.at for one in first][:MOST_A_MINUTE] == [number / 10 for number in range(MOST_A_MINUTE)]
    assert first[MOST_A_MINUTE].left_out
    assert [one.at >= 60 for one in first[MOST_A_MINUTE + 1 :]] == [True] * MOST_A_MINUTE
    many = kept([alert(60.0 * minute) for minute in range(1000)], first)
    assert len(many) == MOST_A_JOB - 2 * MOST_A_MINUTE  # what was stored counts, and nothing is said again
    assert kept([alert(10**6)], [*first, *many]) == []


def test_a_repeat_within_the_wait_is_left_out_whichever_rank_comes_first() -> None:
    wanted = [alert(10.5, rank=1, wait_s=60), alert(10.0, rank=0, wait_s=60), alert(10.1, "other", wait_s=60)]
    assert [(one.title, one.rank) for one in kept(wanted, [])] == [("slow", 1), ("other", None)]
    assert kept([alert(70.0, wait_s=60)], [alert(10.5)]) == []
    assert len(kept([alert(70.6, wait_s=60), alert(70.7)], [alert(10.5)])) == 2


def test_a_rule_speaks_once_and_no_limit_stops_it() -> None:
    noise = [alert(number * 60.0) for number in range(MOST_A_JOB)]
    wanted = [alert(1.0, "loss > 3", rule=0), alert(2.0, "loss > 3", rule=0), alert(2.0, "CUDA", rule=1)]
    assert [one.rule for one in kept(wanted, noise)] == [0, 1]
    assert kept(wanted, wanted) == []


def test_the_data_of_an_event_is_what_is_known_and_makes_the_alert_again() -> None:
    one = alert(1.0, rank=0, rule=0, epoch=0)
    assert one.data == {"level": "info", "title": "slow", "text": "", "rank": 0, "rule": 0, "epoch": 0}
    assert Alert(1.0, **one.data) == one
